package e2e

import (
	"bufio"
	"bytes"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestTheTwoCurlLinesShowOneChargeAndAReplay does what the README says first: start it in an empty folder,
// as `make run` does, copy the two lines that it prints, and look.
func TestTheTwoCurlLinesShowOneChargeAndAReplay(t *testing.T) {
	t.Parallel()
	curlBinary(t)
	gateway := ready(start(t, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"))
	lines := curlLines(t, gateway)
	first, second := runShell(t, lines[0]), runShell(t, lines[1])
	id := regexp.MustCompile(`"id":"(ch_\w+)"`)
	charged, replayed := id.FindStringSubmatch(first), id.FindStringSubmatch(second)
	if charged == nil || replayed == nil || charged[1] != replayed[1] {
		t.Errorf("the lines gave\n%s\nand\n%s\nwant the same charge", first, second)
	}
	const mark = "idempotency-replayed: true"
	if strings.Contains(strings.ToLower(first), mark) || !strings.Contains(strings.ToLower(second), mark) {
		t.Errorf("the lines gave\n%s\nand\n%s\nwant the second marked as a replay", first, second)
	}
	if booked := ledger(t, gateway.url, ""); len(booked) != 1 || booked[0].ID != charged[1] {
		t.Errorf("booked are %+v, want one charge", booked)
	}
}

// curlLines are the command lines that the process printed: each from "curl" to the end of its line, and
// on where that ends in a backslash.
func curlLines(tb testing.TB, gateway *host) []string {
	tb.Helper()
	var lines []string
	more := false
	in := bufio.NewScanner(bytes.NewReader([]byte(gateway.log())))
	for in.Scan() {
		line := strings.TrimSpace(in.Text())
		switch {
		case more:
			lines[len(lines)-1] += "\n" + line
		case strings.HasPrefix(line, "curl "):
			lines = append(lines, line)
		default:
			continue
		}
		more = strings.HasSuffix(line, `\`)
	}
	if len(lines) != 2 {
		tb.Fatalf("it printed %d curl lines, want 2: %q", len(lines), lines)
	}
	return lines
}

func runShell(tb testing.TB, line string) string {
	tb.Helper()
	out, err := exec.CommandContext(tb.Context(), "sh", "-c", line).CombinedOutput()
	if err != nil {
		tb.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

//go:build linux || darwin

package testenv

import (
	"os/exec"
	"strings"
	"testing"
)

func TestToolIsBuiltAndRuns(t *testing.T) {
	t.Parallel()
	out, err := exec.Command(Tool(t, "stripe-mock"), "-version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "stripe-mock") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestUnknownToolFailsAndNamesThoseThatAre(t *testing.T) {
	t.Parallel()
	r := record(t, func(tb testing.TB) { Tool(tb, "no-such-tool") })
	if !strings.Contains(r.failure, "stripe-mock") {
		t.Errorf("the failure was %q", r.failure)
	}
}

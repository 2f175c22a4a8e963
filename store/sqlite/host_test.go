//go:build unix

package sqlite_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/store/sqlite"
)

// The test binary is also the program of the other processes. What one does is named by hostRole, the file
// by hostFile; it says on its output how far it is, and goes on at a line of its input.
const (
	hostRole = "FIFTY_SQLITE_TEST_ROLE"
	hostFile = "FIFTY_SQLITE_TEST_FILE"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(hostRole); role != "" {
		if err := hostMain(role, os.Getenv(hostFile)); err != nil {
			fmt.Println("error:", err)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// raceKeys is how many keys two processes fight for.
const raceKeys = 100

func hostMain(role, path string) error {
	ctx := context.Background()
	ready := func(text string) error {
		fmt.Println(text)
		_, err := bufio.NewReader(os.Stdin).ReadString('\n')
		return err
	}
	if role == "migrate" {
		if err := ready("ready"); err != nil {
			return err
		}
	}
	cfg := sqlite.Config{}
	if role == "steps" {
		cfg = cfg.WithHook(stopsInItsThirdStep(ready))
	}
	s, err := sqlite.Open(ctx, path, cfg)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.Migrate(ctx); err != nil {
		return err
	}
	switch role {
	case "migrate":
		fmt.Println("done")
		return nil
	case "claim":
		if err := ready("ready"); err != nil {
			return err
		}
		return hostClaims(ctx, s)
	case "hold":
		if _, err := s.Keys().Claim(ctx, []idempotency.Attempt{attempt("dead", "k")}); err != nil {
			return err
		}
		return ready("claimed")
	case "hold in a transaction":
		_, err := s.Keys().InTx(ctx, attempt("dead", "k"), func(ctx context.Context, tx *sql.Tx) (idempotency.Response, error) {
			if err := effect(ctx, tx, "e"); err != nil {
				return idempotency.Response{}, err
			}
			return idempotency.Response{}, ready("working")
		})
		return err
	case "steps":
		return hostSteps(ctx, s)
	case "sweep":
		if err := ready("ready"); err != nil {
			return err
		}
		return hostSweeps(ctx, s)
	case "limited":
		return hostLimited(ctx, s, path)
	case "limited sweep":
		return hostLimitedSweep(ctx, s, path)
	default:
		return fmt.Errorf("no role %q", role)
	}
}

// hostClaims claims the keys one by one, and says which it won.
func hostClaims(ctx context.Context, s *sqlite.Store) error {
	for i := range raceKeys {
		key := fmt.Sprint("k", i)
		got, err := s.Keys().Claim(ctx, []idempotency.Attempt{attempt(fmt.Sprint(os.Getpid()), key)})
		if err != nil {
			return err
		}
		if got[0].Won {
			fmt.Println("won", key)
		}
	}
	fmt.Println("done")
	return nil
}

// host is another process on the same file.
type host struct {
	tb  testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// start starts a process, with changes to how it runs if any.
func start(tb testing.TB, role, path string, changes ...func(*exec.Cmd)) *host {
	tb.Helper()
	program, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), hostRole+"="+role, hostFile+"="+path)
	cmd.Stderr = os.Stderr
	for _, change := range changes {
		change(cmd)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	h := &host{tb, cmd, in, bufio.NewReader(out)}
	tb.Cleanup(h.kill)
	return h
}

// kill ends the process as SIGKILL does: it gets no chance to tidy up.
func (h *host) kill() {
	if h.cmd.ProcessState == nil {
		_ = h.cmd.Process.Kill()
		_ = h.cmd.Wait()
	}
}

// says waits for the next line, which must be this one.
func (h *host) says(line string) {
	h.tb.Helper()
	if got := h.line(); got != line {
		h.tb.Fatalf("the process said %q, not %q", got, line)
	}
}

func (h *host) line() string {
	h.tb.Helper()
	line, err := h.out.ReadString('\n')
	if err != nil {
		h.tb.Fatalf("the process said %q and then %v", line, err)
	}
	return strings.TrimSpace(line)
}

// goOn lets a process that waits go on.
func (h *host) goOn() {
	h.tb.Helper()
	if _, err := io.WriteString(h.in, "\n"); err != nil {
		h.tb.Fatal(err)
	}
}

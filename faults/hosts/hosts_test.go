//go:build unix

package hosts_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/faults/hosts"
)

// graceMax is for a program that ends properly.
const graceMax = 30 * time.Second

func TestWaitForReturnsTheSubmatches(t *testing.T) {
	t.Parallel()
	h := start(t, config("echo"))
	if found := waitFor(t, h, `ready (\d+)`); found[1] != strconv.Itoa(h.PID()) {
		t.Errorf("the host says %q, PID is %d", found, h.PID())
	}
	if _, err := io.WriteString(h.Stdin(), "hello\nworld\n"); err != nil {
		t.Fatal(err)
	}
	waitFor(t, h, `got world\n`)
	if lines := h.Lines(); !slices.Equal(lines[1:], []string{"got hello", "got world"}) {
		t.Errorf("the lines are %q", lines)
	}
}

func TestWaitForEndsWithItsContext(t *testing.T) {
	t.Parallel()
	h := start(t, config("echo"))
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	go func() {
		_, _ = h.WaitFor(t.Context(), "ready") // the host lives when the context ends
		cancel(why)
	}()
	if _, err := h.WaitFor(ctx, "never"); !errors.Is(err, why) {
		t.Errorf("got %v, want the context's cause", err)
	}
}

func TestWaitForSaysThatTheHostHasEnded(t *testing.T) {
	t.Parallel()
	h := start(t, config("echo"))
	if h.ExitCode() != -1 {
		t.Errorf("exit code %d of a host that runs", h.ExitCode())
	}
	if err := h.Stdin().Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := h.WaitFor(t.Context(), "never"); !errors.Is(err, hosts.ErrExited) || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("got %v", err)
	}
	if h.ExitCode() != 3 {
		t.Errorf("exit code %d, want 3", h.ExitCode())
	}
	waitFor(t, h, "ready") // it was written before the end
	if _, err := h.WaitFor(t.Context(), "("); err == nil || errors.Is(err, hosts.ErrExited) {
		t.Errorf("a bad pattern gave %v", err)
	}
}

func TestKilledHostIsGoneWhenKillReturns(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(*hosts.Host) error{
		"running": func(*hosts.Host) error { return nil },
		"paused":  (*hosts.Host).Pause,
		"killed":  (*hosts.Host).Kill,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calls := newLine(t)
			h := start(t, config("call", calls.addr()))
			open := calls.accept(t, 1)
			if err := before(h); err != nil {
				t.Fatal(err)
			}
			if err := h.Kill(); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(h.PID(), 0); !errors.Is(err, syscall.ESRCH) {
				t.Errorf("process %d: %v", h.PID(), err)
			}
			<-h.Exited()
			wait(t, open)
			if h.ExitCode() != -1 {
				t.Errorf("exit code %d after kill -9", h.ExitCode())
			}
			if err := h.Signal(os.Interrupt); !errors.Is(err, os.ErrProcessDone) {
				t.Errorf("a signal to what is gone: %v", err)
			}
			for what, act := range map[string]func() error{"Pause": h.Pause, "Resume": h.Resume} {
				if err := act(); !errors.Is(err, hosts.ErrExited) {
					t.Errorf("%s of what is gone: %v", what, err)
				}
			}
		})
	}
}

func TestStopLetsTheHostEndProperly(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(*hosts.Host) error{
		"running": func(*hosts.Host) error { return nil },
		"paused":  (*hosts.Host).Pause,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := start(t, config("obey"))
			waitFor(t, h, "ready")
			if err := before(h); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := h.Stop(graceMax); err != nil {
					t.Error(err)
				}
			}
			if !strings.HasSuffix(h.Text(), "bye\n") || h.ExitCode() != 0 {
				t.Errorf("exit code %d, and it wrote %q", h.ExitCode(), h.Text())
			}
		})
	}
}

func TestStopKillsAHostThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	h := start(t, config("stubborn"))
	waitFor(t, h, "ready")
	if err := h.Stop(time.Millisecond); !errors.Is(err, hosts.ErrStopKilled) {
		t.Errorf("got %v", err)
	}
	<-h.Exited()
}

func TestStopOfAKilledHostIsNoFailure(t *testing.T) {
	t.Parallel()
	h := start(t, config("stubborn"))
	if err := h.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-h.Exited()
	if err := h.Stop(time.Millisecond); err != nil {
		t.Errorf("got %v", err)
	}
}

func TestRestartedHostIsAnotherProcessWithAnOutputOfItsOwn(t *testing.T) {
	t.Parallel()
	h := start(t, config("echo"))
	for range 3 {
		before, pid := h.Exited(), waitFor(t, h, `ready (\d+)`)[1]
		if _, err := io.WriteString(h.Stdin(), "once\n"); err != nil {
			t.Fatal(err)
		}
		waitFor(t, h, "got once")
		if err := h.Restart(); err != nil {
			t.Fatal(err)
		}
		<-before
		if now := waitFor(t, h, `ready (\d+)`)[1]; now == pid || strings.Contains(h.Text(), "once") {
			t.Errorf("after process %s came %s, with the output %q", pid, now, h.Text())
		}
	}
}

func TestHostsRestartedAndKilledByManyAtOnceLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	calls := newLine(t)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := calls.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 1)) // until that process is gone
			_ = conn.Close()
		}
	}()
	h := start(t, config("call", calls.addr()))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for _, act := range []func() error{h.Restart, h.Kill, h.Restart} {
				if err := act(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if err := h.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := calls.Close(); err != nil {
		t.Fatal(err)
	}
	<-ended // so each process that called is gone
}

func TestOutputIsKeptWithinItsBoundAndPassedOnWhole(t *testing.T) {
	t.Parallel()
	var passed bytes.Buffer
	c := config("flood")
	c.Output = &passed
	h := start(t, c)
	waitFor(t, h, "the end\n")
	<-h.Exited()
	if n := len(h.Text()); n > hosts.OutputMax || n < hosts.OutputMax/2 {
		t.Errorf("%d bytes are kept", n)
	}
	if !strings.HasSuffix(passed.String(), h.Text()) || passed.Len() <= 2*hosts.OutputMax-1024 {
		t.Errorf("%d bytes were passed on", passed.Len())
	}
}

// fullDisk takes nothing.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestOutputThatCanNotBePassedOnDoesNotEndTheHost(t *testing.T) {
	t.Parallel()
	c := config("flood")
	c.Output = fullDisk{}
	h := start(t, c)
	waitFor(t, h, "the end\n")
	<-h.Exited()
	if h.ExitCode() != 0 {
		t.Errorf("exit code %d", h.ExitCode())
	}
}

func TestProcessLeftBehindDoesNotHoldTheEndBack(t *testing.T) {
	t.Parallel()
	calls := newLine(t)
	h := start(t, config("heir", calls.addr()))
	left := calls.accept(t, 1)[0]
	<-h.Exited() // while what is left has the host's output open
	waitFor(t, h, "the last words")
	if _, err := io.WriteString(left, "end"); err != nil {
		t.Fatal(err)
	}
	wait(t, []net.Conn{left})
}

func TestClockReachesOnlyTheHostThatIsMeant(t *testing.T) {
	t.Setenv("FIFTY_FAULT_CLOCK", "+1h")
	own := append(os.Environ(), "FIFTY_FAULT_CLOCK=+2h")
	for _, tt := range []struct {
		env   []string
		clock time.Duration
		want  string
	}{
		{nil, 0, ""},
		{nil, 4 * time.Hour, "4h0m0s"},
		{nil, -90 * time.Minute, "-1h30m0s"},
		{own, 0, "+2h"},
		{own, 4 * time.Hour, "4h0m0s"},
	} {
		c := config("env")
		c.Env, c.Clock = tt.env, tt.clock
		if got := waitFor(t, start(t, c), `clock "(.*)"`)[1]; got != tt.want {
			t.Errorf("clock %v, own environment %t: the host gets %q, want %q", tt.clock, tt.env != nil, got, tt.want)
		}
	}
	if own[len(own)-1] != "FIFTY_FAULT_CLOCK=+2h" {
		t.Error("the caller's environment was changed")
	}
}

func TestStartSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		config hosts.Config
		says   string
	}{
		{hosts.Config{}, "Path"},
		{hosts.Config{Path: "no-such-program-of-ours"}, "no-such-program-of-ours"},
		{hosts.Config{Path: os.Args[0], Dir: "/no/such/folder"}, "/no/such/folder"},
	} {
		if h, err := hosts.Start(tt.config); h != nil || err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%+v: %v, %v", tt.config, h, err)
		}
	}
}

func TestStartAllStartsAll(t *testing.T) {
	t.Parallel()
	calls := newLine(t)
	all, err := hosts.StartAll(5, func(i int) hosts.Config {
		c := config("call", calls.addr())
		c.Name = fmt.Sprint("host ", i)
		return c
	})
	if err != nil {
		t.Fatal(err)
	}
	open := calls.accept(t, 5)
	if err := hosts.KillAll(all); err != nil {
		t.Error(err)
	}
	wait(t, open)
	if len(all) != 5 || all[4].Name() != "host 4" {
		t.Errorf("%d hosts, the last is %q", len(all), all[len(all)-1].Name())
	}
}

func TestStartAllStartsNoneWhenOneCanNot(t *testing.T) {
	t.Parallel()
	calls := newLine(t)
	var open []net.Conn
	all, err := hosts.StartAll(3, func(i int) hosts.Config {
		if i < 2 {
			return config("call", calls.addr())
		}
		open = calls.accept(t, 2) // so two run
		return hosts.Config{Path: "no-such-program-of-ours"}
	})
	if all != nil || err == nil {
		t.Fatalf("got %v, %v", all, err)
	}
	wait(t, open)
}

func TestStartAllRefusesOddNumbers(t *testing.T) {
	t.Parallel()
	for _, n := range []int{-1, 0, hosts.AllMax + 1, 10_000} {
		all, err := hosts.StartAll(n, func(int) hosts.Config {
			t.Error("a host was asked for")
			return hosts.Config{}
		})
		if all != nil || err == nil || !strings.Contains(err.Error(), strconv.Itoa(hosts.AllMax)) {
			t.Errorf("%d: %v, %v", n, all, err)
		}
	}
}

func TestHostsEndWithTheirParentHoweverItEnds(t *testing.T) {
	t.Parallel()
	for how, end := range map[string]func(*hosts.Host) error{
		"os.Exit": nil,
		"panic":   nil,
		"kill -9": (*hosts.Host).Kill,
		"Ctrl-C":  func(h *hosts.Host) error { return h.Signal(os.Interrupt) },
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			calls := newLine(t)
			p := start(t, config("parent", how, calls.addr()))
			open := calls.accept(t, 2)
			if _, err := io.WriteString(p.Stdin(), "go\n"); err != nil {
				t.Fatal(err)
			}
			waitFor(t, p, "paused")
			if end != nil {
				if err := end(p); err != nil {
					t.Fatal(err)
				}
			}
			wait(t, open)
		})
	}
}

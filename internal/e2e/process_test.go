package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/faults/hosts"
)

// process is one running program, mostly fifty, which fails its test where it does not obey. Its methods are
// for the goroutine of the test that started it, except for log.
type process struct {
	tb    testing.TB
	host  *hosts.Host
	ended bool // on purpose
	foul  bool // a program that is not ours need not end properly
}

// start runs fifty with the given arguments in a folder of its own, until the test ends; it must then end
// properly on SIGTERM.
func start(tb testing.TB, args ...string) *process {
	tb.Helper()
	return launch(tb, hosts.Config{Path: fiftyBinary(tb), Args: args})
}

// startTool runs another program until the test ends.
func startTool(tb testing.TB, path string, args ...string) *process {
	tb.Helper()
	p := launch(tb, hosts.Config{Path: path, Args: args})
	p.foul = true
	return p
}

// launch runs a program without the environment variables that steer fifty, in a folder of its own.
func launch(tb testing.TB, c hosts.Config) *process {
	tb.Helper()
	c.Dir = tb.TempDir()
	c.Name = filepath.Base(c.Path) + " " + strings.Join(c.Args, " ")
	c.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "FIFTY_") })
	h, err := hosts.Start(c)
	if err != nil {
		tb.Fatal(err)
	}
	p := &process{tb: tb, host: h}
	tb.Cleanup(p.cleanup)
	return p
}

func (p *process) cleanup() {
	switch {
	case p.ended:
	case p.foul:
		p.kill()
	default:
		p.terminate()
	}
	if p.tb.Failed() {
		p.tb.Logf("%s (pid %d) wrote:\n%s", p.host.Name(), p.host.PID(), p.log())
	}
}

// terminate asks the process to end, and fails the test unless it does so properly.
func (p *process) terminate() {
	p.tb.Helper()
	p.signal(syscall.SIGTERM)
	if code := p.exitCode(); code != 0 {
		p.tb.Errorf("%s: exit code %d after SIGTERM, want 0", p.host.Name(), code)
	}
}

// kill is kill -9.
func (p *process) kill() {
	p.tb.Helper()
	p.ended = true
	if err := p.host.Kill(); err != nil {
		p.tb.Error(err)
	}
}

func (p *process) signal(s os.Signal) {
	p.tb.Helper()
	p.ended = true
	if err := p.host.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.tb.Error(err)
	}
}

// freeze stops the whole process as a host that stops without dying, until the returned function is called or
// the test ends. It returns when nothing of the process runs any more.
func (p *process) freeze() (thaw func()) {
	p.tb.Helper()
	if err := p.host.Pause(); err != nil {
		p.tb.Fatal(err)
	}
	thawed := false
	thaw = func() {
		if thawed {
			return
		}
		thawed = true
		if err := p.host.Resume(); err != nil {
			p.tb.Error(err)
		}
	}
	p.tb.Cleanup(thaw) // before the process's own, which asks it to end
	return thaw
}

// exitCode waits for the end; -1 means that a signal ended it.
func (p *process) exitCode() int {
	p.tb.Helper()
	p.ended = true
	select {
	case <-p.host.Exited():
	case <-time.After(waitMax):
		p.kill()
		p.tb.Fatalf("%s: did not end within %v; it wrote:\n%s", p.host.Name(), waitMax, p.log())
	}
	return p.host.ExitCode()
}

// log is what the process wrote, or the end of it.
func (p *process) log() string {
	const shownMax = 16 << 10
	text := p.host.Text()
	if cut := len(text) - shownMax; cut > 0 {
		return fmt.Sprintf("(%d bytes before)…%s", cut, text[cut:])
	}
	return text
}

// find waits until the process has written something that matches, and returns the submatches.
func (p *process) find(pattern string) []string {
	p.tb.Helper()
	ctx, cancel := context.WithTimeout(p.tb.Context(), waitMax)
	defer cancel()
	found, err := p.host.WaitFor(ctx, pattern)
	if err != nil {
		p.ended = p.ended || errors.Is(err, hosts.ErrExited)
		p.tb.Fatalf("%v; it wrote:\n%s", err, p.log())
	}
	return found
}

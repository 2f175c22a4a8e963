package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is one running program, mostly fifty. Its methods are for the goroutine of the test that started
// it, except for log.
type process struct {
	tb     testing.TB
	args   string
	cmd    *exec.Cmd
	out    *output
	exited chan struct{} // closed when it has ended and all that it wrote is there
	ended  bool          // on purpose
	foul   bool          // a program that is not ours need not end properly
}

// start runs fifty with the given arguments in a folder of its own, until the test ends; it must then end
// properly on SIGTERM.
func start(tb testing.TB, args ...string) *process {
	tb.Helper()
	return launch(tb, fiftyBinary(tb), tb.TempDir(), args...)
}

// startTool runs another program until the test ends.
func startTool(tb testing.TB, path string, args ...string) *process {
	tb.Helper()
	p := launch(tb, path, tb.TempDir(), args...)
	p.foul = true
	return p
}

func launch(tb testing.TB, path, folder string, args ...string) *process {
	tb.Helper()
	cmd := exec.Command(path, args...) //nolint:noctx // ended by signals, in the cleanup at the latest
	cmd.Dir = folder
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "FIFTY_") })
	cmd.SysProcAttr = endWithParent()
	out := &output{grown: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = out, out
	if err := onStartThread(cmd.Start); err != nil {
		tb.Fatal(err)
	}
	name := filepath.Base(path) + " " + strings.Join(args, " ")
	p := &process{tb: tb, args: name, cmd: cmd, out: out, exited: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // the state says how it ended
		close(p.exited)
	}()
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
		p.tb.Logf("%s (pid %d) wrote:\n%s", p.args, p.cmd.Process.Pid, p.log())
	}
}

// terminate asks the process to end, and fails the test unless it does so properly.
func (p *process) terminate() {
	p.tb.Helper()
	p.signal(syscall.SIGTERM)
	if code := p.exitCode(); code != 0 {
		p.tb.Errorf("%s: exit code %d after SIGTERM, want 0", p.args, code)
	}
}

// kill is kill -9.
func (p *process) kill() {
	p.tb.Helper()
	p.signal(syscall.SIGKILL)
	p.exitCode()
}

func (p *process) signal(s os.Signal) {
	p.tb.Helper()
	p.ended = true
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.tb.Errorf("%s: %v: %v", p.args, s, err)
	}
}

// exitCode waits for the end; -1 means that a signal ended it.
func (p *process) exitCode() int {
	p.tb.Helper()
	p.ended = true
	select {
	case <-p.exited:
	case <-time.After(waitMax):
		_ = p.cmd.Process.Kill()
		<-p.exited
		p.tb.Fatalf("%s: did not end within %v; it wrote:\n%s", p.args, waitMax, p.log())
	}
	return p.cmd.ProcessState.ExitCode()
}

// log is what the process wrote, or the end of it.
func (p *process) log() string {
	const shownMax = 16 << 10
	text, _ := p.out.text()
	if cut := len(text) - shownMax; cut > 0 {
		return fmt.Sprintf("(%d bytes before)…%s", cut, text[cut:])
	}
	return text
}

// find waits until the process has written something that matches, and returns the submatches.
func (p *process) find(pattern string) []string {
	p.tb.Helper()
	re := regexp.MustCompile(pattern)
	limit := time.After(waitMax)
	for ended := false; ; {
		text, grown := p.out.text()
		if found := re.FindStringSubmatch(text); found != nil {
			return found
		}
		if ended {
			p.ended = true
			p.tb.Fatalf("%s: ended (%v) before it wrote %q; it wrote:\n%s", p.args, p.cmd.ProcessState, pattern, text)
		}
		select {
		case <-grown:
		case <-p.exited:
			ended = true
		case <-limit:
			p.tb.Fatalf("%s: did not write %q within %v; it wrote:\n%s", p.args, pattern, waitMax, text)
		}
	}
}

// output keeps what a process writes, and says when there is more.
type output struct {
	mu    sync.Mutex
	all   bytes.Buffer
	grown chan struct{} // closed, and replaced, by each write
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.grown)
	o.grown = make(chan struct{})
	return o.all.Write(b)
}

func (o *output) text() (string, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all.String(), o.grown
}

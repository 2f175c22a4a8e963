package hosts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

// signalMax bounds the wait until a killed, paused or resumed process has obeyed; the kernel needs
// microseconds for that, unless a disk doesn't answer.
const signalMax = 10 * time.Second

// ErrExited says that the host has ended, before it did what was waited for.
var ErrExited = errors.New("the host has ended")

// ErrStopKilled says that a host did not end when it was asked to, and was killed.
var ErrStopKilled = errors.New("the host did not end in time and was killed")

// A Host is a program that runs, or has run. Its methods are safe for concurrent use. They are about its
// latest run: [Host.Restart] begins a new one.
type Host struct {
	config Config

	restart sync.Mutex // held by the one that restarts
	mu      sync.Mutex
	run     *run
}

// Start starts a program. The caller ends it with [Host.Kill] or [Host.Stop]; it also ends with this process.
// An error means that nothing runs.
func Start(c Config) (*Host, error) {
	r, err := startRun(c)
	if err != nil {
		return nil, fmt.Errorf("hosts: start %s: %w", c.name(), err)
	}
	return &Host{config: c, run: r}, nil
}

func (h *Host) latest() *run {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.run
}

func (h *Host) errorf(format string, args ...any) error {
	return fmt.Errorf("hosts: "+h.config.name()+": "+format, args...)
}

// Name is what errors call the host.
func (h *Host) Name() string { return h.config.name() }

// PID is its process, also after its end, when the number may be another process's.
func (h *Host) PID() int { return h.latest().pid() }

// Exited is closed when the process is gone and all that it wrote is kept.
func (h *Host) Exited() <-chan struct{} { return h.latest().exited }

// ExitCode is the program's exit code; -1 while it runs, and when a signal ended it.
func (h *Host) ExitCode() int { return h.latest().exitCode() }

// Stdin is its standard input. Close tells the program that there is no more; it also ends when this
// process does.
func (h *Host) Stdin() io.WriteCloser { return h.latest().in }

// Signal sends a signal and does not wait for what comes of it. An error that is [os.ErrProcessDone] means
// that the host has ended.
func (h *Host) Signal(s os.Signal) error {
	if err := h.latest().cmd.Process.Signal(s); err != nil {
		return h.errorf("send %v: %w", s, err)
	}
	return nil
}

// Kill ends the host as a crash does, by SIGKILL, also when it is paused. It returns when the process is
// gone; nil also when it was gone before.
func (h *Host) Kill() error { return h.kill(h.latest()) }

func (h *Host) kill(r *run) error {
	if err := r.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return h.errorf("kill: %w", err)
	}
	if !r.endsWithin(signalMax + drainMax) {
		return h.errorf("process %d is still there %v after SIGKILL", r.pid(), signalMax+drainMax)
	}
	return nil
}

// Stop asks the host to end, by SIGTERM, and waits for it. A paused host goes on, so that it can. After the
// grace it is killed, and the error is [ErrStopKilled]. nil also when it had ended before; [Host.ExitCode]
// says how.
func (h *Host) Stop(grace time.Duration) error {
	r := h.latest()
	err := r.cmd.Process.Signal(syscall.SIGTERM)
	switch {
	case errors.Is(err, os.ErrProcessDone):
		return h.kill(r) // returns when all that it wrote is kept
	case err != nil: // no such signal here
	case resume(r) == nil && r.endsWithin(grace), r.ended():
		return nil
	}
	if err := h.kill(r); err != nil {
		return err
	}
	return h.errorf("%w (grace %v)", ErrStopKilled, grace)
}

// Restart kills the host if it runs, and starts the program again with the same [Config]. What was kept of
// its output is dropped. After an error nothing runs, unless the error says that the old process is still
// there.
func (h *Host) Restart() error {
	h.restart.Lock()
	defer h.restart.Unlock()
	if err := h.kill(h.latest()); err != nil {
		return err
	}
	r, err := startRun(h.config)
	if err != nil {
		return h.errorf("start again: %w", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.run = r
	return nil
}

// Pause freezes the host, as a machine that stops without dying does: connections stay open and get no
// answer. It returns when no thread of the process runs any more. An error that is [ErrExited] means that
// it ended instead.
func (h *Host) Pause() error {
	if err := pause(h.latest()); err != nil {
		return h.errorf("pause: %w", err)
	}
	return nil
}

// Resume lets a paused host go on; nil also when it was not paused. An error that is [ErrExited] means that
// it has ended.
func (h *Host) Resume() error {
	if err := resume(h.latest()); err != nil {
		return h.errorf("resume: %w", err)
	}
	return nil
}

// Text is what the latest run has written so far to standard output and standard error: all of it, or the
// newest part where that is more than [OutputMax].
func (h *Host) Text() string {
	text, _ := h.latest().out.text()
	return text
}

// Lines is [Host.Text] in lines. The last may be unfinished.
func (h *Host) Lines() []string {
	text := strings.TrimSuffix(h.Text(), "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// WaitFor waits until what the latest run has written so far matches the regular expression, and returns
// the leftmost match and its submatches. The error is the context's, or [ErrExited] when the run ended
// without a match, also because of [Host.Restart]. Output older than [OutputMax] is not looked at.
func (h *Host) WaitFor(ctx context.Context, pattern string) ([]string, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, h.errorf("wait for output: %w", err)
	}
	r := h.latest()
	for ended := false; ; {
		text, grown := r.out.text()
		if found := re.FindStringSubmatch(text); found != nil {
			return found, nil
		}
		if ended {
			return nil, h.errorf("%w (%v) and did not write %q", ErrExited, r.cmd.ProcessState, pattern)
		}
		select {
		case <-grown:
		case <-r.exited:
			ended = true
		case <-ctx.Done():
			return nil, h.errorf("did not write %q: %w", pattern, context.Cause(ctx))
		}
	}
}

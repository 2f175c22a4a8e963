package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/fiftyhosts/fifty/faults/hosts"
)

// noiseMax bounds how much is told of what a host wrote before it died, in bytes.
const noiseMax = 4 << 10

// HostError says that a host ended, or could not begin, so that the run has no result.
type HostError struct {
	Host string // "host 3"
	PID  int    // 0 when it did not start
	Why  string // what it wrote or said
}

func (e *HostError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("%s can't be started: %s", e.Host, e.Why)
	}
	text := fmt.Sprintf("%s (process %d) ended in the middle of the run, so there is no result; run it again", e.Host, e.PID)
	if e.Why != "" {
		text += "; it said: " + e.Why
	}
	return text
}

// A Host is one process of the stage. Its methods are safe for concurrent use.
type Host struct {
	Name   string
	Number int // 1 to n; 0 for a client

	stage *Stage
	proc  *hosts.Host
	ready chan struct{} // closed when it has its database
	gone  chan struct{} // closed when it has ended

	writing sync.Mutex // of input: a frozen host may let its writer wait
	input   io.Writer

	mu     sync.Mutex
	calls  map[int]*Call
	last   int
	line   []byte // the beginning of one
	noise  []byte // what it wrote that is no message
	why    string // its own word for why it can't begin
	isHere bool   // ready is closed
	spared bool   // its end is part of the play
}

// Write takes what the process writes. Each line is a message, or else something that it says as it dies.
func (h *Host) Write(p []byte) (int, error) {
	h.mu.Lock()
	h.line = append(h.line, p...)
	var whole [][]byte
	for {
		line, rest, ok := bytes.Cut(h.line, []byte{'\n'})
		if !ok {
			break
		}
		whole = append(whole, bytes.Clone(line))
		h.line = rest
	}
	if len(h.line) > lineMax {
		h.line = h.line[:0]
	}
	h.mu.Unlock()
	for _, line := range whole {
		h.heard(line)
	}
	return len(p), nil
}

func (h *Host) heard(line []byte) {
	var n notice
	if !bytes.HasPrefix(line, []byte(`{"`)) || json.Unmarshal(line, &n) != nil {
		h.mu.Lock()
		if len(h.noise) < noiseMax {
			h.noise = append(append(h.noise, line...), '\n')
		}
		h.mu.Unlock()
		return
	}
	if n.Step != nil {
		h.stage.record(h.Name, *n.Step)
	}
	if n.Hear != 0 {
		_ = h.tell(order{Heard: n.Hear}) // it has no content that could fail
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case n.Ready && !h.isHere:
		h.isHere = true
		close(h.ready)
	case n.Call == 0 && n.Error != "":
		h.why = n.Error
	case n.Held != "" || n.Done:
		call := h.calls[n.Call]
		if call == nil {
			return
		}
		if n.Done {
			delete(h.calls, n.Call)
		}
		select {
		case call.notices <- n:
		default: // it is held at one point at a time, so there is room for that and for its end
		}
	}
}

// watch waits for the end of the process.
func (h *Host) watch() {
	<-h.proc.Exited()
	h.mu.Lock()
	spared := h.spared
	h.mu.Unlock()
	close(h.gone)
	if !spared {
		h.stage.fail(h.death())
	}
}

// death is the error of a host that has ended.
func (h *Host) death() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	why := h.why
	if why == "" {
		why = strings.Join(strings.FieldsFunc(string(h.noise), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	}
	if why == "" && h.proc.ExitCode() < 0 {
		why = "nothing; it was killed by a signal"
	}
	return &HostError{Host: h.Name, PID: h.proc.PID(), Why: why}
}

func (h *Host) tell(o order) error {
	line, err := json.Marshal(o)
	if err != nil {
		return err
	}
	h.writing.Lock()
	defer h.writing.Unlock()
	_, _ = h.input.Write(append(line, '\n')) // when it can't be written the host is gone, and whoever waits for it is told
	return nil
}

// A Call is one action of one host. It is for one goroutine at a time.
type Call struct {
	host    *Host
	id      int
	do      string
	notices chan notice
}

// Begin tells the host to begin an action, and does not wait for it.
func (h *Host) Begin(do string, in any) (*Call, error) {
	raw, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	h.last++
	c := &Call{host: h, id: h.last, do: do, notices: make(chan notice, 2)}
	h.calls[c.id] = c
	h.mu.Unlock()
	return c, h.tell(order{Call: c.id, Do: do, In: raw})
}

// Next waits until the host is held at a point, and returns its name, or until the action has ended, and then
// returns "" and leaves its result to Result.
func (c *Call) Next(ctx context.Context) (point string, err error) {
	n, err := c.next(ctx)
	if err != nil {
		return "", err
	}
	if n.Done {
		c.notices <- n // for Result; this call had the only place that was taken
	}
	return n.Held, nil
}

func (c *Call) next(ctx context.Context) (notice, error) {
	select {
	case n := <-c.notices:
		return n, nil
	case <-ctx.Done():
		return notice{}, context.Cause(ctx)
	case <-c.host.gone:
		return notice{}, c.host.death()
	}
}

// Go releases the host from the point where it is held.
func (c *Call) Go() error { return c.host.tell(order{Call: c.id, Go: true}) }

// Result waits for the end of the action and reads its result into out, which may be nil.
func (c *Call) Result(ctx context.Context, out any) error {
	n, err := c.next(ctx)
	switch {
	case err != nil:
		return err
	case !n.Done:
		return fmt.Errorf("lab: %s is held at %q in the middle of %q", c.host.Name, n.Held, c.do)
	case n.Error != "":
		return fmt.Errorf("%s: %s: %w", c.host.Name, c.do, errors.New(n.Error))
	case out == nil:
		return nil
	}
	return json.Unmarshal(n.Out, out)
}

// Ask tells a host to do something and waits for its result.
func Ask[Out any](ctx context.Context, h *Host, do string, in any) (out Out, err error) {
	c, err := h.Begin(do, in)
	if err != nil {
		return out, err
	}
	return out, c.Result(ctx, &out)
}

// Kill ends the host as a crash does. That is part of the play: the run goes on.
func (h *Host) Kill() error {
	h.mu.Lock()
	h.spared = true
	h.mu.Unlock()
	err := h.proc.Kill()
	h.stage.record(h.Name, Step{Did: "kill -9", Said: "the host is gone", Tone: Bad})
	return err
}

// Pause freezes the host, as a garbage collection or a migration of its machine does.
func (h *Host) Pause() error {
	err := h.proc.Pause()
	h.stage.record(h.Name, Step{Did: "is frozen (SIGSTOP)", Tone: Wait})
	return err
}

// Resume lets a frozen host go on.
func (h *Host) Resume() error {
	h.stage.record(h.Name, Step{Did: "wakes up (SIGCONT)"})
	return h.proc.Resume()
}

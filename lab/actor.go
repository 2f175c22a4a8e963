package lab

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// An Actor is a host as its actions see it: in its own process. It is safe for concurrent use.
type Actor struct {
	Name   string
	Number int // 1 to n; 0 for a client
	DB     *Database

	ctx context.Context // ends with the host

	mu   sync.Mutex
	out  io.Writer
	held map[int]chan struct{} // calls that wait for their release
	says map[int]chan struct{} // steps that wait until they were heard
	said int
	kept map[string]any // what actions leave for later ones
}

// callKey is the context's name for the number of the call that it belongs to.
type callKey struct{}

// Say puts a step into the timeline, and returns when it is there: what the step leads to, on whichever host,
// comes behind it.
func (a *Actor) Say(step Step) {
	heard := make(chan struct{})
	a.mu.Lock()
	a.said++
	n := a.said
	a.says[n] = heard
	a.mu.Unlock()
	a.send(notice{Step: &step, Hear: n})
	select {
	case <-heard:
	case <-a.ctx.Done():
	}
}

// Hold puts a step into the timeline, tells the conductor that the host has come to a point, and waits there
// until it is released. ctx must be the action's, or made from it. It returns the context's error when that
// ends first.
func (a *Actor) Hold(ctx context.Context, point string, step Step) error {
	call, ok := ctx.Value(callKey{}).(int)
	if !ok {
		return errors.New("lab: held outside of an action")
	}
	release := make(chan struct{})
	a.mu.Lock()
	a.held[call] = release
	a.mu.Unlock()
	a.send(notice{Call: call, Step: &step, Held: point})
	select {
	case <-release:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Keep holds a value for later actions of this host, and Kept returns it, or nil.
func (a *Actor) Keep(name string, value any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.kept[name] = value
}

// Kept returns what an earlier action kept under that name, or nil.
func (a *Actor) Kept(name string) any {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.kept[name]
}

// keptOrMade returns what is kept under a name. The first call makes it.
func keptOrMade[T any](a *Actor, name string, make func() T) T {
	a.mu.Lock()
	defer a.mu.Unlock()
	if kept, ok := a.kept[name].(T); ok {
		return kept
	}
	made := make()
	a.kept[name] = made
	return made
}

// send writes one line. When the conductor is gone it can't be written, and the input ends as well.
func (a *Actor) send(n notice) {
	line, err := json.Marshal(n)
	if err != nil {
		line, _ = json.Marshal(notice{Call: n.Call, Done: n.Done, Error: err.Error()})
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	_, _ = a.out.Write(append(line, '\n'))
}

// ServeHost is the life of one host: it does what it is told on in, and reports on out, until in ends. That it
// returns means that the process should end, whatever it is still doing: the conductor is gone. The error is
// nil then, and says otherwise why the host could not begin.
func ServeHost(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, lineMax)
	a := &Actor{ctx: ctx, out: out, held: make(map[int]chan struct{}), says: make(map[int]chan struct{}), kept: make(map[string]any)}
	if !lines.Scan() {
		return lines.Err()
	}
	actions, err := a.begin(ctx, lines.Bytes())
	if err != nil {
		a.send(notice{Error: err.Error()})
		return err
	}
	defer func() { _ = a.DB.Close() }() // the conductor drops it
	a.send(notice{Ready: true})
	for lines.Scan() {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			return fmt.Errorf("lab: an order that can't be read: %w", err)
		}
		a.obey(o, actions)
	}
	return lines.Err()
}

func (a *Actor) begin(ctx context.Context, line []byte) (map[string]Action, error) {
	var o order
	if err := json.Unmarshal(line, &o); err != nil || o.Setup == nil {
		return nil, errors.New("lab: this command is for the hosts that \"fifty lab\" starts; it talks to them over standard input")
	}
	scenario, ok := byName(o.Setup.Scenario)
	if !ok {
		return nil, fmt.Errorf("lab: no scenario %q", o.Setup.Scenario)
	}
	db, err := openWorld(ctx, o.Setup.World)
	if err != nil {
		return nil, err
	}
	a.Name, a.Number, a.DB = o.Setup.Name, o.Setup.Number, db
	return scenario.Actions, nil
}

// obey begins an action, or lets one go on.
func (a *Actor) obey(o order, actions map[string]Action) {
	switch {
	case o.Go:
		a.goOn(a.held, o.Call)
		return
	case o.Heard != 0:
		a.goOn(a.says, o.Heard)
		return
	}
	do, ok := actions[o.Do]
	if !ok {
		a.send(notice{Call: o.Call, Done: true, Error: fmt.Sprintf("no action %q", o.Do)})
		return
	}
	go func() {
		end := notice{Call: o.Call, Done: true}
		out, err := do(context.WithValue(a.ctx, callKey{}, o.Call), a, o.In)
		if err == nil {
			end.Out, err = json.Marshal(out)
		}
		if err != nil {
			end.Error = err.Error()
		}
		a.send(end)
	}()
}

// goOn ends a wait.
func (a *Actor) goOn(waits map[int]chan struct{}, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if wait := waits[n]; wait != nil {
		delete(waits, n)
		close(wait)
	}
}

package faults

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
)

// How a strike can end other than as its fault promises.
var (
	// ErrClosed: the proxy was closed, or CloseAll called, before the fault had run its course.
	ErrClosed = errors.New("faults: closed before the fault had run its course")

	// ErrServerEnded: the server ended the connection before it had got or answered what it was sent.
	ErrServerEnded = errors.New("faults: the server ended the connection before it had answered")

	// ErrUnfinished: the server was told that the connection ends and was silent for FinishMax. It may still
	// be at work.
	ErrUnfinished = errors.New("faults: the server did not end its side of the connection in time")
)

// repliesMax bounds what a strike remembers of the answers that were thrown away.
const repliesMax = 100

// Strike is one fault that has struck. It is safe for concurrent use.
type Strike struct {
	// Fault is what happened, and Message what it happened to. Neither changes.
	Fault   Fault
	Message Message

	release  func()
	released chan struct{}
	cut      chan struct{}
	done     chan struct{}

	mu      sync.Mutex
	err     error
	held    []string
	replies []string
}

func newStrike(f Fault, m Message) *Strike {
	s := &Strike{
		Fault: f, Message: m,
		released: make(chan struct{}), cut: make(chan struct{}), done: make(chan struct{}),
	}
	s.release = sync.OnceFunc(func() { close(s.released) })
	return s
}

// String is such as "zombie at 7 Execute".
func (s *Strike) String() string { return Point{Fault: s.Fault, Message: s.Message}.String() }

// Release lets what is held go on: a zombie's or a delayed message is delivered, a partition ends. It returns
// at once; see Wait. On other faults, and the second time, it does nothing.
func (s *Strike) Release() { s.release() }

// Cut is closed when the client's side has ended: for a zombie with all in hand that the client had sent. It
// stays open for Delayed and Partition.
func (s *Strike) Cut() <-chan struct{} { return s.cut }

// Done is closed when the fault has run its course: the server has finished with what was delivered and the
// client's side is cut, or what was held is delivered and the connection goes on.
func (s *Strike) Done() <-chan struct{} { return s.done }

// Wait waits for Done. It is nil if what the fault promises has happened: of a message that was delivered,
// each answer that the server owes was given. Otherwise it is ErrClosed, ErrServerEnded, ErrUnfinished, or
// ctx's error, after which the fault may still run its course.
//
// An answer may be a refusal: see Replies.
func (s *Strike) Wait(ctx context.Context) error {
	select {
	case <-s.done:
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Held lists the messages that a zombie holds or held, by name, once Cut is closed.
func (s *Strike) Held() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.held)
}

// Replies lists the server's messages that were thrown away, by name and detail; not more than the first 100.
func (s *Strike) Replies() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.replies)
}

func (s *Strike) keepReply(f Frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.replies) < repliesMax {
		s.replies = append(s.replies, strings.TrimSpace(f.Name+" "+f.Detail))
	}
}

func (s *Strike) keepHeld(frames []Frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range frames {
		s.held = append(s.held, f.Name)
	}
}

// end says once how the strike ended.
func (s *Strike) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
	close(s.done)
}

package idempotency

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// How often a waiting duplicate looks, when the first arrival is at work in another process: at a random
// moment within a bound that doubles from the first to the last of these.
const (
	pollFirst = 50 * time.Millisecond
	pollLast  = time.Second
)

// flights are the works of this process, so that duplicates here are woken instead of asking the store. They
// are kept only where duplicates may wait.
type flights struct {
	mu      sync.Mutex
	aloft   map[flightID]*flight
	waiting int
}

type flightID struct{ scope, key string }

// flight is one work. It is made by its owner, and is aloft from start to end.
type flight struct {
	landed chan struct{} // closed when the work has ended; made for the first who waits
}

// start notes that req is at work here, until end is called.
func (f *flights) start(w *flight, req Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.aloft == nil {
		f.aloft = map[flightID]*flight{}
	}
	f.aloft[flightID{req.Scope, req.Key}] = w
}

// end wakes those who wait for w, the work of req.
func (f *flights) end(w *flight, req Request) {
	id := flightID{req.Scope, req.Key}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.aloft[id] == w { // a successor may have started here
		delete(f.aloft, id)
	}
	if w.landed != nil {
		close(w.landed)
	}
}

// landed returns a channel that is closed when req's work here has ended, or nil when there is none.
func (f *flights) landed(req Request) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.aloft[flightID{req.Scope, req.Key}]
	if w == nil {
		return nil
	}
	if w.landed == nil {
		w.landed = make(chan struct{})
	}
	return w.landed
}

// join takes one of the most places to wait; leave gives it back.
func (f *flights) join(most int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.waiting >= most {
		return false
	}
	f.waiting++
	return true
}

func (f *flights) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting--
}

// await claims, and with Config.Wait claims again until the key is no longer in flight. It gives up after
// WaitMax, and does not begin when too many wait; what the last claim found then stands.
func (k *Keys) await(ctx context.Context, req Request, claim func(ctx context.Context) (*Claimed, error)) (*Claimed, error) {
	claimed, err := claim(ctx)
	if !k.cfg.Wait || err != nil || !inFlight(req, claimed) || !k.flights.join(k.cfg.WaitersMax) {
		return claimed, err
	}
	defer k.flights.leave()
	ctx, cancel := context.WithTimeout(ctx, k.cfg.WaitMax)
	defer cancel()
	for poll := pollFirst; inFlight(req, claimed); poll = min(2*poll, pollLast) { // bounded by WaitMax
		if !k.pause(ctx, req, poll) {
			return claimed, nil
		}
		next, err := claim(ctx)
		if ctx.Err() != nil && err != nil {
			return claimed, nil
		}
		if err != nil {
			return nil, err
		}
		claimed = next
	}
	return claimed, nil
}

// inFlight says that a duplicate would be told to ask again.
func inFlight(req Request, c *Claimed) bool {
	if c.Won {
		return false
	}
	_, err := judged(req, c.Record)
	return errors.Is(err, ErrInFlight)
}

// pause waits until it makes sense to ask again. It returns false when ctx ended first.
func (k *Keys) pause(ctx context.Context, req Request, poll time.Duration) bool {
	var again <-chan time.Time
	landed := k.flights.landed(req)
	if landed == nil {
		timer := time.NewTimer(1 + rand.N(poll))
		defer timer.Stop()
		again = timer.C
	}
	select {
	case <-landed:
		return true
	case <-again:
		return true
	case <-ctx.Done():
		return false
	}
}

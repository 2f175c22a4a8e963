package idempotency

import (
	"sync"
	"time"

	"github.com/fiftyhosts/fifty/internal/wall"
)

// firsts are the works of a Keys whose first renewal is still to come. It is due for all of them after the
// same time, so they stand in line in the order in which they came, and one timer, for the one in front, serves
// them all. Most works leave the line before their turn. It is safe for concurrent use.
type firsts struct {
	mu          sync.Mutex
	front, back *beat
	timer       *time.Timer
	armed       bool // the timer will fire
}

// place is that of a beat in the line.
type place struct {
	due          time.Time // by wall.Runtime
	ahead, after *beat
	in           bool
}

// join puts b at the end of the line. Its renewal is due at the given time, which is after now.
func (f *firsts) join(b *beat, now, due time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b.first = place{due: due, ahead: f.back, in: true}
	if f.back == nil {
		f.front = b
	} else {
		f.back.first.after = b
	}
	f.back = b
	if !f.armed {
		f.arm(due.Sub(now))
	}
}

// leave takes b out of the line. It returns false when b's turn has come before.
func (f *firsts) leave(b *beat) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !b.first.in {
		return false
	}
	f.unlink(b)
	return true
}

// unlink takes b out; f is locked. The timer stays as it is: when it fires with nobody due, it looks who is next.
func (f *firsts) unlink(b *beat) {
	p := b.first
	if p.ahead == nil {
		f.front = p.after
	} else {
		p.ahead.first.after = p.after
	}
	if p.after == nil {
		f.back = p.ahead
	} else {
		p.after.first.ahead = p.ahead
	}
	b.first = place{}
}

// arm sets the timer; f is locked.
func (f *firsts) arm(wait time.Duration) {
	f.armed = true
	if f.timer == nil {
		f.timer = time.AfterFunc(wait, f.fire)
		return
	}
	f.timer.Reset(wait)
}

// fire lets all who are due renew, each on its own, since one store call may hang.
func (f *firsts) fire() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = false
	for now := wall.Runtime(); f.front != nil; { // bounded by the length of the line
		b := f.front
		if wait := b.first.due.Sub(now); wait > 0 {
			f.arm(wait)
			return
		}
		f.unlink(b)
		go b.renew()
	}
}

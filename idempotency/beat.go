package idempotency

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fiftyhosts/fifty/internal/wall"
)

// leaseMargin is the share of a lease, one part in so many, by which a host stops trusting it early.
const leaseMargin = 10

// beat renews a claim at a third of its lease while the function runs. A function that is done before the
// first third never touches the store for it, and has no timer of its own.
type beat struct {
	o *owner // past the end of its run it is taken for stuck

	// valid is when this host stops trusting its lease: the time of sending plus the lease, less a margin.
	// It only keeps this host from starting what it should not; the store's clock decides.
	valid time.Time

	mu      sync.Mutex
	timer   *time.Timer // of the second renewal and later ones
	stopped bool
	told    bool // of the loss

	first place // among those whose first renewal is still to come
}

// stop ends the beat. A renewal that is on its way ends by its own time-out; it is conditional on a claim
// in flight, so it can't disturb the completion.
func (b *beat) stop() {
	if b.o.keys.firsts.leave(b) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped = true
	if b.timer != nil {
		b.timer.Stop()
	}
}

func (b *beat) renew() {
	if !wall.Runtime().Before(b.o.run.until) || b.over() {
		return
	}
	k := b.o.keys
	lease := k.cfg.Lease
	sent := wall.Now()
	ctx, cancel := context.WithTimeout(b.o.run.parent, lease/3) // the work's values, without any cancellation
	defer cancel()
	err := k.together.renew(ctx, b.o.rec.claim())
	next := lease / 3
	if lost, ok := errors.AsType[*LostError](err); ok {
		if b.lost(lost) {
			return
		}
	} else if err != nil {
		next = lease / 9 // the store failed; two more tries fit before the expiry
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		b.valid = sent.Add(lease - lease/leaseMargin)
	}
	switch {
	case b.stopped:
	case b.timer == nil:
		b.timer = time.AfterFunc(next, b.renew)
	default:
		b.timer.Reset(next)
	}
}

func (b *beat) over() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stopped
}

// held returns nil while this host may trust that the claim is its own, and else a *LostError.
func (b *beat) held() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if wall.Now().Before(b.valid) {
		return nil
	}
	return &LostError{Claim: b.o.rec.claim()}
}

// lost handles a renewal that was refused and says whether the beat ends. A lease that ran out is not
// revived; the function runs on, since what it sent can't be called back and its result still counts while
// nobody else decides. The beat then goes on asking, to learn of a successor. A claim that was superseded
// can't win any more: the function's context ends.
func (b *beat) lost(err *LostError) (ends bool) {
	b.mu.Lock()
	stopped, told := b.stopped, b.told
	b.told, b.valid = true, time.Time{}
	b.mu.Unlock()
	if stopped { // completed meanwhile: nothing was lost
		return true
	}
	if !told {
		b.o.keys.observe(b.o.run.parent, "idempotency.lease_lost", b.o.rec.Request, time.Time{}, err)
	}
	if err.Superseded {
		b.o.run.lost(err)
	}
	return err.Superseded
}

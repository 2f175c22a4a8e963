package idempotencytest

import (
	"context"
	"errors"
	"fmt"

	"github.com/fiftyhosts/fifty/faults/interleave"
	"github.com/fiftyhosts/fifty/idempotency"
)

// sweeping is what a caller of a race swept.
type sweeping struct {
	n   int
	err error
}

// sweeps is a caller that sweeps what is at least shortAge old.
func (w *world) sweeps(limit int, to *sweeping) func(ctx context.Context) {
	return func(ctx context.Context) { to.n, to.err = w.store.Sweep(ctx, shortAge, shortAge, limit) }
}

var sweepRaceCases = []claim{
	{"in every order a key whose tombstone is being removed keeps it, or gets a higher token", func(w *world) {
		removed := 0
		w.race(ofSweep, func() interleave.Case { return w.claimAgainstSweep(&removed) })
		if removed == 0 {
			w.Errorf("in no order did the sweep remove the tombstone before the claim")
		}
	}},
	{"in every order a free key that is claimed is not swept away", func(w *world) {
		w.race(ofSweep, func() interleave.Case {
			rec := w.freedKey()
			w.pass(shortAge)
			next := attempt(rec.Request)
			var claimed asked
			var swept sweeping
			return interleave.Case{
				Callers: []func(context.Context){w.claims(next, &claimed), w.sweeps(sweepMost, &swept)},
				Check: func() error {
					if err := errors.Join(claimed.err, swept.err); err != nil {
						return err
					}
					if !claimed.got.Won {
						return w.claimableAfter(rec, claimed.got)
					}
					return w.oneWinner(rec.Token, []idempotency.Attempt{next}, []asked{claimed})
				},
			}
		})
	}},
	{"in every order a duplicate of a record that is being buried gets the whole answer or none", func(w *world) {
		w.race(ofSweep, func() interleave.Case {
			rec := w.answered()
			w.pass(shortAge)
			var dup asked
			var swept sweeping
			return interleave.Case{
				Callers: []func(context.Context){w.claims(resumable(rec.Request), &dup), w.sweeps(sweepMost, &swept)},
				Check: func() error {
					if err := errors.Join(dup.err, swept.err); err != nil {
						return err
					}
					got := dup.got.Record
					if dup.got.Won || different(got, rec) != "" && different(got, tombstoneOf(rec)) != "" {
						return fmt.Errorf("the duplicate won %v, and was told of %v with status %d", dup.got.Won, show(got), got.Response.Status)
					}
					return nil
				},
			}
		})
	}},
	{"in every order two sweeps count nothing twice", func(w *world) {
		w.emptied()
		for what, leave := range map[string]func() idempotency.Record{
			"done": w.answered, "free": w.freedKey, "tombstones": w.buried,
		} {
			w.race(ofSweep, func() interleave.Case { return w.twoSweeps(what, leave) })
		}
	}},
}

// claimAgainstSweep is a race of a claim with the sweep that removes the key's tombstone.
func (w *world) claimAgainstSweep(removed *int) interleave.Case {
	rec := w.buried()
	next := attempt(rec.Request)
	var claimed asked
	var swept sweeping
	return interleave.Case{
		Callers: []func(context.Context){w.claims(next, &claimed), w.sweeps(sweepMost, &swept)},
		Check: func() error {
			if err := errors.Join(claimed.err, swept.err); err != nil {
				return err
			}
			if claimed.got.Won {
				*removed++ // a sweep came before it
				return w.oneWinner(rec.Token, []idempotency.Attempt{next}, []asked{claimed})
			}
			if different(claimed.got.Record, rec) == "" { // it came before the sweep
				return nil
			}
			return w.claimableAfter(rec, claimed.got)
		},
	}
}

// claimableAfter checks a claim that was not won: as the sweep was at work on the key, it was told to ask again,
// and who does so wins with a higher token.
func (w *world) claimableAfter(rec idempotency.Record, lost idempotency.Claimed) error {
	if told := lost.Record; told.State != idempotency.InFlight || told.Expired() || told.Attempt != "" {
		return fmt.Errorf("the claim was told of %v", show(told))
	}
	again := attempt(rec.Request)
	var result asked
	w.claims(again, &result)(w.ctx)
	return w.oneWinner(rec.Token, []idempotency.Attempt{again}, []asked{result})
}

// twoSweeps is a race of two sweeps over three records of a kind, that may do two each.
func (w *world) twoSweeps(what string, leave func() idempotency.Record) interleave.Case {
	recs := []idempotency.Record{leave(), leave(), leave()}
	w.pass(shortAge)
	const limit = 2
	var swept [2]sweeping
	return interleave.Case{
		Callers: []func(context.Context){w.sweeps(limit, &swept[0]), w.sweeps(limit, &swept[1])},
		Check: func() error {
			if err := errors.Join(swept[0].err, swept[1].err); err != nil {
				return err
			}
			changed := 0
			for _, rec := range recs {
				switch now := w.stateOf(rec.Request); {
				case now == rec.State:
				case now == gone && rec.State == idempotency.Done:
					changed += 2 // buried by one, and removed by the other
				default:
					changed++
				}
			}
			if n := swept[0].n + swept[1].n; n != changed || swept[0].n > limit || swept[1].n > limit {
				return fmt.Errorf("%s: the sweeps counted %d and %d of at most %d, and did %d", what, swept[0].n, swept[1].n, limit, changed)
			}
			w.sweepUntil("all are removed", 0, 0, w.all(recs, gone)) // and leave nothing to the next order
			return nil
		},
	}
}

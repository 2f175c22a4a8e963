package idempotencytest

import (
	"github.com/fiftyhosts/fifty/idempotency"
)

// neighbours makes three records that differ in nothing but their keys: the first, one of its scope, and one
// of its name. Even their attempts have one name, so that only scope and key tell them apart.
func (w *world) neighbours(lastly func(a idempotency.Attempt) idempotency.Record) (rec idempotency.Record, others []idempotency.Record) {
	w.Helper()
	first := resumable(w.request())
	beside, below := first, first
	beside.Request.Key = w.request().Key
	below.Request.Scope += "/below"
	others = []idempotency.Record{lastly(beside), lastly(below)}
	return lastly(first), others
}

// unmoved fails the case unless each record is as it was, with no more time left than at most, and has
// expired only if it had.
func (w *world) unmoved(at string, recs []idempotency.Record, expired bool) {
	w.Helper()
	for _, rec := range recs {
		w.is(rec)
		now := w.find(rec.Request)
		if now.ExpiresIn > longLease/2 {
			w.Errorf("%s: the key beside it was renewed: %v left", at, now.ExpiresIn)
		}
		if now.Expired() != expired {
			w.Errorf("%s: the key beside it expires in %v; it had expired: %v", at, now.ExpiresIn, expired)
		}
	}
}

// flying leaves a claim in flight, with a lease that a renewal raises.
func (w *world) flying(a idempotency.Attempt) idempotency.Record {
	w.Helper()
	a.Lease = longLease / 2
	return w.win(a)
}

var neighbourCases = []claim{
	{"a renewal moves no key beside it", func(w *world) {
		rec, others := w.neighbours(w.flying)
		if err := w.renewOne(w.ctx, claimOf(rec), longLease); err != nil {
			w.Fatalf("Renew: %v", err)
		}
		w.unmoved("Renew", others, false)
	}},
	{"a completion ends no key beside it", func(w *world) {
		for _, state := range []idempotency.State{idempotency.Done, idempotency.Free, idempotency.Unknown, idempotency.InFlight} {
			rec, others := w.neighbours(w.flying)
			want := ended(rec, state, "the answer")
			w.complete(rec, state, want.Response)
			w.is(want)
			w.unmoved("Complete as "+state.String(), others, false)
		}
	}},
	{"a takeover takes no key beside it", func(w *world) {
		rec, others := w.neighbours(w.expired)
		w.is(w.win(resumable(rec.Request)))
		w.unmoved("a takeover", others, true)
	}},
	{"a claim on a free key takes no key beside it", func(w *world) {
		rec, others := w.neighbours(func(a idempotency.Attempt) idempotency.Record {
			rec := w.win(a)
			w.complete(rec, idempotency.Free, idempotency.Response{})
			return ended(rec, idempotency.Free, "")
		})
		w.is(w.win(attempt(rec.Request)))
		w.unmoved("a claim on a free key", others, false)
	}},
	{"a step is kept with no key beside it", func(w *world) {
		rec, others := w.neighbours(func(a idempotency.Attempt) idempotency.Record {
			return w.save(w.flying(a), sent("first"))
		})
		w.save(rec, finished("first", "1"), finished("second", "2"))
		rec.Steps = []idempotency.StepRecord{finished("first", "1"), finished("second", "2")}
		w.is(rec)
		w.unmoved("SaveStep", others, false)
	}},
}

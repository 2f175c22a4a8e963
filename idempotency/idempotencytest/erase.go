package idempotencytest

import (
	"github.com/fiftyhosts/fifty/idempotency"
)

func (w *world) erase(scope string, limit int) int {
	w.Helper()
	n, err := w.operators().Erase(w.ctx, scope, limit)
	if err != nil {
		w.Fatalf("Erase: %v", err)
	}
	if n < 0 || n > limit {
		w.Fatalf("Erase counts %d with a limit of %d", n, limit)
	}
	return n
}

// bare is a done record without answer and steps.
func bare(rec idempotency.Record) idempotency.Record {
	rec.Response, rec.Steps = idempotency.Response{Status: rec.Response.Status, NotReplayable: true}, nil
	return rec
}

var eraseCases = []claim{
	{"answers and steps that are erased are gone, and their keys stay used", func(w *world) {
		keys, recs := w.newKeys(), []idempotency.Record{w.answered(), w.answered(), w.answered()}
		if n := w.erase(w.scope, sweepMost); n != len(recs) {
			w.Errorf("%d were erased, want %d", n, len(recs))
		}
		for _, rec := range recs {
			w.is(bare(rec))
			w.stands(keys, rec.Request, idempotency.ErrNotReplayable)
			w.stands(keys, otherIntent(rec.Request), idempotency.ErrMismatch)
			w.is(bare(rec))
			w.refusesStranger(idempotency.Claim{
				Scope: rec.Request.Scope, Key: rec.Request.Key, Token: rec.Token, Attempt: "nobody",
			}, bare(rec))
		}
		if n := w.erase(w.scope, sweepMost); n != 0 {
			w.Errorf("%d were erased once more", n)
		}
	}},
	{"steps are erased where the answer was never kept", func(w *world) {
		rec := w.save(w.win(resumable(w.request())), finished("a", `"secret"`))
		w.complete(rec, idempotency.Done, idempotency.Response{Status: 201, NotReplayable: true})
		none := w.win(attempt(w.request()))
		w.complete(none, idempotency.Done, idempotency.Response{Status: 201, NotReplayable: true})
		if n := w.erase(w.scope, sweepMost); n != 1 {
			w.Errorf("%d were erased, want 1", n)
		}
		rec.State, rec.Response = idempotency.Done, idempotency.Response{Status: 201, NotReplayable: true}
		w.is(bare(rec))
	}},
	{"only what is done is erased, and only in its scope", func(w *world) {
		recs, _ := w.zoo()
		elsewhere := map[string]idempotency.Record{}
		for _, scope := range []string{w.scope + "/below", w.scope[:len(w.scope)-1], w.scope + "%", w.scope + "_"} {
			a := resumable(w.request())
			a.Request.Scope, a.Request.Key = scope, recs["done"].Request.Key
			rec := w.save(w.win(a), finished("a", "1"))
			w.done(rec, "theirs")
			elsewhere[scope] = ended(rec, idempotency.Done, "theirs")
		}
		if n := w.erase(w.scope, sweepMost); n != 1 {
			w.Errorf("%d were erased, want 1", n)
		}
		for name, rec := range recs {
			if name == "done" {
				rec = bare(rec)
			}
			w.is(rec)
		}
		for _, rec := range elsewhere {
			w.is(rec)
		}
	}},
	{"no more than a limit is erased at once, and what was erased is counted", func(w *world) {
		var recs []idempotency.Record
		for range 5 {
			recs = append(recs, w.answered())
		}
		left := func() (n int) {
			w.Helper()
			for _, rec := range recs {
				if !w.find(rec.Request).Response.NotReplayable {
					n++
				}
			}
			return n
		}
		for before := left(); before > 0; {
			n := w.erase(w.scope, 2)
			now := left()
			if n != before-now || n == 0 {
				w.Fatalf("Erase counted %d, and erased %d", n, before-now)
			}
			before = now
		}
	}},
	{"an operator erases a scope as a whole", func(w *world) {
		var recs []idempotency.Record
		for range 3 {
			recs = append(recs, w.answered())
		}
		if n, err := idempotency.NewOperator(w.operators()).Erase(w.ctx, w.scope); n != len(recs) || err != nil {
			w.Errorf("%d were erased, %v; want %d", n, err, len(recs))
		}
		for _, rec := range recs {
			w.is(bare(rec))
		}
	}},
	{"what was erased is swept in its time", func(w *world) {
		rec := w.answered()
		w.erase(w.scope, sweepMost)
		w.pass(shortAge)
		w.sweepUntil("it is buried", shortAge, century, w.all([]idempotency.Record{rec}, idempotency.Tombstone))
		w.is(tombstoneOf(rec))
		w.stands(w.newKeys(), rec.Request, idempotency.ErrExpired)
	}},
	{"an erasing that was called off before it began changed nothing", func(w *world) {
		rec := w.answered()
		ctx, cancel := contextThatEnded(w.ctx)
		defer cancel()
		if n, err := w.operators().Erase(ctx, w.scope, sweepMost); err == nil {
			w.Errorf("Erase under an ended context erased %d", n)
		}
		w.is(rec)
	}},
}

package idempotencytest

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
)

const (
	century   = 100 * 365 * 24 * time.Hour // that nothing reaches
	sweepMost = 500                        // records a sweep, unless the case is about that
	ahead     = "ahead"                    // begins the names of keys that were made ahead of the store's clock
)

func (w *world) sweep(retention, tombstone time.Duration, limit int) int {
	w.Helper()
	n, err := w.store.Sweep(w.ctx, retention, tombstone, limit)
	if err != nil {
		w.Fatalf("Sweep: %v", err)
	}
	if n < 0 || n > limit {
		w.Fatalf("Sweep counts %d with a limit of %d", n, limit)
	}
	return n
}

// sweepUntil sweeps until yes, and returns how many records the store counted. A store may need several
// sweeps to remove a record.
func (w *world) sweepUntil(what string, retention, tombstone time.Duration, yes func() bool) (swept int) {
	w.Helper()
	w.until(what, func() bool {
		n := w.sweep(retention, tombstone, sweepMost)
		swept += n
		return yes()
	})
	return swept
}

// emptied sweeps away whatever earlier cases left, so that what is counted is this case's own.
func (w *world) emptied() {
	w.Helper()
	w.sweepUntil("nothing is left to sweep", 0, 0, func() bool {
		if w.sweep(0, 0, sweepMost) > 0 {
			return false
		}
		op, ok := w.store.(idempotency.OperatorStore)
		if !ok {
			return true
		}
		for page := (idempotency.Filter{Limit: 1000}); ; {
			all, err := op.List(w.ctx, page)
			if err != nil {
				w.Fatalf("List: %v", err)
			}
			for _, rec := range all {
				open := rec.State == idempotency.InFlight || rec.State == idempotency.Unknown
				if !open && !strings.HasPrefix(rec.Request.Key, ahead) {
					return false
				}
			}
			if len(all) < page.Limit {
				return true
			}
			last := all[len(all)-1].Request
			page.AfterScope, page.AfterKey = last.Scope, last.Key
		}
	})
}

// stateOf is the state of a record, or zero when there is none.
func (w *world) stateOf(req idempotency.Request) idempotency.State {
	w.Helper()
	rec, err := w.store.Find(w.ctx, req.Scope, req.Key)
	if err != nil && !errors.Is(err, idempotency.ErrNotFound) {
		w.Fatalf("Find(%q): %v", req.Key, err)
	}
	return rec.State
}

// all says that each of the records has this state.
func (w *world) all(recs []idempotency.Record, state idempotency.State) func() bool {
	return func() bool {
		w.Helper()
		for _, rec := range recs {
			if w.stateOf(rec.Request) != state {
				return false
			}
		}
		return true
	}
}

const gone idempotency.State = 0 // of a key without a record

// answered leaves a done record, with steps.
func (w *world) answered() idempotency.Record {
	w.Helper()
	rec := w.save(w.win(resumable(w.request())), finished("a", `"secret"`))
	w.done(rec, "the answer")
	return ended(rec, idempotency.Done, "the answer")
}

// buried leaves a tombstone of at least shortAge.
func (w *world) buried() idempotency.Record {
	w.Helper()
	rec := w.answered()
	w.pass(shortAge)
	w.sweepUntil("a done record is buried", shortAge, century, w.all([]idempotency.Record{rec}, idempotency.Tombstone))
	return tombstoneOf(rec)
}

func tombstoneOf(rec idempotency.Record) idempotency.Record {
	rec.State, rec.Response, rec.Steps = idempotency.Tombstone, idempotency.Response{}, nil
	return rec
}

// freedKey leaves a free key, with steps.
func (w *world) freedKey() idempotency.Record {
	w.Helper()
	rec := w.save(w.win(resumable(w.request())), finished("a", `"secret"`))
	w.complete(rec, idempotency.Free, idempotency.Response{})
	return ended(rec, idempotency.Free, "")
}

var sweepCases = []claim{
	{"an answer that is kept no longer leaves a tombstone, without answer and steps", func(w *world) {
		w.emptied()
		recs := []idempotency.Record{w.answered(), w.answered(), w.answered()}
		w.pass(shortAge)
		if n := w.sweepUntil("done records are buried", shortAge, century, w.all(recs, idempotency.Tombstone)); n != len(recs) {
			w.Errorf("%d were counted, want %d", n, len(recs))
		}
		for _, rec := range recs {
			w.is(tombstoneOf(rec))
		}
		if n := w.sweep(shortAge, century, sweepMost); n != 0 {
			w.Errorf("%d were counted once more", n)
		}
	}},
	{"a tombstone is claimed by nobody, and nothing brings its answer back", (*world).tombstoneStands},
	{"a tombstone answers every arrival that its key has expired", func(w *world) {
		keys, rec, o := w.newKeys(), w.buried(), &order{}
		w.stands(keys, rec.Request, idempotency.ErrExpired)
		w.stands(keys, otherIntent(rec.Request), idempotency.ErrMismatch)
		if _, err := keys.DoSteps(w.ctx, rec.Request, o.run); !errors.Is(err, idempotency.ErrExpired) {
			w.Errorf("DoSteps got %v, want ErrExpired", err)
		}
		w.hasDone(o)
		w.is(rec)
	}},
	{"a key whose record was removed is new, without steps, and has a higher token", func(w *world) {
		for _, kind := range []struct {
			name  string
			leave func() idempotency.Record
		}{{"a tombstone", w.buried}, {"a free key", w.freedKey}} {
			w.emptied() // the removal of one kind must not raise the floor for the other
			what, rec := kind.name, kind.leave()
			for range 3 {
				w.pass(shortAge)
				w.sweepUntil(what+" is removed", shortAge, shortAge, w.all([]idempotency.Record{rec}, gone))
				next := w.win(attempt(rec.Request))
				if next.Token <= rec.Token {
					w.Errorf("%s: the next owner's token is %d, after %d", what, next.Token, rec.Token)
				}
				if len(next.Steps) != 0 {
					w.Errorf("%s: the next owner was told of steps: %s", what, showSteps(next.Steps))
				}
				w.is(next)
				w.refusesStranger(claimOf(rec), next)
				w.complete(next, idempotency.Free, idempotency.Response{})
				rec = ended(next, idempotency.Free, "")
			}
		}
	}},
	{"what is not old enough is not swept", func(w *world) {
		w.emptied()
		recs := []idempotency.Record{w.buried(), w.answered(), w.freedKey()}
		if n := w.sweep(longLease, longLease, sweepMost); n != 0 {
			w.Errorf("%d were counted", n)
		}
		for _, rec := range recs {
			w.is(rec)
		}
		w.pass(shortAge)
		w.sweepUntil("the others are swept", shortAge, longLease, func() bool {
			return w.stateOf(recs[1].Request) == idempotency.Tombstone && w.stateOf(recs[2].Request) == gone
		})
		w.is(recs[0]) // a tombstone has its own time
	}},
	{"a record is swept at the instant that the store's clock says, counted from its end", (*world).sweptOnTime},
	{"what is in flight or unknown is never swept", func(w *world) {
		unknown := w.save(w.win(resumable(w.request())), sent("a"))
		w.complete(unknown, idempotency.Unknown, idempotency.Response{})
		let := w.save(w.win(resumable(w.request())), finished("a", "1"))
		w.letGo(let)
		open := []idempotency.Record{
			w.expired(attempt(w.request())), w.expired(resumable(w.request())), let, ended(unknown, idempotency.Unknown, ""),
			w.win(attempt(w.request())), w.win(resumable(w.request())),
		}
		witness := w.answered()
		w.pass(shortAge)
		w.sweepUntil("a younger record is swept", 0, 0, w.all([]idempotency.Record{witness}, gone))
		for _, rec := range open {
			w.is(rec)
		}
	}},
	{"a sweep works on no more records than it may, and counts what it did", (*world).sweepsWithinLimit},
	{"a sweep reaches what is due, whatever it must leave alone", func(w *world) {
		// A key whose time began anew stands before one whose time is over.
		again := w.freedKey()
		over := w.answered()
		w.pass(shortAge)
		next := w.win(attempt(again.Request))
		w.done(next, "the answer")
		w.sweepUntil("what is due is swept", shortAge, century, w.all([]idempotency.Record{over}, idempotency.Tombstone))
		w.is(tombstoneOf(over))
		if w.f.Advance != nil {
			next.Steps = again.Steps
			w.is(ended(next, idempotency.Done, "the answer"))
		}
	}},
	{"the tombstone of a key that was made ahead stays until its window covers it", func(w *world) {
		const by = 4 * time.Minute
		a := attempt(w.request())
		a.Request.Key = ahead + " " + a.Request.Key
		a.Made, a.Window = w.now().Add(by), longLease
		rec := w.win(a)
		w.done(rec, "the answer")
		witness := w.answered()
		w.pass(shortAge)
		both := []idempotency.Record{rec, witness}
		w.sweepUntil("both are buried", shortAge, century, w.all(both, idempotency.Tombstone))
		w.sweepUntil("the other is removed", shortAge, shortAge, w.all(both[1:], gone))
		w.is(tombstoneOf(rec))
		if w.f.Advance != nil {
			w.f.Advance(by + time.Millisecond) // at the very end of its window it may still be claimed
			w.sweepUntil("it is removed", shortAge, shortAge, w.all(both, gone))
		}
	}},
	{"a sweep by Keys keeps to what was configured", func(w *world) {
		keys := idempotency.New(w.store, idempotency.Config{Retention: shortAge, Tombstone: longLease})
		req := w.request()
		if _, err := keys.Do(w.ctx, req, working(answerOf("the answer"), nil).run); err != nil {
			w.Fatalf("Do: %v", err)
		}
		if _, err := w.newKeys().Sweep(w.ctx); err != nil { // it keeps answers for a day
			w.Errorf("Sweep: %v", err)
		}
		w.replays(keys, req, answerOf("the answer"))
		w.pass(shortAge)
		w.until("the answer is dropped", func() bool {
			if _, err := keys.Sweep(w.ctx); err != nil {
				w.Fatalf("Sweep: %v", err)
			}
			return w.stateOf(req) == idempotency.Tombstone
		})
		w.stands(keys, req, idempotency.ErrExpired)
	}},
	{"a sweep that was called off before it began changed nothing", func(w *world) {
		rec := w.answered()
		w.pass(shortAge)
		ctx, cancel := context.WithCancel(w.ctx)
		cancel()
		if n, err := w.store.Sweep(ctx, 0, 0, sweepMost); err == nil || n != 0 {
			w.Errorf("Sweep under an ended context: %d, %v", n, err)
		}
		w.is(rec)
	}},
}

// tombstoneStands tries to claim a tombstone, and to write over it as its last owner.
func (w *world) tombstoneStands() {
	rec := w.buried()
	for _, a := range []idempotency.Attempt{
		attempt(rec.Request), resumable(rec.Request), resumable(otherIntent(rec.Request)),
		{ID: rec.Attempt, Request: rec.Request, Owner: owner, Lease: longLease, Resume: true},
	} {
		if problem := different(w.lose(a), rec); problem != "" {
			w.Errorf("it was told: %s", problem)
		}
	}
	// Whether its late owner is told that it was too late is the store's own affair; that nothing changes is not.
	for _, state := range []idempotency.State{idempotency.Done, idempotency.Free, idempotency.Unknown, idempotency.InFlight} {
		c := idempotency.Completion{Claim: claimOf(rec), State: state}
		if state == idempotency.Done {
			c.Response = answerOf("late")
		}
		_ = w.completeOne(w.ctx, c)
	}
	if err := w.renewOne(w.ctx, claimOf(rec), longLease); !errors.Is(err, idempotency.ErrLost) {
		w.Errorf("Renew: got %v, want a LostError", err)
	}
	if err := refused(w.saveOne(w.ctx, claimOf(rec), finished("late", "1")), true); err != nil {
		w.Errorf("SaveStep: %v", err)
	}
	w.is(rec)
}

// sweptOnTime needs a clock that can be moved; with a real one only that the time comes can be seen.
func (w *world) sweptOnTime() {
	const retention, tombstone = 20 * time.Minute, 50 * time.Minute
	claimed := w.win(attempt(w.request()))
	if w.f.Advance == nil {
		w.done(claimed, "the answer")
		w.pass(shortAge)
		w.sweepUntil("it is removed", shortAge, shortAge, w.all([]idempotency.Record{claimed}, gone))
		return
	}
	w.emptied()
	w.f.Advance(tombstone)
	w.done(claimed, "late")
	recs := []idempotency.Record{claimed, w.freedKey()}
	stays := func(when string) {
		w.Helper()
		if n := w.sweep(retention, tombstone, sweepMost); n != 0 {
			w.Errorf("%s: %d were counted", when, n)
		}
	}
	stays("at the end")
	w.f.Advance(retention - time.Millisecond)
	stays("a millisecond before the retention is over")
	w.is(ended(claimed, idempotency.Done, "late"))
	w.is(recs[1])
	w.f.Advance(time.Millisecond)
	w.sweepUntil("both are swept", retention, tombstone, func() bool {
		return w.stateOf(claimed.Request) == idempotency.Tombstone && w.stateOf(recs[1].Request) == gone
	})
	w.f.Advance(tombstone - retention - time.Millisecond)
	stays("a millisecond before the tombstone's time is over")
	w.is(tombstoneOf(claimed))
	w.f.Advance(time.Millisecond)
	w.sweepUntil("the tombstone is removed", retention, tombstone, w.all(recs, gone))
}

// sweepsWithinLimit sweeps two by two, and compares each count with what has changed.
func (w *world) sweepsWithinLimit() {
	w.emptied()
	recs := []idempotency.Record{w.buried(), w.buried()}
	for range 3 {
		recs = append(recs, w.answered(), w.freedKey())
	}
	w.pass(shortAge)
	// What is left to do for a record: to bury one that is done, and to remove it.
	toDo := func() (n int) {
		w.Helper()
		for _, rec := range recs {
			switch w.stateOf(rec.Request) {
			case idempotency.Done:
				n += 2
			case idempotency.Free, idempotency.Tombstone:
				n++
			}
		}
		return n
	}
	const limit = 2
	left := toDo()
	w.until("all is swept", func() bool {
		n := w.sweep(shortAge, shortAge, limit)
		now := toDo()
		if left-now != n {
			w.Fatalf("Sweep counted %d, and did %d", n, left-now)
		}
		left = now
		return left == 0
	})
}

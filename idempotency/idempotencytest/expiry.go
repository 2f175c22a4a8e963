package idempotencytest

import (
	"errors"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
)

var expiryCases = []claim{
	{"an expired claim is never won by anybody else", func(w *world) {
		rec := w.expired(attempt(w.request()))
		for _, a := range []idempotency.Attempt{attempt(rec.Request), resumable(rec.Request)} {
			seen := w.lose(a)
			if problem := different(seen, rec); problem != "" {
				w.Errorf("it was told: %s", problem)
			}
			if !seen.Expired() {
				w.Errorf("it was not told that the claim has expired: %v left", seen.ExpiresIn)
			}
		}
		w.is(rec)
	}},
	{"an expired claim on resumable work is not won by an attempt that can't resume", func(w *world) {
		rec := w.expired(resumable(w.request()))
		if problem := different(w.lose(attempt(rec.Request)), rec); problem != "" {
			w.Errorf("it was told: %s", problem)
		}
		w.is(rec)
	}},
	{"a live claim on resumable work is not taken over", func(w *world) {
		rec := w.win(resumable(w.request()))
		w.lose(resumable(rec.Request))
		w.is(rec)
	}},
	{"an expired claim on resumable work is taken over once, with a higher token", func(w *world) {
		rec := w.expired(resumable(w.request()))
		taker := w.win(resumable(rec.Request))
		if taker.Token <= rec.Token {
			w.Errorf("the taker's token is %d, after %d", taker.Token, rec.Token)
		}
		if taker.ExpiresIn <= shortLease {
			w.Errorf("the taker's claim expires in %v, want its own lease of %v", taker.ExpiresIn, longLease)
		}
		w.lose(resumable(rec.Request))
		w.is(taker)
	}},
	{"an owner that was taken over can't renew or complete", func(w *world) {
		rec := w.expired(resumable(w.request()))
		taker := w.win(resumable(rec.Request))
		w.refusesStranger(claimOf(rec), taker)
		w.done(taker, "the taker's")
		w.refusesStranger(claimOf(rec), ended(taker, idempotency.Done, "the taker's"))
	}},
	{"an owner whose free key was claimed again can't renew or complete", func(w *world) {
		rec := w.win(attempt(w.request()))
		w.complete(rec, idempotency.Free, idempotency.Response{})
		next := w.win(attempt(rec.Request))
		w.refusesStranger(claimOf(rec), next)
	}},
	{"an attempt is told of its own claim that has expired, and takes nothing", func(w *world) {
		for _, a := range []idempotency.Attempt{attempt(w.request()), resumable(w.request())} {
			rec := w.expired(a)
			seen := w.lose(a)
			if problem := different(seen, rec); problem != "" {
				w.Errorf("it was told: %s", problem)
			}
			if !seen.Expired() {
				w.Errorf("it was not told that its claim has expired: %v left", seen.ExpiresIn)
			}
			w.is(rec)
			w.done(rec, "late") // it is still the owner
			w.is(ended(rec, idempotency.Done, "late"))
		}
	}},
	{"an attempt is told of its own claim that is unknown, and takes nothing", func(w *world) {
		for _, a := range []idempotency.Attempt{attempt(w.request()), resumable(w.request())} {
			rec := w.win(a)
			w.complete(rec, idempotency.Unknown, idempotency.Response{})
			want := ended(rec, idempotency.Unknown, "")
			if problem := different(w.lose(a), want); problem != "" {
				w.Errorf("it was told: %s", problem)
			}
			w.is(want)
		}
	}},
	{"an attempt never takes again the key that it freed", func(w *world) {
		a := attempt(w.request())
		rec := w.win(a)
		w.complete(rec, idempotency.Free, idempotency.Response{})
		want := ended(rec, idempotency.Free, "")
		renamed := a
		renamed.Request = otherIntent(a.Request)
		for _, late := range []idempotency.Attempt{a, renamed} {
			if problem := different(w.lose(late), want); problem != "" {
				w.Errorf("it was told: %s", problem)
			}
			w.is(want)
		}
		w.win(attempt(a.Request)) // it is there for others
	}},
	{"a record's age counts from the first claim of its key", func(w *world) {
		young := w.win(attempt(w.request()))
		if young.Age < 0 || young.Age >= longLease {
			w.Errorf("a key that was just claimed has age %v", young.Age)
		}
		let, free := w.win(resumable(w.request())), w.win(attempt(w.request()))
		w.letGo(let)
		w.complete(free, idempotency.Free, idempotency.Response{})
		w.pass(shortAge)
		for what, rec := range map[string]idempotency.Record{
			"taken over": w.win(resumable(let.Request)), "claimed again": w.win(attempt(free.Request)),
		} {
			for by, age := range map[string]time.Duration{
				"its owner": rec.Age, "a duplicate": w.lose(attempt(rec.Request)).Age, "Find": w.find(rec.Request).Age,
			} {
				if age < shortAge || age >= longLease {
					w.Errorf("%s: %s was told of age %v, want about %v", what, by, age, shortAge)
				}
			}
		}
	}},
	{"a late result counts while nobody took over", func(w *world) {
		for _, state := range []idempotency.State{idempotency.Done, idempotency.Free, idempotency.Unknown} {
			rec := w.expired(resumable(w.request()))
			c := idempotency.Completion{Claim: claimOf(rec), State: state}
			if state == idempotency.Done {
				c.Response = answerOf("late")
			}
			if err := w.completeOne(w.ctx, c); err != nil {
				w.Errorf("a late completion as %v: %v", state, err)
			}
			w.is(ended(rec, state, "late"))
		}
	}},
	{"a renewal moves the expiry to a lease from now", func(w *world) {
		a := attempt(w.request())
		a.Lease = longLease / 2
		rec := w.win(a)
		if err := w.renewOne(w.ctx, claimOf(rec), longLease); err != nil {
			w.Fatalf("Renew: %v", err)
		}
		if left := w.find(rec.Request).ExpiresIn; left <= longLease/2 || left > longLease {
			w.Errorf("after a renewal by %v it expires in %v", longLease, left)
		}
		if err := w.renewOne(w.ctx, claimOf(rec), longLease/4); err != nil {
			w.Fatalf("Renew: %v", err)
		}
		if left := w.find(rec.Request).ExpiresIn; left <= 0 || left > longLease/4 {
			w.Errorf("after a renewal by %v it expires in %v", longLease/4, left)
		}
		w.is(rec)
	}},
	{"a renewed claim expires too", func(w *world) {
		rec := w.win(attempt(w.request()))
		if err := w.renewOne(w.ctx, claimOf(rec), shortLease); err != nil {
			w.Fatalf("Renew: %v", err)
		}
		w.is(w.expire(rec, shortLease))
	}},
	{"a renewal never revives a claim that has expired", func(w *world) {
		rec := w.expired(resumable(w.request()))
		if err := refused(w.renewOne(w.ctx, claimOf(rec), longLease), false); err != nil {
			w.Errorf("Renew of an expired claim: %v", err)
		}
		if now := w.find(rec.Request); !now.Expired() {
			w.Errorf("it was revived: %v", show(now))
		}
		w.win(resumable(rec.Request))
	}},
	{"a renewal of an ended claim is refused", func(w *world) {
		for _, state := range []idempotency.State{idempotency.Done, idempotency.Free, idempotency.Unknown} {
			rec := w.win(attempt(w.request()))
			c := idempotency.Completion{Claim: claimOf(rec), State: state}
			if state == idempotency.Done {
				c.Response = answerOf("the answer")
			}
			if err := w.completeOne(w.ctx, c); err != nil {
				w.Fatalf("Complete as %v: %v", state, err)
			}
			if err := w.renewOne(w.ctx, claimOf(rec), longLease); !errors.Is(err, idempotency.ErrLost) {
				w.Errorf("Renew after %v: got %v, want a LostError", state, err)
			}
			w.is(ended(rec, state, "the answer"))
		}
	}},
	{"a lease of almost nothing is one, and runs out", func(w *world) {
		for _, lease := range []time.Duration{1, time.Microsecond, 1500 * time.Microsecond} {
			a := attempt(w.request())
			a.Lease = lease
			rec := w.win(a)
			w.lose(attempt(a.Request))
			w.expire(rec, lease)
			w.lose(attempt(a.Request))
		}
	}},
	{"a lease is not cut to whole seconds", func(w *world) {
		// The store may be slow, so one of several tries must show more than the whole seconds.
		const tries = 20
		for range tries {
			a := attempt(w.request())
			a.Lease = longLease + 990*time.Millisecond
			if left := w.win(a).ExpiresIn; left > longLease && left <= a.Lease {
				return
			}
		}
		w.Errorf("no claim with a lease of an hour and 990 ms had more than an hour left")
	}},
	{"a lease ends at the instant that the store's clock says", func(w *world) {
		if w.f.Advance == nil {
			w.expired(attempt(w.request()))
			return
		}
		a := resumable(w.request())
		a.Lease = 1500 * time.Microsecond
		rec := w.win(a)
		w.f.Advance(a.Lease - time.Microsecond)
		if now := w.find(rec.Request); now.ExpiresIn != time.Microsecond {
			w.Errorf("a microsecond before the end it has %v left", now.ExpiresIn)
		}
		w.lose(resumable(a.Request))
		w.f.Advance(time.Microsecond)
		if now := w.find(rec.Request); !now.Expired() {
			w.Errorf("at the end it has %v left", now.ExpiresIn)
		}
		if err := refused(w.renewOne(w.ctx, claimOf(rec), longLease), false); err != nil {
			w.Errorf("Renew at the end: %v", err)
		}
		w.win(resumable(a.Request))
	}},
}

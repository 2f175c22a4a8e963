package idempotencytest

import (
	"context"
	"errors"
	"strings"

	"github.com/fiftyhosts/fifty/idempotency"
)

var claimCases = []claim{
	{"a first claim wins and is recorded as it was made", func(w *world) {
		for _, resume := range []bool{false, true} {
			a := attempt(w.request())
			a.Resume = resume
			rec := w.win(a)
			if rec.ExpiresIn <= 0 || rec.ExpiresIn > longLease {
				w.Errorf("it expires in %v, want up to %v", rec.ExpiresIn, longLease)
			}
			w.is(rec)
		}
	}},
	{"a key that nobody claimed is not found", func(w *world) {
		if rec, err := w.store.Find(w.ctx, w.scope, "nobody"); !errors.Is(err, idempotency.ErrNotFound) {
			w.Errorf("got %v, %v, want ErrNotFound", show(rec), err)
		}
	}},
	{"a duplicate sees the claim in flight and changes nothing", func(w *world) {
		rec := w.win(attempt(w.request()))
		seen := w.lose(attempt(rec.Request))
		if problem := different(seen, rec); problem != "" {
			w.Errorf("the duplicate was told: %s", problem)
		}
		if seen.Expired() {
			w.Errorf("the duplicate was told that the claim has expired")
		}
		w.is(rec)
	}},
	{"an attempt that asks again has won, with the same token", func(w *world) {
		a := attempt(w.request())
		rec := w.win(a)
		if again := w.win(a); again.Token != rec.Token {
			w.Errorf("the second answer has token %d, want %d", again.Token, rec.Token)
		}
		w.is(rec)
	}},
	{"an attempt that asks again after its completion gets the answer and owns nothing", func(w *world) {
		a := attempt(w.request())
		rec := w.win(a)
		w.done(rec, "the answer")
		want := ended(rec, idempotency.Done, "the answer")
		if problem := different(w.lose(a), want); problem != "" {
			w.Errorf("it was told: %s", problem)
		}
		w.is(want)
	}},
	{"another fingerprint gets the record and changes nothing", func(w *world) {
		for _, tc := range []struct {
			name string
			rec  func() idempotency.Record
		}{
			{"in flight", func() idempotency.Record { return w.win(attempt(w.request())) }},
			{"expired", func() idempotency.Record { return w.expired(attempt(w.request())) }},
			{"expired and resumable", func() idempotency.Record { return w.expired(resumable(w.request())) }},
			{"done", func() idempotency.Record {
				rec := w.win(attempt(w.request()))
				w.done(rec, "the answer")
				return ended(rec, idempotency.Done, "the answer")
			}},
			{"unknown", func() idempotency.Record {
				rec := w.win(attempt(w.request()))
				w.complete(rec, idempotency.Unknown, idempotency.Response{})
				return ended(rec, idempotency.Unknown, "")
			}},
		} {
			rec := tc.rec()
			if problem := different(w.lose(resumable(otherIntent(rec.Request))), rec); problem != "" {
				w.Errorf("%s: it was told: %s", tc.name, problem)
			}
			w.is(rec)
		}
	}},
	{"the owner's own attempt with another fingerprint owns nothing", func(w *world) {
		a := attempt(w.request())
		rec := w.win(a)
		a.Request = otherIntent(a.Request)
		w.lose(a)
		w.is(rec)
	}},
	{"a free key is claimed again by any fingerprint, with a higher token", func(w *world) {
		rec := w.win(attempt(w.request()))
		for i := range 3 {
			w.complete(rec, idempotency.Free, idempotency.Response{})
			w.is(ended(rec, idempotency.Free, ""))
			next := attempt(otherIntent(rec.Request))
			if i%2 == 1 {
				next = attempt(rec.Request)
			}
			got := w.win(next)
			if got.Token <= rec.Token {
				w.Errorf("the next owner's token is %d, after %d", got.Token, rec.Token)
			}
			w.is(got)
			rec = got
		}
	}},
	{"an unknown key is claimed by nobody", func(w *world) {
		for _, a := range []idempotency.Attempt{attempt(w.request()), resumable(w.request())} {
			rec := w.win(a)
			w.complete(rec, idempotency.Unknown, idempotency.Response{})
			want := ended(rec, idempotency.Unknown, "")
			for _, next := range []idempotency.Attempt{attempt(a.Request), resumable(a.Request)} {
				if problem := different(w.lose(next), want); problem != "" {
					w.Errorf("it was told: %s", problem)
				}
			}
			w.is(want)
		}
	}},
	{"a done key is claimed by nobody", func(w *world) {
		for _, a := range []idempotency.Attempt{attempt(w.request()), resumable(w.request())} {
			rec := w.win(a)
			w.done(rec, "the answer")
			want := ended(rec, idempotency.Done, "the answer")
			for _, next := range []idempotency.Attempt{attempt(a.Request), resumable(a.Request)} {
				if problem := different(w.lose(next), want); problem != "" {
					w.Errorf("it was told: %s", problem)
				}
			}
			w.is(want)
		}
	}},
	{"one key in two scopes is two keys", func(w *world) {
		mine := w.win(attempt(w.request()))
		theirs := attempt(mine.Request)
		theirs.Request.Scope += "/other"
		other := w.win(theirs)
		for _, rec := range []idempotency.Record{mine, other} {
			if problem := different(w.lose(attempt(rec.Request)), rec); problem != "" {
				w.Errorf("a duplicate in scope %q was told: %s", rec.Request.Scope, problem)
			}
		}
		w.done(mine, "mine")
		w.is(ended(mine, idempotency.Done, "mine"))
		w.is(other)
		if err := w.renewOne(w.ctx, claimOf(other), longLease); err != nil {
			w.Errorf("Renew in the other scope: %v", err)
		}
		w.done(other, "theirs")
		w.is(ended(mine, idempotency.Done, "mine"))
		w.is(ended(other, idempotency.Done, "theirs"))
	}},
	{"a claim of one scope has no say in another", func(w *world) {
		mine := w.win(attempt(w.request()))
		foreign := claimOf(mine)
		foreign.Scope += "/other"
		w.refusesStranger(foreign, mine)
		theirs := attempt(mine.Request)
		theirs.Request.Scope = foreign.Scope
		w.refusesStranger(foreign, w.win(theirs))
	}},
	{"keys are compared byte by byte", func(w *world) {
		keys := []string{
			"a", "A", "a ", " a", "a\"", "\"a\"", "a'", "a\\", "a%", "a_", "a:b", "a/b", "{}", "NULL", "0", "00",
			strings.Repeat("k", idempotency.KeyMax), strings.Repeat("k", idempotency.KeyMax-1) + "K",
			strings.Repeat("k", idempotency.KeyMax-1) + " ",
		}
		w.eachApart(len(keys), func(i int, req *idempotency.Request) { req.Key = keys[i] })
	}},
	{"scopes are compared byte by byte", func(w *world) {
		long := strings.Repeat("s", idempotency.ScopeMax-len(w.scope)-1)
		tails := []string{
			"a", "A", "a ", "ä", "a\u0308", "Ä", "ß", "ss", "\"", "'", "\\", "%", ":", "日本", long + "x", long + "X", long + " ",
		}
		w.eachApart(len(tails), func(i int, req *idempotency.Request) { req.Scope, req.Key = req.Scope+tails[i], "key" })
	}},
	{"scope and key are not run together", func(w *world) {
		parts := [][2]string{{"/a", "b"}, {"/a:", "b"}, {"/a", ":b"}, {"/a:b", "b"}, {"/a", "b:b"}, {"/a/", "b"}, {"/a", "/b"}}
		w.eachApart(len(parts), func(i int, req *idempotency.Request) {
			req.Scope += parts[i][0]
			req.Key = parts[i][1]
		})
	}},
	{"what was called off before it began changed nothing", func(w *world) {
		rec := w.win(attempt(w.request()))
		ctx, cancel := context.WithCancel(w.ctx)
		cancel()
		fresh := w.request()
		if _, err := w.claimOne(ctx, attempt(fresh)); err == nil {
			w.Errorf("Claim under an ended context succeeded")
		}
		if found, err := w.store.Find(w.ctx, fresh.Scope, fresh.Key); !errors.Is(err, idempotency.ErrNotFound) {
			w.Errorf("Claim under an ended context left %v, %v", show(found), err)
		}
		if err := w.completeOne(ctx, idempotency.Completion{Claim: claimOf(rec), State: idempotency.Done}); err == nil {
			w.Errorf("Complete under an ended context succeeded")
		}
		if err := w.renewOne(ctx, claimOf(rec), 2*longLease); err == nil {
			w.Errorf("Renew under an ended context succeeded")
		}
		w.is(rec)
		if left := w.find(rec.Request).ExpiresIn; left > longLease {
			w.Errorf("Renew under an ended context left %v, more than %v", left, longLease)
		}
	}},
}

// eachApart claims n keys that set makes different, and finds each with its own answer.
func (w *world) eachApart(n int, set func(i int, req *idempotency.Request)) {
	w.Helper()
	var recs []idempotency.Record
	for i := range n {
		a := attempt(w.request())
		set(i, &a.Request)
		if err := a.Request.Validate(); err != nil {
			w.Fatalf("the suite made a bad request: %v", err)
		}
		recs = append(recs, w.win(a))
	}
	for _, rec := range recs {
		w.done(rec, rec.Request.Scope+rec.Request.Key)
	}
	for _, rec := range recs {
		w.is(ended(rec, idempotency.Done, rec.Request.Scope+rec.Request.Key))
	}
}

// refusesStranger renews, saves a step and completes with a claim that nobody has, and expects rec to stay as it is.
func (w *world) refusesStranger(stranger idempotency.Claim, rec idempotency.Record) {
	w.Helper()
	if stranger == claimOf(rec) {
		stranger.Token += 7
	}
	before := w.find(rec.Request).ExpiresIn
	if err := refused(w.renewOne(w.ctx, stranger, 2*longLease), true); err != nil {
		w.Errorf("Renew by a stranger: %v", err)
	}
	if err := refused(w.saveOne(w.ctx, stranger, finished("a stranger's", "{}")), true); err != nil {
		w.Errorf("SaveStep by a stranger: %v", err)
	}
	for _, state := range []idempotency.State{idempotency.Done, idempotency.Free, idempotency.Unknown, idempotency.InFlight} {
		c := idempotency.Completion{Claim: stranger, State: state}
		if state == idempotency.Done {
			c.Response = answerOf("a stranger's")
		}
		if err := refused(w.completeOne(w.ctx, c), true); err != nil {
			w.Errorf("Complete as %v by a stranger: %v", state, err)
		}
	}
	w.is(rec)
	now := w.find(rec.Request)
	if now.ExpiresIn > before {
		w.Errorf("a stranger's renewal raised the time left from %v to %v", before, now.ExpiresIn)
	}
	if before > 0 && now.Expired() {
		w.Errorf("a stranger let the owner's claim go")
	}
}

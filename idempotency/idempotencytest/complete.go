package idempotencytest

import (
	"github.com/fiftyhosts/fifty/idempotency"
)

var completeCases = []claim{
	{"a completion is recorded with its answer", func(w *world) {
		for _, state := range []idempotency.State{idempotency.Done, idempotency.Free, idempotency.Unknown} {
			rec := w.win(attempt(w.request()))
			want := ended(rec, state, "the answer")
			w.complete(rec, state, want.Response)
			w.is(want)
		}
	}},
	{"a completion that is there already counts, and the first answer stays", func(w *world) {
		rec := w.win(attempt(w.request()))
		w.done(rec, "the first")
		w.done(rec, "the first")
		w.done(rec, "the second")
		w.is(ended(rec, idempotency.Done, "the first"))
		for _, state := range []idempotency.State{idempotency.Free, idempotency.Unknown} {
			rec := w.win(attempt(w.request()))
			w.complete(rec, state, idempotency.Response{})
			w.complete(rec, state, idempotency.Response{})
			w.is(ended(rec, state, ""))
		}
	}},
	{"an answer that was given is never taken back", func(w *world) {
		rec := w.win(attempt(w.request()))
		w.done(rec, "the answer")
		for _, state := range []idempotency.State{idempotency.Free, idempotency.Unknown} {
			// Whether the store says that it was too late is its own affair; that the answer stays is not.
			_ = w.completeOne(w.ctx, idempotency.Completion{Claim: claimOf(rec), State: state})
			w.is(ended(rec, idempotency.Done, "the answer"))
		}
	}},
	{"a key that was freed stays free, whatever its owner says later", func(w *world) {
		rec := w.win(attempt(w.request()))
		w.complete(rec, idempotency.Free, idempotency.Response{})
		late := idempotency.Completion{Claim: claimOf(rec), State: idempotency.Done, Response: answerOf("late")}
		if err := w.completeOne(w.ctx, late); err == nil {
			w.Errorf("an answer for a key that was freed was accepted: others may run by now")
		}
		_ = w.completeOne(w.ctx, idempotency.Completion{Claim: claimOf(rec), State: idempotency.Unknown})
		w.is(ended(rec, idempotency.Free, ""))
	}},
	{"a result that comes after unknown counts", func(w *world) {
		for _, state := range []idempotency.State{idempotency.Done, idempotency.Free} {
			rec := w.win(attempt(w.request()))
			w.complete(rec, idempotency.Unknown, idempotency.Response{})
			want := ended(rec, state, "late")
			w.complete(rec, state, want.Response)
			w.is(want)
		}
	}},
	{"a claim with another token is not the owner's", func(w *world) {
		for _, shift := range []int64{1, -1} {
			rec := w.expired(resumable(w.request()))
			rec = w.win(resumable(rec.Request)) // so that there is a token before this one
			stranger := claimOf(rec)
			stranger.Token += shift
			w.refusesStranger(stranger, rec)
		}
	}},
	{"a claim of another attempt is not the owner's, even with its token", func(w *world) {
		rec := w.win(attempt(w.request()))
		stranger := claimOf(rec)
		stranger.Attempt = attempt(rec.Request).ID
		w.refusesStranger(stranger, rec)
		w.complete(rec, idempotency.Unknown, idempotency.Response{})
		w.refusesStranger(stranger, ended(rec, idempotency.Unknown, ""))
		w.done(rec, "the owner's")
		w.refusesStranger(stranger, ended(rec, idempotency.Done, "the owner's"))
	}},
	{"a claim on a key that is not there is refused, and makes none", func(w *world) {
		req := w.request()
		stranger := idempotency.Claim{Scope: req.Scope, Key: req.Key, Token: 1, Attempt: attempt(req).ID}
		c := idempotency.Completion{Claim: stranger, State: idempotency.Done, Response: answerOf("a stranger's")}
		if err := refused(w.completeOne(w.ctx, c), true); err != nil {
			w.Errorf("Complete: %v", err)
		}
		if err := refused(w.renewOne(w.ctx, stranger, longLease), true); err != nil {
			w.Errorf("Renew: %v", err)
		}
		w.win(attempt(req))
	}},
}

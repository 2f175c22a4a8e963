package idempotencytest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
)

func contextThatEnded(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	cancel()
	return ctx, cancel
}

// deciding is a decision about rec that frees its key.
func deciding(rec idempotency.Record) idempotency.Resolution {
	return idempotency.Resolution{
		Scope: rec.Request.Scope, Key: rec.Request.Key, Token: rec.Token, By: "ann", Note: "looked at the bank: not there",
	}
}

// answering is a decision about rec that gives it an answer.
func answering(rec idempotency.Record, text string) idempotency.Resolution {
	r, response := deciding(rec), answerOf(text)
	r.Response, r.Note = &response, "looked at the bank: it is there"
	return r
}

func (w *world) resolve(r idempotency.Resolution) {
	w.Helper()
	if err := w.operators().Resolve(w.ctx, r); err != nil {
		w.Fatalf("Resolve: %v", err)
	}
}

// afterwards is what the record becomes by a decision.
func afterwards(rec idempotency.Record, r idempotency.Resolution) idempotency.Record {
	rec.Token, rec.Attempt = rec.Token+1, ""
	if r.Response == nil {
		rec.State, rec.Steps = idempotency.Free, nil
		return rec
	}
	rec.State, rec.Response = idempotency.Done, *r.Response
	return rec
}

// isDecided says what is wrong with the answer to a decision that came too late, or about what is not open.
func isDecided(err error, rec idempotency.Record) error {
	decided, ok := errors.AsType[*idempotency.DecidedError](err)
	if !ok {
		return fmt.Errorf("got %v, want a *DecidedError", err)
	}
	if problem := different(decided.Record, rec); problem != "" {
		return fmt.Errorf("the DecidedError's record: %s", problem)
	}
	return nil
}

// audited says what is wrong with the decisions that are kept about a key, but for their times.
func (w *world) audited(req idempotency.Request, want ...idempotency.Decision) error {
	got, err := w.operators().Audit(w.ctx, req.Scope, req.Key)
	if err != nil {
		return fmt.Errorf("Audit: %w", err)
	}
	timeless := slices.Clone(got)
	for i, d := range got {
		if d.At.IsZero() || i > 0 && d.At.Before(got[i-1].At) {
			return fmt.Errorf("decision %d is of %v", i, d.At)
		}
		timeless[i].At = time.Time{}
	}
	if !slices.Equal(timeless, want) {
		return fmt.Errorf("the decisions are %+v, want %+v", timeless, want)
	}
	return nil
}

// decisionOf is what is kept of a decision about rec.
func decisionOf(rec idempotency.Record, r idempotency.Resolution) idempotency.Decision {
	return idempotency.Decision{By: r.By, Note: r.Note, From: rec.State, To: afterwards(rec, r).State, Token: rec.Token + 1}
}

var resolveCases = []claim{
	{"a key that is unresolved is decided once, and the decision is kept", (*world).decidesOpenKeys},
	{"a key that is not unresolved is not decided, and nothing is kept of it", func(w *world) {
		recs, unresolved := w.zoo()
		for name, rec := range recs {
			if unresolved[name] {
				continue
			}
			for _, r := range []idempotency.Resolution{deciding(rec), answering(rec, "an operator's")} {
				for _, r.Token = range []int64{0, rec.Token} {
					told := w.find(rec.Request)
					if err := isDecided(w.operators().Resolve(w.ctx, r), told); err != nil {
						w.Errorf("%s: %v", name, err)
					}
				}
			}
			w.is(rec)
			if name == "live" && w.find(rec.Request).Expired() {
				w.Errorf("the live claim has expired")
			}
			if err := w.audited(rec.Request); err != nil {
				w.Errorf("%s: %v", name, err)
			}
		}
	}},
	{"a key that nobody claimed is not decided, and none is made", func(w *world) {
		req := w.request()
		for _, token := range []int64{0, 1} {
			r := deciding(idempotency.Record{Request: req, Token: token})
			if err := w.operators().Resolve(w.ctx, r); !errors.Is(err, idempotency.ErrNotFound) {
				w.Errorf("got %v, want ErrNotFound", err)
			}
		}
		if w.stateOf(req) != gone {
			w.Errorf("a record was made")
		}
		if err := w.audited(req); err != nil {
			w.Errorf("%v", err)
		}
	}},
	{"a decision about another token is refused", func(w *world) {
		rec := w.expired(resumable(w.request()))
		taken := w.win(resumable(rec.Request))
		w.complete(taken, idempotency.Unknown, idempotency.Response{})
		rec = ended(taken, idempotency.Unknown, "")
		for _, token := range []int64{rec.Token - 1, rec.Token + 1, -1} {
			r := answering(rec, "an operator's")
			r.Token = token
			if err := isDecided(w.operators().Resolve(w.ctx, r), rec); err != nil {
				w.Errorf("token %d: %v", token, err)
			}
		}
		w.is(rec)
		if err := w.audited(rec.Request); err != nil {
			w.Errorf("%v", err)
		}
		r := answering(rec, "an operator's")
		r.Token = 0 // any
		w.resolve(r)
		w.is(afterwards(rec, r))
	}},
	{"an answer that an operator gave is everybody's, and the late owner's does not count", func(w *world) {
		keys, rec := w.newKeys(), w.expired(resumable(w.request()))
		r := answering(rec, "an operator's")
		w.resolve(r)
		spoil(*r.Response)
		want := afterwards(rec, answering(rec, "an operator's"))
		w.is(want)
		w.refusesStranger(claimOf(rec), want)
		half := claimOf(rec)
		half.Token++ // it guesses the token
		w.refusesStranger(half, want)
		w.replays(keys, rec.Request, answerOf("an operator's"))
		w.stands(keys, otherIntent(rec.Request), idempotency.ErrMismatch)
	}},
	{"a key that an operator freed is the next one's, without steps, and the late owner's result does not count", func(w *world) {
		rec := w.save(w.win(resumable(w.request())), finished("a", `"1"`), sent("b"))
		w.letGo(rec)
		w.resolve(deciding(rec))
		free := afterwards(rec, deciding(rec))
		w.is(free)
		w.refusesStranger(claimOf(rec), free)
		next := w.win(attempt(otherIntent(rec.Request)))
		if next.Token <= free.Token || len(next.Steps) != 0 {
			w.Errorf("the next owner has %v with steps %s", show(next), showSteps(next.Steps))
		}
		w.refusesStranger(claimOf(rec), next)
		w.is(next)
	}},
	{"every answer that a key may have may be an operator's", func(w *world) {
		for _, tc := range answers {
			rec := w.win(attempt(w.request()))
			w.complete(rec, idempotency.Unknown, idempotency.Response{})
			r := deciding(rec)
			r.Response = &tc.r
			w.resolve(r)
			if problem := differentAnswer(w.find(rec.Request).Response, tc.r); problem != "" {
				w.Errorf("%s: %s", tc.name, problem)
			}
		}
	}},
	{"decisions about a key are kept in order, as they were explained", func(w *world) {
		req := w.request()
		var want []idempotency.Decision
		for i, note := range []string{"plain", "ä \" ' \\ %s 日本\n", strings.Repeat("n", 1000)} {
			rec := w.win(resumable(req))
			if i == 1 {
				w.complete(rec, idempotency.Unknown, idempotency.Response{})
				rec = ended(rec, idempotency.Unknown, "")
			} else {
				w.letGo(rec)
			}
			r := deciding(rec)
			r.By, r.Note = fmt.Sprintf("ann's deputy %d", i), note
			w.resolve(r)
			want = append(want, decisionOf(rec, r))
			w.pass(time.Microsecond)
		}
		if err := w.audited(req, want...); err != nil {
			w.Errorf("%v", err)
		}
		other, elsewhere := w.request(), req
		elsewhere.Scope += "/other"
		for _, req := range []idempotency.Request{other, elsewhere} {
			if err := w.audited(req); err != nil {
				w.Errorf("another key: %v", err)
			}
		}
	}},
	{"a decision has the time of the store's clock", func(w *world) {
		rec := w.expired(attempt(w.request()))
		before := w.now()
		w.resolve(deciding(rec))
		all, err := w.operators().Audit(w.ctx, rec.Request.Scope, rec.Request.Key)
		if err != nil || len(all) != 1 {
			w.Fatalf("Audit: %d decisions, %v", len(all), err)
		}
		off := all[0].At.Sub(before)
		if w.f.Advance == nil && off.Abs() > slack || w.f.Advance != nil && off.Abs() > time.Millisecond {
			w.Errorf("it is %v, which is off by %v", all[0].At, off)
		}
	}},
	{"a decision is about no key beside it", func(w *world) {
		for what, leave := range map[string]func(a idempotency.Attempt) idempotency.Record{
			"expired": w.expired,
			"unknown": func(a idempotency.Attempt) idempotency.Record {
				rec := w.save(w.win(a), sent("a"))
				w.complete(rec, idempotency.Unknown, idempotency.Response{})
				return ended(rec, idempotency.Unknown, "")
			},
		} {
			for _, decide := range []func(idempotency.Record) idempotency.Resolution{
				deciding, func(rec idempotency.Record) idempotency.Resolution { return answering(rec, "an operator's") },
			} {
				rec, others := w.neighbours(leave)
				w.resolve(decide(rec))
				w.unmoved("Resolve of "+what, others, what == "expired")
				for _, other := range others {
					if err := w.audited(other.Request); err != nil {
						w.Errorf("%s: the key beside it: %v", what, err)
					}
				}
			}
		}
	}},
	{"a decision that was called off before it began changed nothing", func(w *world) {
		rec := w.expired(attempt(w.request()))
		ctx, cancel := contextThatEnded(w.ctx)
		defer cancel()
		if err := w.operators().Resolve(ctx, deciding(rec)); err == nil {
			w.Errorf("Resolve under an ended context succeeded")
		}
		w.is(rec)
		if err := w.audited(rec.Request); err != nil {
			w.Errorf("%v", err)
		}
	}},
}

// decidesOpenKeys decides one record of each kind that is open, both ways, twice.
func (w *world) decidesOpenKeys() {
	for _, decide := range []func(idempotency.Record) idempotency.Resolution{
		deciding, func(rec idempotency.Record) idempotency.Resolution { return answering(rec, "an operator's") },
	} {
		recs, unresolved := w.zoo()
		for name, rec := range recs {
			if !unresolved[name] {
				continue
			}
			r := decide(rec)
			w.resolve(r)
			want := afterwards(rec, r)
			w.is(want)
			if err := w.audited(rec.Request, decisionOf(rec, r)); err != nil {
				w.Errorf("%s: %v", name, err)
			}
			for _, r.Token = range []int64{0, rec.Token, want.Token} {
				if err := isDecided(w.operators().Resolve(w.ctx, r), want); err != nil {
					w.Errorf("%s: a second decision: %v", name, err)
				}
			}
			w.is(want)
			if err := w.audited(rec.Request, decisionOf(rec, r)); err != nil {
				w.Errorf("%s: after a second decision: %v", name, err)
			}
		}
	}
}

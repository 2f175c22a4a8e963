package idempotencytest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/fiftyhosts/fifty/faults/interleave"
	"github.com/fiftyhosts/fifty/idempotency"
)

// order is work of two steps that counts what it does: it reserves, and then it charges.
type order struct {
	reserve, charge func(ctx context.Context) (string, error) // nil for one that succeeds

	mu     sync.Mutex
	did    []string
	tokens []int64 // of the claims that it ran under, one a run
}

const (
	reserved = `"reservation"`         // what reserving leaves, as JSON
	answer   = "reservation and money" // of the order
)

func (o *order) run(ctx context.Context, s *idempotency.Steps) (idempotency.Response, error) {
	token, _ := idempotency.TokenFrom(ctx)
	o.mu.Lock()
	o.tokens = append(o.tokens, token)
	o.mu.Unlock()
	first, err := idempotency.Step(ctx, s, "reserve", o.doing("reserve", "reservation", o.reserve))
	if err != nil {
		return idempotency.Response{}, err
	}
	second, err := idempotency.Step(ctx, s, "charge", o.doing("charge", "money", o.charge))
	if err != nil {
		return idempotency.Response{}, err
	}
	return answerOf(first + " and " + second), nil
}

func (o *order) doing(name, result string, fn func(ctx context.Context) (string, error)) func(context.Context, string) (string, error) {
	return func(ctx context.Context, _ string) (string, error) {
		interleave.Point(ctx, name)
		o.mu.Lock()
		o.did = append(o.did, name)
		o.mu.Unlock()
		if fn == nil {
			return result, nil
		}
		return fn(ctx)
	}
}

// has fails the case unless the order did these steps, in this order.
func (w *world) hasDone(o *order, steps ...string) {
	w.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if !slices.Equal(o.did, steps) {
		w.Errorf("the steps that ran are %q, want %q", o.did, steps)
	}
}

// killed leaves the claim of an owner of an order that was killed, behind the steps that it had saved.
func (w *world) killed(steps ...idempotency.StepRecord) idempotency.Record {
	w.Helper()
	a := resumable(w.request())
	a.Lease = shortLease
	return w.expire(w.save(w.win(a), steps...), shortLease)
}

var doStepsCases = []claim{
	{"DoSteps finishes what a killed owner began, without the steps that it had finished", func(w *world) {
		for _, tc := range []struct {
			left []idempotency.StepRecord
			runs []string
		}{
			{nil, []string{"reserve", "charge"}},
			{[]idempotency.StepRecord{sent("reserve")}, []string{"reserve", "charge"}},
			{[]idempotency.StepRecord{finished("reserve", reserved)}, []string{"charge"}},
			{[]idempotency.StepRecord{finished("reserve", reserved), finished("charge", `"money"`)}, nil},
		} {
			keys, o, gone := w.newKeys(), &order{}, w.killed(tc.left...)
			res, err := keys.DoSteps(w.ctx, gone.Request, o.run)
			if problem := differentAnswer(res.Response, answerOf(answer)); err != nil || res.Replayed || problem != "" {
				w.Errorf("the next arrival got Replayed %v, %v; %s", res.Replayed, err, problem)
			}
			w.hasDone(o, tc.runs...)
			w.replays(keys, gone.Request, answerOf(answer))
			rec := w.find(gone.Request)
			if rec.Token <= gone.Token {
				w.Errorf("the token is %d, after %d", rec.Token, gone.Token)
			}
			w.refusesStranger(claimOf(gone), rec)
		}
	}},
	{"DoSteps that failed goes on behind the finished step when the next one arrives", func(w *world) {
		keys, req := w.newKeys(), w.request()
		o := &order{charge: func(context.Context) (string, error) { return "", errWork }}
		for range 2 {
			if _, err := keys.DoSteps(w.ctx, req, o.run); !errors.Is(err, errWork) || errors.Is(err, idempotency.ErrUnresolved) {
				w.Errorf("got %v, want the function's own error", err)
			}
		}
		w.stands(keys, req, idempotency.ErrInFlight) // one that can't resume leaves it to one that can
		o.charge = nil
		if _, err := keys.DoSteps(w.ctx, req, o.run); err != nil {
			w.Errorf("got %v, want the answer", err)
		}
		w.hasDone(o, "reserve", "charge", "charge", "charge")
		if !slices.IsSorted(o.tokens) || len(slices.Compact(slices.Clone(o.tokens))) != len(o.tokens) {
			w.Errorf("the tokens were %v; each must be higher than the one before", o.tokens)
		}
		w.replays(keys, req, answerOf(answer))
	}},
	{"DoSteps that did nothing frees the key, and one that finished a step goes on", func(w *world) {
		notDone := func(context.Context) (string, error) { return "", idempotency.NotDone(errWork) }
		for what, o := range map[string]*order{"nothing": {reserve: notDone}, "a step": {charge: notDone}} {
			keys, req := w.newKeys(), w.request()
			if _, err := keys.DoSteps(w.ctx, req, o.run); !errors.Is(err, errWork) {
				w.Errorf("%s: got %v, want the function's own error", what, err)
			}
			if rec := w.find(req); what == "nothing" && rec.State != idempotency.Free || what != "nothing" && !rec.Expired() {
				w.Errorf("%s: it left %v", what, show(rec))
			}
			o.reserve, o.charge = nil, nil
			if _, err := keys.DoSteps(w.ctx, req, o.run); err != nil {
				w.Errorf("%s: the next arrival got %v", what, err)
			}
			w.replays(keys, req, answerOf(answer))
		}
	}},
	{"DoSteps whose owner was taken over saves nothing and starts no further step", func(w *world) {
		keys, req := w.newKeys(), w.request()
		var taker idempotency.Record
		o := &order{reserve: func(context.Context) (string, error) {
			w.letGo(w.find(req)) // its lease ends
			taker = w.win(resumable(req))
			return "late", nil
		}}
		if _, err := keys.DoSteps(w.ctx, req, o.run); !errors.Is(err, idempotency.ErrLost) {
			w.Errorf("got %v, want ErrLost", err)
		}
		w.hasDone(o, "reserve")
		w.is(taker)
	}},
	{"StepOnce that a killed owner may have sent is not sent again unless the peer says no", (*world).asksBeforeItSends},
	{"in every order one of two DoSteps finishes what a killed owner began", func(w *world) {
		w.race(ofSteps, func() interleave.Case { return w.twoDoSteps(w.killed(finished("reserve", reserved)).Request, "charge") })
	}},
	{"in every order one of two DoSteps runs, and each step once", func(w *world) {
		w.race(ofSteps, func() interleave.Case { return w.twoDoSteps(w.request(), "reserve", "charge") })
	}},
}

// asksBeforeItSends resumes a request whose only step may have been sent.
func (w *world) asksBeforeItSends() {
	type ask = func(ctx context.Context, key string) (string, bool, error)
	for what, tc := range map[string]struct {
		ask   ask
		sends int
		want  string
		err   error
	}{
		"nobody to ask": {nil, 0, "", idempotency.ErrUnresolved},
		"it was sent":   {func(context.Context, string) (string, bool, error) { return "found", true, nil }, 0, "found", nil},
		"it was not":    {func(context.Context, string) (string, bool, error) { return "", false, nil }, 1, "sent anew", nil},
	} {
		keys, req, sends := w.newKeys(), w.killed(sent("send")).Request, 0
		res, err := keys.DoSteps(w.ctx, req, func(ctx context.Context, s *idempotency.Steps) (idempotency.Response, error) {
			text, err := idempotency.StepOnce(ctx, s, "send", func(context.Context, string) (string, error) {
				sends++
				return "sent anew", nil
			}, tc.ask)
			return answerOf(text), err
		})
		if !errors.Is(err, tc.err) || sends != tc.sends {
			w.Errorf("%s: got %v after %d sendings, want %v after %d", what, err, sends, tc.err, tc.sends)
		}
		if tc.err != nil {
			w.stands(keys, req, tc.err)
			continue
		}
		if problem := differentAnswer(res.Response, answerOf(tc.want)); problem != "" {
			w.Errorf("%s: %s", what, problem)
		}
		w.replays(keys, req, answerOf(tc.want))
	}
}

// twoDoSteps is a race of two arrivals of an order, of which these steps are still to be done.
func (w *world) twoDoSteps(req idempotency.Request, steps ...string) interleave.Case {
	keys, o := w.newKeysApart(), &order{}
	var results [2]idempotency.Result
	var errs [2]error
	arrive := func(i int) func(ctx context.Context) {
		return func(ctx context.Context) { results[i], errs[i] = keys.DoSteps(ctx, req, o.run) }
	}
	return interleave.Case{
		Callers: []func(context.Context){arrive(0), arrive(1)},
		Check: func() error {
			if !slices.Equal(o.did, steps) {
				return fmt.Errorf("the steps that ran are %q, want %q", o.did, steps)
			}
			for i, err := range errs {
				problem := differentAnswer(results[i].Response, answerOf(answer))
				if err != nil && !errors.Is(err, idempotency.ErrInFlight) || err == nil && problem != "" {
					return fmt.Errorf("arrival %d got %v; %s", i, err, problem)
				}
			}
			rec, err := w.record(req)
			if problem := differentAnswer(rec.Response, answerOf(answer)); err == nil && problem != "" {
				err = errors.New("the record: " + problem)
			}
			return err
		},
	}
}

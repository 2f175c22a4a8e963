package idempotencytest

import (
	"errors"
	"fmt"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
)

// newKeysApart is newKeys for a race: each caller asks for itself, on its own goroutine, so that its order is the
// order of the schedule.
func (w *world) newKeysApart() *idempotency.Keys {
	if s, ok := w.store.(idempotency.AnswerStore); ok {
		return idempotency.New(struct{ idempotency.AnswerStore }{s}, idempotency.Config{})
	}
	return idempotency.New(struct{ idempotency.Store }{w.store}, idempotency.Config{})
}

// arrivalsOfAllKinds make attempts, one for each thing that may be said to one. Each call has a new key.
func (w *world) arrivalsOfAllKinds() map[string]func() idempotency.Attempt {
	freed := func() idempotency.Request {
		rec := w.win(attempt(w.request()))
		w.complete(rec, idempotency.Free, idempotency.Response{})
		return rec.Request
	}
	made := func(ago time.Duration) idempotency.Attempt { return timed(w.request(), w.now().Add(-ago)) }
	done := func() idempotency.Request {
		rec := w.win(attempt(w.request()))
		w.done(rec, "the answer")
		return rec.Request
	}
	all := map[string]func() idempotency.Attempt{
		"new":                 func() idempotency.Attempt { return attempt(w.request()) },
		"new, carries a time": func() idempotency.Attempt { return made(0) },
		"new, another window": func() idempotency.Attempt {
			a := made(window + slack)
			a.Window = 2 * window
			return a
		},
		"in flight": func() idempotency.Attempt { return attempt(w.win(attempt(w.request())).Request) },
		"its own": func() idempotency.Attempt {
			a := attempt(w.request())
			w.win(a)
			return a
		},
		"its own, expired": func() idempotency.Attempt {
			a := resumable(w.request())
			w.expired(a)
			return a
		},
		"done":                 func() idempotency.Attempt { return attempt(done()) },
		"done, another intent": func() idempotency.Attempt { return attempt(otherIntent(done())) },
		"unknown": func() idempotency.Attempt {
			rec := w.win(attempt(w.request()))
			w.complete(rec, idempotency.Unknown, idempotency.Response{})
			return resumable(rec.Request)
		},
		"free":                 func() idempotency.Attempt { return attempt(freed()) },
		"free, another intent": func() idempotency.Attempt { return attempt(otherIntent(freed())) },
		"expired":              func() idempotency.Attempt { return resumable(w.expired(attempt(w.request())).Request) },
		"to be resumed":        func() idempotency.Attempt { return resumable(w.expired(resumable(w.request())).Request) },
		"to be resumed, by one that can't": func() idempotency.Attempt {
			return attempt(w.expired(resumable(w.request())).Request)
		},
		"to be resumed, another intent": func() idempotency.Attempt {
			return resumable(otherIntent(w.expired(resumable(w.request())).Request))
		},
	}
	for name, o := range w.outside() {
		all["new, "+name] = func() idempotency.Attempt { return timed(w.request(), o.made) }
		all["free, "+name] = func() idempotency.Attempt { return timed(freed(), o.made) }
	}
	return all
}

// verdict is what was said to an attempt, whatever its key.
func verdict(c idempotency.Claimed) string {
	said := "nothing is wrong"
	for _, err := range []error{idempotency.ErrExpired, errors.Unwrap(c.Err)} {
		if err != nil && errors.Is(c.Err, err) {
			said = err.Error()
			break
		}
	}
	return fmt.Sprintf("won %v, %v, %v of token %d, expired %v",
		c.Won, said, c.Record.State, c.Record.Token, c.Record.Expired())
}

var togetherCases = []claim{
	{"in a batch an attempt is told what it would be told by itself", func(w *world) {
		kinds := w.arrivalsOfAllKinds()
		var names, want []string
		var batch []idempotency.Attempt
		for range 2 {
			for name, arrive := range kinds {
				got, _ := w.claimOne(w.ctx, arrive())
				names, want, batch = append(names, name), append(want, verdict(got)), append(batch, arrive())
			}
		}
		answers, err := w.store.Claim(w.ctx, batch)
		if err != nil || len(answers) != len(batch) {
			w.Fatalf("Claim: %d answers, %v", len(answers), err)
		}
		for i, got := range answers {
			if errors.Is(got.Err, idempotency.ErrAlone) { // it may say so, and nothing happened
				got, _ = w.claimOne(w.ctx, batch[i])
			}
			if verdict(got) != want[i] {
				w.Errorf("%s: %s; by itself %s", names[i], verdict(got), want[i])
			}
			if problem := wrongWinner(got.Record, batch[i]); got.Won && problem != "" {
				w.Errorf("%s: won, but %s", names[i], problem)
			}
			if got.Won {
				w.is(got.Record)
			}
		}
	}},
	{"in a batch an attempt is judged by what the one before it left", func(w *world) {
		over := w.expired(resumable(w.request())).Request
		old := w.request()
		mine := attempt(w.request())
		batch := []idempotency.Attempt{
			attempt(over), timed(old, w.outside()["too old"].made), mine,
			resumable(over), attempt(old), mine,
			resumable(over), attempt(old), attempt(mine.Request),
		}
		won := []bool{false, false, true, true, true, true, false, false, false}
		answers, err := w.store.Claim(w.ctx, batch)
		if err != nil {
			w.Fatalf("Claim: %v", err)
		}
		if !errors.Is(answers[1].Err, idempotency.ErrExpired) {
			w.Errorf("the attempt outside of its window got %+v", answers[1])
		}
		for i, got := range answers {
			if got.Won != won[i] {
				w.Errorf("attempt %d: won is %v, want %v; %v, %v", i, got.Won, won[i], show(got.Record), got.Err)
			}
		}
		for i, owner := range map[int]int{6: 3, 7: 4, 8: 2} {
			if problem := different(answers[i].Record, answers[owner].Record); problem != "" {
				w.Errorf("attempt %d was told: %s", i, problem)
			}
		}
		for _, owner := range []int{3, 4, 2} {
			w.is(answers[owner].Record)
		}
	}},
	{"in a batch a claim may come twice, and what its owner said first counts", func(w *world) {
		better, final, gone := w.win(attempt(w.request())), w.win(attempt(w.request())), w.win(resumable(w.request()))
		end := func(rec idempotency.Record, s idempotency.State) idempotency.Completion {
			c := idempotency.Completion{Claim: claimOf(rec), State: s}
			if s == idempotency.Done {
				c.Response = answerOf("the answer")
			}
			return c
		}
		w.agree("Renew", make([]error, 4), w.renewAll([]idempotency.Claim{claimOf(gone), claimOf(better), claimOf(gone), claimOf(better)}))
		got := w.completeAll([]idempotency.Completion{
			end(better, idempotency.Unknown), end(final, idempotency.Done), end(gone, idempotency.InFlight),
			end(better, idempotency.Done), end(final, idempotency.Unknown), end(gone, idempotency.Done),
		})
		w.agree("Complete", []error{nil, nil, nil, nil, &idempotency.LostError{Superseded: true}, nil}, got)
		for _, rec := range []idempotency.Record{better, final, gone} {
			w.is(ended(rec, idempotency.Done, "the answer"))
		}
	}},
	{"in a batch a claim that is let go expires, and one that is renewed does not", func(w *world) {
		gone, kept := w.win(resumable(w.request())), w.win(resumable(w.request()))
		w.agree("Complete", make([]error, 2), w.completeAll([]idempotency.Completion{
			{Claim: claimOf(gone), State: idempotency.InFlight}, {Claim: claimOf(w.win(attempt(w.request()))), State: idempotency.Free},
		}))
		lost := &idempotency.LostError{}
		w.agree("Renew", []error{lost, nil}, w.renewAll([]idempotency.Claim{claimOf(gone), claimOf(kept)}))
		answers := w.claimAll([]idempotency.Attempt{resumable(gone.Request), resumable(kept.Request)})
		if !answers[0].Won || answers[1].Won {
			w.Errorf("won: %v, %v", answers[0].Won, answers[1].Won)
		}
	}},
}

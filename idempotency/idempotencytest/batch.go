package idempotencytest

import (
	"fmt"

	"github.com/fiftyhosts/fifty/idempotency"
)

// batchSize is that of the larger batches; no store may refuse so many.
const batchSize = 100

var batchCases = []claim{
	{"an empty batch is answered with nothing", func(w *world) {
		if got, err := w.store.Claim(w.ctx, nil); err != nil || len(got) != 0 {
			w.Errorf("Claim: %v, %v", got, err)
		}
		if got, err := w.store.Renew(w.ctx, nil, longLease); err != nil || len(got) != 0 {
			w.Errorf("Renew: %v, %v", got, err)
		}
		if got, err := w.store.Complete(w.ctx, nil); err != nil || len(got) != 0 {
			w.Errorf("Complete: %v, %v", got, err)
		}
	}},
	{"a batch of claims is answered one by one, in order", func(w *world) {
		done := w.win(attempt(w.request()))
		w.done(done, "the answer")
		flying := w.win(attempt(w.request()))
		free := w.win(attempt(w.request()))
		w.complete(free, idempotency.Free, idempotency.Response{})
		over := w.expired(resumable(w.request()))
		mine := attempt(w.request())
		w.win(mine)
		batch := []idempotency.Attempt{
			attempt(w.request()), attempt(done.Request), mine, attempt(flying.Request), resumable(over.Request),
			attempt(otherIntent(done.Request)), attempt(otherIntent(free.Request)), attempt(w.request()),
		}
		won := []bool{true, false, true, false, true, false, true, true}
		answers := w.claimAll(batch)
		for i, got := range answers {
			if got.Won != won[i] {
				w.Errorf("answer %d: won is %v, want %v; the record is %v", i, got.Won, won[i], show(got.Record))
			}
			if problem := wrongWinner(got.Record, batch[i]); got.Won && problem != "" {
				w.Errorf("answer %d: won, but %s", i, problem)
			}
		}
		for i, want := range map[int]idempotency.Record{
			1: ended(done, idempotency.Done, "the answer"), 3: flying, 5: ended(done, idempotency.Done, "the answer"),
		} {
			if problem := different(answers[i].Record, want); problem != "" {
				w.Errorf("answer %d: %s", i, problem)
			}
		}
		for _, i := range []int{0, 2, 4, 6, 7} {
			w.is(answers[i].Record)
		}
	}},
	{"of two attempts on one key in a batch one wins", func(w *world) {
		free := w.win(attempt(w.request()))
		w.complete(free, idempotency.Free, idempotency.Response{})
		over := w.expired(resumable(w.request()))
		for name, req := range map[string]idempotency.Request{"fresh": w.request(), "free": free.Request, "expired": over.Request} {
			answers := w.claimAll([]idempotency.Attempt{
				resumable(req), attempt(w.request()), resumable(req), resumable(req),
			})
			var winners []idempotency.Record
			for _, i := range []int{0, 2, 3} {
				if answers[i].Won {
					winners = append(winners, answers[i].Record)
				}
			}
			if len(winners) != 1 {
				w.Errorf("%s: %d of three won", name, len(winners))
				continue
			}
			for _, i := range []int{0, 2, 3} {
				if problem := different(answers[i].Record, winners[0]); problem != "" {
					w.Errorf("%s: answer %d: %s", name, i, problem)
				}
			}
			w.is(winners[0])
		}
	}},
	{"of two intents with one key in a batch one wins", func(w *world) {
		req := w.request()
		answers := w.claimAll([]idempotency.Attempt{attempt(req), attempt(otherIntent(req))})
		if answers[0].Won == answers[1].Won {
			w.Fatalf("won: %v, %v", answers[0].Won, answers[1].Won)
		}
		if problem := different(answers[0].Record, answers[1].Record); problem != "" {
			w.Errorf("the two were told of different records: %s", problem)
		}
	}},
	{"an attempt that is twice in a batch has one claim", func(w *world) {
		a := attempt(w.request())
		answers := w.claimAll([]idempotency.Attempt{a, a})
		if !answers[0].Won || !answers[1].Won || answers[0].Record.Token != answers[1].Record.Token {
			w.Errorf("got won %v with token %d and won %v with token %d",
				answers[0].Won, answers[0].Record.Token, answers[1].Won, answers[1].Record.Token)
		}
		w.is(answers[0].Record)
	}},
	{"one key under two scopes in a batch is two keys", func(w *world) {
		a := attempt(w.request())
		b := attempt(a.Request)
		b.Request.Scope += "/other"
		answers := w.claimAll([]idempotency.Attempt{a, b})
		if !answers[0].Won || !answers[1].Won {
			w.Errorf("won: %v, %v", answers[0].Won, answers[1].Won)
		}
	}},
	{"a large batch is answered one by one, in order", func(w *world) {
		var batch []idempotency.Attempt
		for range batchSize {
			batch = append(batch, attempt(w.request()))
		}
		var claims []idempotency.Claim
		var ends []idempotency.Completion
		for i, got := range w.claimAll(batch) {
			if problem := wrongWinner(got.Record, batch[i]); !got.Won || problem != "" {
				w.Fatalf("answer %d: won is %v; %s", i, got.Won, problem)
			}
			claims = append(claims, claimOf(got.Record))
			ends = append(ends, idempotency.Completion{
				Claim: claimOf(got.Record), State: idempotency.Done, Response: answerOf(fmt.Sprint(i)),
			})
		}
		w.agree("Renew", make([]error, batchSize), w.renewAll(claims))
		w.agree("Complete", make([]error, batchSize), w.completeAll(ends))
		for i, a := range batch {
			if problem := differentAnswer(w.find(a.Request).Response, answerOf(fmt.Sprint(i))); problem != "" {
				w.Errorf("key %d: %s", i, problem)
			}
		}
	}},
	{"a batch of renewals is answered one by one, in order", func(w *world) {
		live := w.win(attempt(w.request()))
		over := w.expired(attempt(w.request()))
		live2 := w.win(attempt(w.request()))
		stranger := claimOf(live)
		stranger.Attempt = attempt(live.Request).ID
		nobody := claimOf(live)
		nobody.Key = "nobody"
		got := w.renewAll([]idempotency.Claim{claimOf(over), claimOf(live), stranger, nobody, claimOf(live2), claimOf(live)})
		lost := func(superseded bool) error { return &idempotency.LostError{Superseded: superseded} }
		w.agree("Renew", []error{lost(false), nil, lost(true), lost(true), nil, nil}, got)
		w.is(live)
		w.is(live2)
		if !w.find(over.Request).Expired() {
			w.Errorf("the expired claim was revived")
		}
	}},
	{"a batch of completions is answered one by one, in order", func(w *world) {
		over := w.expired(attempt(w.request()))
		live := w.win(attempt(w.request()))
		open := w.win(attempt(w.request()))
		stranger := claimOf(live)
		stranger.Token += 7
		nobody := claimOf(live)
		nobody.Key = "nobody"
		got := w.completeAll([]idempotency.Completion{
			{Claim: stranger, State: idempotency.Done, Response: answerOf("a stranger's")},
			{Claim: claimOf(live), State: idempotency.Done, Response: answerOf("the first")},
			{Claim: claimOf(open), State: idempotency.Free},
			{Claim: nobody, State: idempotency.Unknown},
			{Claim: claimOf(live), State: idempotency.Done, Response: answerOf("the second")},
			{Claim: claimOf(over), State: idempotency.Unknown},
		})
		lost := &idempotency.LostError{Superseded: true}
		w.agree("Complete", []error{lost, nil, nil, lost, nil, nil}, got)
		w.is(ended(live, idempotency.Done, "the first"))
		w.is(ended(open, idempotency.Free, ""))
		w.is(ended(over, idempotency.Unknown, ""))
	}},
}

func (w *world) claimAll(batch []idempotency.Attempt) []idempotency.Claimed {
	w.Helper()
	answers, err := w.store.Claim(w.ctx, batch)
	if err != nil {
		w.Fatalf("Claim: %v", err)
	}
	if len(answers) != len(batch) {
		w.Fatalf("Claim gave %d answers for %d attempts", len(answers), len(batch))
	}
	for i, a := range answers {
		if a.Err != nil {
			w.Fatalf("Claim: answer %d: %v", i, a.Err)
		}
	}
	return answers
}

func (w *world) renewAll(claims []idempotency.Claim) []error {
	w.Helper()
	got, err := w.store.Renew(w.ctx, claims, longLease)
	if err != nil {
		w.Fatalf("Renew: %v", err)
	}
	return got
}

func (w *world) completeAll(ends []idempotency.Completion) []error {
	w.Helper()
	got, err := w.store.Complete(w.ctx, ends)
	if err != nil {
		w.Fatalf("Complete: %v", err)
	}
	return got
}

// agree compares the answers of a batch: nil, or a LostError that tells the same.
func (w *world) agree(call string, want, got []error) {
	w.Helper()
	if len(got) != len(want) {
		w.Fatalf("%s gave %d answers for %d members", call, len(got), len(want))
	}
	for i := range want {
		if want[i] == nil {
			if got[i] != nil {
				w.Errorf("%s: answer %d is %v, want nil", call, i, got[i])
			}
			continue
		}
		if err := refused(got[i], want[i].(*idempotency.LostError).Superseded); err != nil {
			w.Errorf("%s: answer %d: %v", call, i, err)
		}
	}
}

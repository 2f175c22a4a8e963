package idempotencytest

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"sync"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/txn"
)

func inTxCases[Tx any]() []txClaim[Tx] {
	return []txClaim[Tx]{
		{"InTx commits effect and answer together, and shows neither before", (*txWorld[Tx]).commitsTogether},
		{"InTx keeps an answer as it was given", (*txWorld[Tx]).keepsAnswersInTx},
		{"InTx whose function fails leaves nothing", (*txWorld[Tx]).leavesNothingOfAFailure},
		{"InTx whose statement fails leaves nothing", (*txWorld[Tx]).leavesNothingOfAFailedStatement},
		{"InTx whose function panics or ends its goroutine leaves nothing", (*txWorld[Tx]).leavesNothingOfAPanic},
		{"InTx that is rolled back leaves the key as it was", (*txWorld[Tx]).leavesTheKeyAsItWas},
		{"InTx whose context ends leaves effect and answer or neither", (*txWorld[Tx]).leavesBothOrNeitherWhenTheContextEnds},
		{"InTx that is sent again after its commit does not run, and finds its answer", (*txWorld[Tx]).findsItsAnswerWhenSentAgain},
		{"a duplicate of an InTx at work is told at once, or waits and gets the answer", func(w *txWorld[Tx]) {
			keys, req := w.newTxKeys(), w.request()
			w.duringWork(keys, req, w.f.DuplicateWaits, func(ctx context.Context) (idempotency.Result, error) { return keys.InTx(ctx, req, w.never) })
		}},
		{"a DoTx during an InTx is told at once, or waits and gets the answer", func(w *txWorld[Tx]) {
			keys, req := w.newTxKeys(), w.request()
			waits := cmp.Or(w.f.TxWaits, w.f.DuplicateWaits)
			w.duringWork(keys, req, waits, func(ctx context.Context) (res idempotency.Result, err error) {
				err = w.transact(ctx, txn.Options{}, func(ctx context.Context, tx Tx) error {
					res, err = keys.DoTx(ctx, tx, req, w.never)
					return err
				})
				return res, err
			})
		}},
		{"a Do during an InTx is told at once, or waits and gets the answer", func(w *txWorld[Tx]) {
			keys, req := w.newTxKeys(), w.request()
			w.duringWork(keys, req, w.f.DuplicateWaits, func(ctx context.Context) (idempotency.Result, error) {
				return keys.Do(ctx, req, func(context.Context) (idempotency.Response, error) {
					w.Errorf("Do ran; it must not")
					return idempotency.Response{}, errWork
				})
			})
		}},
		{"InTx leaves alone what another owner holds or has decided", (*txWorld[Tx]).leavesOthersKeysAlone},
		{"InTx gives every later arrival its answer", (*txWorld[Tx]).answersAllByInTx},
		{"an InTx whose key is not its own leaves nothing, whatever its function does", (*txWorld[Tx]).leavesNothingOfADuplicate},
		{"InTx undoes a refused work and keeps the refusal", (*txWorld[Tx]).keepsARefusalOfInTx},
		{"InTx returns the function's error and may run again", (*txWorld[Tx]).runsAgainAfterAnError},
	}
}

func (w *txWorld[Tx]) keepsAnswersInTx() {
	for _, tc := range answers {
		a := attempt(w.request())
		if got, err := w.inTx(w.ctx, a, w.effecting(a.Request, tc.r, nil)); err != nil || !got.Won {
			w.Fatalf("%s: won %v, %v", tc.name, got.Won, err)
		}
		if problem := differentAnswer(w.find(a.Request).Response, tc.r); problem != "" {
			w.Errorf("%s: %s", tc.name, problem)
		}
	}
}

func (w *txWorld[Tx]) leavesNothingOfAFailure() {
	a := attempt(w.request())
	if _, err := w.inTx(w.ctx, a, w.effecting(a.Request, answerOf("no"), errTx)); !errors.Is(err, errTx) {
		w.Errorf("got %v, want the function's error", err)
	}
	w.untouched(a.Request)
}

func (w *txWorld[Tx]) leavesNothingOfAFailedStatement() {
	a := attempt(w.request())
	if got, err := w.inTx(w.ctx, a, func(ctx context.Context, tx Tx) (idempotency.Response, error) {
		if err := w.h.Effect(ctx, tx, effect(a.Request)); err != nil {
			return idempotency.Response{}, err
		}
		return idempotency.Response{}, w.breaks(ctx, tx)
	}); err == nil {
		w.Errorf("the error is gone; won %v", got.Won)
	}
	w.untouched(a.Request)
}

func (w *txWorld[Tx]) leavesNothingOfAPanic() {
	keys := w.newTxKeys()
	for what, end := range map[string]func(){"panic": func() { panic(errTx) }, "Goexit": runtime.Goexit} {
		req := w.request()
		done := make(chan any)
		go func() {
			defer func() { done <- recover() }()
			_, _ = keys.InTx(w.ctx, req, func(ctx context.Context, tx Tx) (idempotency.Response, error) {
				err := w.h.Effect(ctx, tx, effect(req))
				end()
				return answerOf("no"), err
			})
		}()
		if v := <-done; what == "panic" && v != errTx {
			w.Errorf("the panic became %v", v)
		}
		w.untouched(req)
	}
}

func (w *txWorld[Tx]) leavesTheKeyAsItWas() {
	for what, before := range w.openKeys() {
		next := resumable(before.Request)
		if _, err := w.inTx(w.ctx, next, w.effecting(next.Request, answerOf("no"), errTx)); !errors.Is(err, errTx) {
			w.Errorf("%s: got %v, want the function's error", what, err)
		}
		w.is(before)
		got, err := w.inTx(w.ctx, next, w.effecting(next.Request, answerOf("yes"), nil))
		if err != nil || !got.Won || got.Record.Token <= before.Token {
			w.Errorf("%s: the next one won %v with token %d after %d, %v", what, got.Won, got.Record.Token, before.Token, err)
		}
		w.has(effect(next.Request), 1)
		w.refusesStranger(claimOf(before), w.find(next.Request))
	}
}

func (w *txWorld[Tx]) leavesBothOrNeitherWhenTheContextEnds() {
	a := attempt(w.request())
	ctx, cancel := context.WithCancel(w.ctx)
	cancel()
	if _, err := w.h.Store.InTx(ctx, a, w.effecting(a.Request, answerOf("no"), nil)); err == nil {
		w.Errorf("it was committed under a context that had ended")
	}
	ctx, cancel = context.WithCancel(w.ctx)
	defer cancel()
	if _, err := w.h.Store.InTx(ctx, a, func(ctx context.Context, tx Tx) (idempotency.Response, error) {
		defer cancel()
		return answerOf("no"), w.h.Effect(ctx, tx, effect(a.Request))
	}); err == nil {
		w.Errorf("it was committed, although its context ended before the commit")
	}
	w.untouched(a.Request)
}

func (w *txWorld[Tx]) findsItsAnswerWhenSentAgain() {
	a := attempt(w.request())
	for i, won := range []bool{true, false} {
		got, err := w.inTx(w.ctx, a, w.effecting(a.Request, answerOf("the answer"), nil))
		if err != nil || got.Won != won {
			w.Fatalf("sending %d: won %v, %v", i, got.Won, err)
		}
		if got.Record.Attempt != a.ID || got.Record.Token < 1 {
			w.Errorf("sending %d was told of %v", i, show(got.Record))
		}
		if !won {
			if problem := differentAnswer(got.Record.Response, answerOf("the answer")); problem != "" {
				w.Errorf("sending %d: %s", i, problem)
			}
		}
	}
	w.has(effect(a.Request), 1)
}

func (w *txWorld[Tx]) leavesOthersKeysAlone() {
	keys := w.newTxKeys()
	live := w.win(attempt(w.request()))
	w.standsTx(keys, live.Request, idempotency.ErrInFlight)
	w.is(live)
	gone := w.expired(resumable(w.request()))
	w.standsTx(keys, gone.Request, idempotency.ErrInFlight) // somebody who can resume will
	if got, err := w.inTx(w.ctx, resumable(otherIntent(gone.Request)), w.never); err != nil || got.Won {
		w.Errorf("another intent that can resume won %v, %v", got.Won, err)
	}
	w.is(gone)
	gone = w.expired(attempt(w.request()))
	w.standsTx(keys, gone.Request, idempotency.ErrUnresolved)
	w.is(gone)
	open := w.win(attempt(w.request()))
	w.complete(open, idempotency.Unknown, idempotency.Response{})
	w.standsTx(keys, open.Request, idempotency.ErrUnresolved)
	w.standsTx(keys, otherIntent(live.Request), idempotency.ErrMismatch)
	done := w.win(attempt(w.request()))
	w.done(done, "the answer")
	w.standsTx(keys, otherIntent(done.Request), idempotency.ErrMismatch)
	w.replaysTx(keys, done.Request, answerOf("the answer"))
}

func (w *txWorld[Tx]) answersAllByInTx() {
	keys, req := w.newTxKeys(), w.request()
	res, err := keys.InTx(w.ctx, req, w.effecting(req, answerOf("the answer"), nil))
	if problem := differentAnswer(res.Response, answerOf("the answer")); err != nil || res.Replayed || problem != "" {
		w.Errorf("got Replayed %v, %v; %s", res.Replayed, err, problem)
	}
	w.replaysTx(keys, req, answerOf("the answer"))
	w.standsTx(keys, otherIntent(req), idempotency.ErrMismatch)
	w.has(effect(req), 1)
}

// leavesNothingOfADuplicate has duplicates whose function may begin, and hides that its statements fail.
func (w *txWorld[Tx]) leavesNothingOfADuplicate() {
	keys := w.newTxKeys()
	done, flying := w.win(attempt(w.request())), w.win(attempt(w.request()))
	w.done(done, "the answer")
	for _, req := range []idempotency.Request{done.Request, flying.Request, otherIntent(done.Request)} {
		for what, end := range map[string]error{"an answer": nil, "a refusal": idempotency.Refuse(answerOf("no")), "an error": errTx} {
			res, err := keys.InTx(w.ctx, req, func(ctx context.Context, tx Tx) (idempotency.Response, error) {
				for range 2 {
					_ = w.h.Effect(ctx, tx, effect(req))
				}
				return answerOf("a duplicate's"), end
			})
			problem := ""
			if err == nil {
				problem = differentAnswer(res.Response, answerOf("the answer"))
			}
			if errors.Is(err, errTx) || problem != "" {
				w.Errorf("a duplicate that ends with %s got %v; %s", what, err, problem)
			}
		}
		w.has(effect(req), 0)
	}
	w.is(flying)
	w.replaysTx(keys, done.Request, answerOf("the answer"))
}

func (w *txWorld[Tx]) keepsARefusalOfInTx() {
	keys, req := w.newTxKeys(), w.request()
	declined := idempotency.Response{Status: 402, Body: []byte("declined")}
	res, err := keys.InTx(w.ctx, req, w.effecting(req, answerOf("no"), idempotency.Refuse(declined)))
	if problem := differentAnswer(res.Response, declined); err != nil || res.Replayed || problem != "" {
		w.Errorf("got Replayed %v, %v; %s", res.Replayed, err, problem)
	}
	w.has(effect(req), 0)
	w.replaysTx(keys, req, declined)
}

func (w *txWorld[Tx]) runsAgainAfterAnError() {
	keys, req := w.newTxKeys(), w.request()
	for _, fnErr := range []error{errTx, idempotency.NotDone(errTx)} {
		if _, err := keys.InTx(w.ctx, req, w.effecting(req, answerOf("no"), fnErr)); !errors.Is(err, errTx) {
			w.Errorf("got %v, want the function's error", err)
		}
	}
	w.has(effect(req), 0)
	if _, err := keys.InTx(w.ctx, req, w.effecting(req, answerOf("yes"), nil)); err != nil {
		w.Errorf("got %v, want the answer", err)
	}
	w.has(effect(req), 1)
	w.replaysTx(keys, req, answerOf("yes"))
}

// openKeys are records, by name, that a resumable attempt may claim.
func (w *txWorld[Tx]) openKeys() map[string]idempotency.Record {
	w.Helper()
	free := w.win(attempt(w.request()))
	w.complete(free, idempotency.Free, idempotency.Response{})
	return map[string]idempotency.Record{
		"a free key":     ended(free, idempotency.Free, ""),
		"an expired key": w.expired(resumable(w.request())),
	}
}

func (w *txWorld[Tx]) commitsTogether() {
	a := attempt(w.request())
	runs := 0
	got, err := w.inTx(w.ctx, a, func(ctx context.Context, tx Tx) (idempotency.Response, error) {
		runs++
		if err := w.h.Effect(ctx, tx, effect(a.Request)); err != nil {
			return idempotency.Response{}, err
		}
		if n, err := w.h.Effects(w.ctx, effect(a.Request)); err != nil || n != 0 {
			w.Errorf("before the commit others see %d effects, %v", n, err)
		}
		if rec, err := w.store.Find(w.ctx, a.Request.Scope, a.Request.Key); err == nil && rec.State == idempotency.Done {
			w.Errorf("before the commit others see %v", show(rec))
		}
		return answerOf("the answer"), nil
	})
	if err != nil || !got.Won || runs != 1 {
		w.Fatalf("InTx: won %v, %v, after %d runs", got.Won, err, runs)
	}
	w.has(effect(a.Request), 1)
	rec := w.find(a.Request)
	if rec.State != idempotency.Done || rec.Attempt != a.ID || rec.Owner != a.Owner || rec.Request != a.Request ||
		rec.Token != got.Record.Token || rec.Token < 1 {
		w.Errorf("the record is %v; the winner was told token %d", show(rec), got.Record.Token)
	}
	if problem := differentAnswer(rec.Response, answerOf("the answer")); problem != "" {
		w.Errorf("the record: %s", problem)
	}
}

// duringWork sends a duplicate of req while its first arrival is inside its function. waits says why the
// duplicate waits for the answer, if it does.
func (w *txWorld[Tx]) duringWork(
	keys *idempotency.TxKeys[Tx], req idempotency.Request, waits string, again func(ctx context.Context) (idempotency.Result, error),
) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	started, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	type result struct {
		res idempotency.Result
		err error
	}
	first, second := make(chan result, 1), make(chan result, 1)
	go func() {
		res, err := keys.InTx(ctx, req, func(ctx context.Context, tx Tx) (idempotency.Response, error) {
			if err := w.h.Effect(ctx, tx, effect(req)); err != nil {
				return idempotency.Response{}, err
			}
			once.Do(func() { close(started) }) // it may run again, after a lost race
			select {
			case <-release:
				return answerOf("the answer"), nil
			case <-ctx.Done():
				return idempotency.Response{}, ctx.Err()
			}
		})
		first <- result{res, err}
	}()
	select {
	case <-started:
	case got := <-first:
		w.Fatalf("the first arrival got %v before it ran", got.err)
	}
	go func() {
		res, err := again(ctx)
		second <- result{res, err}
	}()
	if waits == "" {
		got := <-second
		if !errors.Is(got.err, idempotency.ErrInFlight) {
			w.Errorf("the duplicate got status %d, %v, want ErrInFlight while the first is at work", got.res.Status, got.err)
		}
		close(release)
	} else {
		w.Logf("duplicates wait: %s", waits)
		close(release)
		got := <-second
		problem := differentAnswer(got.res.Response, answerOf("the answer"))
		if got.err != nil || !got.res.Replayed || problem != "" {
			w.Errorf("the duplicate got Replayed %v, %v; %s", got.res.Replayed, got.err, problem)
		}
	}
	if got := <-first; got.err != nil {
		w.Errorf("the first arrival got %v", got.err)
	}
	w.has(effect(req), 1)
	w.replaysTx(keys, req, answerOf("the answer"))
}

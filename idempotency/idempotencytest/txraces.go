package idempotencytest

import (
	"context"
	"errors"
	"fmt"

	"github.com/fiftyhosts/fifty/faults/interleave"
	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/txn"
)

// arrival is one caller of a race for a request: it works in its own way and says what it got.
type arrival struct {
	answers string // what its work answers
	res     idempotency.Result
	err     error
}

func txRaceCases[Tx any]() []txClaim[Tx] {
	return []txClaim[Tx]{
		{"in every order two InTx leave one effect and one answer", func(w *txWorld[Tx]) {
			w.race(ofInTx, func() interleave.Case {
				keys, req := w.newTxKeys(), w.request()
				return w.oneEffect(keys, req, 1, w.byInTx(keys, req, nil), w.byInTx(keys, req, nil))
			})
		}},
		{"in every order two DoTx leave one effect and one answer", func(w *txWorld[Tx]) {
			for _, level := range []txn.Isolation{txn.DefaultIsolation, txn.Serializable} {
				w.race(ofDoTx, func() interleave.Case {
					keys, req := w.newTxKeys(), w.request()
					return w.oneEffect(keys, req, 1, w.byDoTx(keys, req, level), w.byDoTx(keys, req, level))
				})
			}
		}},
		{"in every order InTx and DoTx leave one effect and one answer", func(w *txWorld[Tx]) {
			w.race(ofDoTx, func() interleave.Case {
				keys, req := w.newTxKeys(), w.request()
				return w.oneEffect(keys, req, 1, w.byInTx(keys, req, nil), w.byDoTx(keys, req, txn.DefaultIsolation))
			})
		}},
		{"in every order InTx and Do run once and have one answer", func(w *txWorld[Tx]) {
			w.race(ofInTx, func() interleave.Case {
				keys, req := w.newTxKeys(), w.request()
				return w.oneEffect(keys, req, 1, w.byInTx(keys, req, nil), w.byDo(keys, req))
			})
		}},
		{"in every order an InTx that fails leaves the key to the other", func(w *txWorld[Tx]) {
			w.race(ofInTx, w.failingAgainstGood)
		}},
		{"in every order an InTx that refuses and one that does not agree on one answer", func(w *txWorld[Tx]) {
			w.race(ofInTx, w.refusingAgainstGood)
		}},
		{"in every order an InTx that is sent twice leaves one effect and one answer", func(w *txWorld[Tx]) {
			w.race(ofInTx, w.sentTwiceTx)
		}},
		{"in every order a takeover by InTx and the old owner's late result exclude each other", func(w *txWorld[Tx]) {
			w.race(ofInTx, w.takeoverByInTx)
		}},
		{"in every order two InTx on a free key leave one effect and one answer", func(w *txWorld[Tx]) {
			w.race(ofInTx, func() interleave.Case {
				keys := w.newTxKeys()
				req, _ := w.freed()
				return w.oneEffect(keys, req, 1, w.byInTx(keys, req, nil), w.byInTx(keys, req, nil))
			})
		}},
	}
}

// caller is a way to arrive.
type caller func(ctx context.Context, to *arrival)

func (w *txWorld[Tx]) byInTx(keys *idempotency.TxKeys[Tx], req idempotency.Request, fnErr error) caller {
	return func(ctx context.Context, to *arrival) {
		to.res, to.err = keys.InTx(ctx, req, w.effecting(req, answerOf(to.answers), fnErr))
	}
}

func (w *txWorld[Tx]) byDoTx(keys *idempotency.TxKeys[Tx], req idempotency.Request, level txn.Isolation) caller {
	return func(ctx context.Context, to *arrival) {
		to.err = w.transact(ctx, txn.Options{Isolation: level}, func(ctx context.Context, tx Tx) error {
			var err error
			to.res, err = keys.DoTx(ctx, tx, req, w.effecting(req, answerOf(to.answers), nil))
			return err
		})
	}
}

// byDo works in a transaction of its own, apart from the key.
func (w *txWorld[Tx]) byDo(keys *idempotency.TxKeys[Tx], req idempotency.Request) caller {
	return func(ctx context.Context, to *arrival) {
		to.res, to.err = keys.Do(ctx, req, func(ctx context.Context) (idempotency.Response, error) {
			var r idempotency.Response
			err := w.transact(ctx, txn.Options{}, func(ctx context.Context, tx Tx) error {
				var err error
				r, err = w.effecting(req, answerOf(to.answers), nil)(ctx, tx)
				return err
			})
			return r, err
		})
	}
}

// race2 makes a case of two arrivals that answer differently.
func race2(a, b caller, check func(got []arrival) error) interleave.Case {
	got := []arrival{{answers: "A's"}, {answers: "B's"}}
	return interleave.Case{
		Callers: []func(context.Context){
			func(ctx context.Context) { a(ctx, &got[0]) },
			func(ctx context.Context) { b(ctx, &got[1]) },
		},
		Check: func() error { return check(got) },
	}
}

// oneEffect is a race of two arrivals of req of which one must work, and both must have one answer.
func (w *txWorld[Tx]) oneEffect(keys *idempotency.TxKeys[Tx], req idempotency.Request, effects int, a, b caller) interleave.Case {
	return race2(a, b, func(got []arrival) error {
		n, err := w.h.Effects(w.ctx, effect(req))
		if err != nil {
			return err
		}
		if n != effects {
			return fmt.Errorf("%d effects are committed, want %d", n, effects)
		}
		return w.agreed(keys, req, got)
	})
}

// agreed checks that one arrival worked and gave its own answer, and that the other and all later ones
// have the same, or were told that it is in flight.
func (w *txWorld[Tx]) agreed(keys *idempotency.TxKeys[Tx], req idempotency.Request, got []arrival) error {
	winner := -1
	for i, g := range got {
		switch {
		case errors.Is(g.err, idempotency.ErrInFlight):
		case g.err != nil:
			return fmt.Errorf("arrival %d got %w", i, g.err)
		case !g.res.Replayed && winner >= 0:
			return errors.New("both arrivals worked")
		case !g.res.Replayed:
			winner = i
		}
	}
	if winner < 0 {
		return errors.New("nobody worked")
	}
	want := answerOf(got[winner].answers)
	for i, g := range got {
		if problem := differentAnswer(g.res.Response, want); g.err == nil && problem != "" {
			return fmt.Errorf("arrival %d: %s", i, problem)
		}
	}
	return w.later(keys, req, want)
}

// later checks that an arrival after a race replays want.
func (w *txWorld[Tx]) later(keys *idempotency.TxKeys[Tx], req idempotency.Request, want idempotency.Response) error {
	ran := false
	res, err := keys.InTx(w.ctx, req, func(ctx context.Context, tx Tx) (idempotency.Response, error) {
		err := w.h.Effect(ctx, tx, "later")
		ran = ran || !errors.Is(err, idempotency.ErrUnclaimed)
		return idempotency.Response{}, errTx
	})
	switch problem := differentAnswer(res.Response, want); {
	case ran:
		return errors.New("a later arrival ran")
	case err != nil:
		return fmt.Errorf("a later arrival got %w", err)
	case problem != "" || !res.Replayed:
		return fmt.Errorf("a later arrival got Replayed %v; %s", res.Replayed, problem)
	}
	return nil
}

// failingAgainstGood is a race of an arrival whose work fails with one whose work doesn't.
func (w *txWorld[Tx]) failingAgainstGood() interleave.Case {
	keys, req := w.newTxKeys(), w.request()
	return race2(w.byInTx(keys, req, errTx), w.byInTx(keys, req, nil), func(got []arrival) error {
		bad, good := got[0], got[1]
		n, err := w.h.Effects(w.ctx, effect(req))
		if err != nil {
			return err
		}
		switch {
		case errors.Is(good.err, idempotency.ErrInFlight): // it came while the other was at work
			if n != 0 || !errors.Is(bad.err, errTx) {
				return fmt.Errorf("%d effects; the failing arrival got %w", n, bad.err)
			}
			if rec, err := w.store.Find(w.ctx, req.Scope, req.Key); !errors.Is(err, idempotency.ErrNotFound) {
				return fmt.Errorf("the record is %v, %v, want none", show(rec), err)
			}
			return nil
		case good.err != nil:
			return fmt.Errorf("the good arrival got %w", good.err)
		case n != 1 || good.res.Replayed:
			return fmt.Errorf("%d effects are committed, want 1; Replayed is %v", n, good.res.Replayed)
		case bad.err == nil && !bad.res.Replayed:
			return errors.New("the failing arrival got an answer of its own")
		case bad.err != nil && !errors.Is(bad.err, errTx) && !errors.Is(bad.err, idempotency.ErrInFlight):
			return fmt.Errorf("the failing arrival got %w", bad.err)
		}
		return w.later(keys, req, answerOf(good.answers))
	})
}

// refusingAgainstGood is a race of an arrival that refuses with one that doesn't: whoever decides first
// decides for both.
func (w *txWorld[Tx]) refusingAgainstGood() interleave.Case {
	keys, req := w.newTxKeys(), w.request()
	refuses := func(ctx context.Context, to *arrival) {
		to.res, to.err = keys.InTx(ctx, req, w.effecting(req, answerOf("no"), idempotency.Refuse(answerOf(to.answers))))
	}
	return race2(refuses, w.byInTx(keys, req, nil), func(got []arrival) error {
		n, err := w.h.Effects(w.ctx, effect(req))
		if err != nil {
			return err
		}
		goodWorked := got[1].err == nil && !got[1].res.Replayed
		if goodWorked && n != 1 || !goodWorked && n != 0 {
			return fmt.Errorf("%d effects are committed; the good arrival worked: %v", n, goodWorked)
		}
		return w.agreed(keys, req, got)
	})
}

// sentTwiceTx is a race of one attempt with itself, as when its commit is slow and it is sent again.
func (w *txWorld[Tx]) sentTwiceTx() interleave.Case {
	keys, a := w.newTxKeys(), attempt(w.request())
	send := func(ctx context.Context, to *arrival) {
		got, err := w.inTx(ctx, a, w.effecting(a.Request, answerOf(to.answers), nil))
		switch {
		case err != nil:
			to.err = err
		case got.Won:
			to.res = idempotency.Result{Response: answerOf(to.answers)}
		case got.Record.State == idempotency.InFlight:
			to.err = idempotency.ErrInFlight
		default:
			to.res = idempotency.Result{Response: got.Record.Response, Replayed: true}
		}
	}
	return w.oneEffect(keys, a.Request, 1, send, send)
}

// takeoverByInTx is a race of an InTx on an expired claim with the old owner's late result.
func (w *txWorld[Tx]) takeoverByInTx() interleave.Case {
	rec := w.expired(resumable(w.request()))
	taker := resumable(rec.Request)
	var took asked
	var completed error
	return interleave.Case{
		Callers: []func(context.Context){
			func(ctx context.Context) {
				took.got, took.err = w.inTx(ctx, taker, w.effecting(taker.Request, answerOf("the taker's"), nil))
			},
			w.completes(idempotency.Completion{Claim: claimOf(rec), State: idempotency.Done, Response: answerOf("late")}, &completed),
		},
		Check: func() error {
			effects, err := w.h.Effects(w.ctx, effect(rec.Request))
			switch {
			case err != nil || took.err != nil:
				return errors.Join(err, took.err)
			case took.got.Won && completed == nil:
				return errors.New("both the takeover and the old owner's completion were accepted")
			case !took.got.Won && completed != nil:
				return fmt.Errorf("neither was accepted; the old owner's completion got %w", completed)
			case took.got.Won && effects != 1 || !took.got.Won && effects != 0:
				return fmt.Errorf("%d effects are committed; the taker worked: %v", effects, took.got.Won)
			}
			want := answerOf("late")
			if took.got.Won {
				want = answerOf("the taker's")
			}
			got, err := w.record(rec.Request)
			if problem := differentAnswer(got.Response, want); err != nil || problem != "" {
				return fmt.Errorf("the record: %s, %v", problem, err)
			}
			return nil
		},
	}
}

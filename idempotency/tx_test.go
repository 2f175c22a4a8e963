package idempotency_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/store/memory"
	"github.com/fiftyhosts/fifty/txn"
)

// commits is a store whose InTx can lose races and replies, as those of a database can.
type commits struct {
	*faulty
	classes map[error]txn.Class
	zombie  bool // the first commit's reply is lost while the server still holds its transaction open
}

func newCommits() *commits {
	return &commits{faulty: newFaulty(), classes: map[error]txn.Class{}}
}

func (c *commits) InTx(
	ctx context.Context, a idempotency.Attempt,
	fn func(ctx context.Context, tx *memory.Tx) (idempotency.Response, error),
) (claimed idempotency.Claimed, err error) {
	err = c.do("in tx", func() error {
		if c.zombie && c.count("in tx") == 1 {
			return c.hang(ctx, a, fn)
		}
		claimed, err = c.TxStore.InTx(ctx, a, fn)
		return err
	})
	return claimed, err
}

// hang runs fn and loses its commit; to everyone else the key stays claimed.
func (c *commits) hang(
	ctx context.Context, a idempotency.Attempt,
	fn func(ctx context.Context, tx *memory.Tx) (idempotency.Response, error),
) error {
	_, err := c.TxStore.InTx(ctx, a, func(ctx context.Context, tx *memory.Tx) (idempotency.Response, error) {
		_, err := fn(ctx, tx)
		return idempotency.Response{}, errors.Join(err, errLostReply)
	})
	a.ID = "the transaction that hangs"
	_, claimErr := c.Claim(ctx, []idempotency.Attempt{a})
	return errors.Join(err, claimErr)
}

func (c *commits) Classify(err error) txn.Class {
	for of, class := range c.classes {
		if errors.Is(err, of) {
			return class
		}
	}
	return txn.Permanent
}

// counting is an effect of a transaction: it counts when the transaction commits.
func counting(n *int, r idempotency.Response) func(context.Context, *memory.Tx) (idempotency.Response, error) {
	return func(_ context.Context, tx *memory.Tx) (idempotency.Response, error) {
		tx.OnCommit(func() { *n++ })
		return r, nil
	}
}

func TestLostRaceIsRunAgainInAFreshTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errRace := errors.New("could not serialize access")
		store := newCommits()
		store.classes[errRace] = txn.Retryable
		keys := idempotency.NewTx[*memory.Tx](store, idempotency.Config{})
		runs, effects := 0, 0
		res, err := keys.InTx(t.Context(), request("k"), func(ctx context.Context, tx *memory.Tx) (idempotency.Response, error) {
			if runs++; runs < 3 {
				return idempotency.Response{}, errRace
			}
			return counting(&effects, created("ch_1"))(ctx, tx)
		})
		if err != nil || res.Replayed || runs != 3 || effects != 1 {
			t.Fatalf("%+v, %v after %d runs with %d effects", res, err, runs, effects)
		}
	})
}

func TestLostCommitReplyIsSettledByAskingAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newCommits()
		store.classes[fifty.ErrUnknownOutcome] = txn.Unknown
		store.set("in tx", nil, times(1, errLostReply))
		keys := idempotency.NewTx[*memory.Tx](store, idempotency.Config{})
		effects := 0
		res, err := keys.InTx(t.Context(), request("k"), counting(&effects, created("ch_1")))
		if err != nil || res.Replayed || string(res.Body) != "ch_1" || effects != 1 {
			t.Fatalf("%+v, %v with %d effects", res, err, effects)
		}
	})
}

func TestCommitThatMayStillBeUnderwayIsUnknownNotInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newCommits()
		store.classes[fifty.ErrUnknownOutcome] = txn.Unknown
		store.zombie = true
		keys := idempotency.NewTx[*memory.Tx](store, idempotency.Config{})
		effects := 0
		_, err := keys.InTx(t.Context(), request("k"), counting(&effects, created("ch_1")))
		wantIs(t, err, fifty.ErrUnknownOutcome)
		if n := store.count("in tx"); n != 2 {
			t.Fatalf("asked %d times, want once more after the lost reply", n)
		}
	})
}

func TestUnknownErrorOfTheFunctionIsNotRepeated(t *testing.T) {
	store := newCommits()
	store.classes[fifty.ErrUnknownOutcome] = txn.Unknown
	keys := idempotency.NewTx[*memory.Tx](store, idempotency.Config{})
	runs := 0
	_, err := keys.InTx(t.Context(), request("k"), func(context.Context, *memory.Tx) (idempotency.Response, error) {
		runs++
		return idempotency.Response{}, errLostReply // of a peer that the function called
	})
	wantIs(t, err, fifty.ErrUnknownOutcome)
	if runs != 1 {
		t.Fatalf("ran %d times", runs)
	}
}

func TestRefusalUndoesTheWorkAndIsTheAnswer(t *testing.T) {
	declined := idempotency.Response{Status: 402, Body: []byte("declined")}
	keys := idempotency.NewTx(memory.New(memory.Config{}).Keys(), idempotency.Config{})
	effects := 0
	refusing := func(_ context.Context, tx *memory.Tx) (idempotency.Response, error) {
		tx.OnCommit(func() { effects++ })
		return idempotency.Response{}, idempotency.Refuse(declined)
	}
	for i := range 2 {
		res, err := keys.InTx(t.Context(), request("k"), refusing)
		if err != nil || res.Status != 402 || string(res.Body) != "declined" || res.Replayed != (i > 0) {
			t.Fatalf("arrival %d: %+v, %v", i, res, err)
		}
	}
	if effects != 0 {
		t.Fatal("the refused work was committed")
	}
}

func TestDoTxFollowsTheCallersTransaction(t *testing.T) {
	ctx := t.Context()
	store := memory.New(memory.Config{})
	keys := idempotency.NewTx(store.Keys(), idempotency.Config{})
	effects := 0
	errUndo := errors.New("the caller changed its mind")
	doTx := func(fn func(context.Context, *memory.Tx) (idempotency.Response, error), end error) (res idempotency.Result, inner, err error) {
		err = store.Txns().Transact(ctx, txn.Options{}, func(ctx context.Context, tx *memory.Tx) error {
			res, inner = keys.DoTx(ctx, tx, request("k"), fn)
			return end
		})
		return res, inner, err
	}

	if _, _, err := doTx(counting(&effects, created("ch_1")), errUndo); err != errUndo || effects != 0 {
		t.Fatalf("rolled back: %v, %d effects", err, effects)
	}
	// A caller that commits in spite of an error has no effect of it, and no poisoned key.
	if _, inner, err := doTx(func(ctx context.Context, tx *memory.Tx) (idempotency.Response, error) {
		tx.OnCommit(func() { effects++ })
		return idempotency.Response{}, errDown
	}, nil); inner != errDown || err != nil || effects != 0 {
		t.Fatalf("committed after an error: %v, %v, %d effects", inner, err, effects)
	}
	if res, inner, err := doTx(counting(&effects, created("ch_2")), nil); inner != nil || err != nil || res.Replayed || effects != 1 {
		t.Fatalf("committed: %+v, %v, %v, %d effects", res, inner, err, effects)
	}
	if res, inner, err := doTx(counting(&effects, created("ch_3")), nil); inner != nil || err != nil || !res.Replayed || string(res.Body) != "ch_2" || effects != 1 {
		t.Fatalf("replayed: %+v, %v, %v, %d effects", res, inner, err, effects)
	}
}

func TestDuplicateDuringATransactionIsToldAtOnce(t *testing.T) {
	keys := idempotency.NewTx(memory.New(memory.Config{}).Keys(), idempotency.Config{})
	effects := 0
	_, err := keys.InTx(t.Context(), request("k"), func(ctx context.Context, tx *memory.Tx) (idempotency.Response, error) {
		_, err := keys.InTx(ctx, request("k"), counting(&effects, created("ch_2")))
		wantIs(t, err, idempotency.ErrInFlight)
		_, err = keys.Do(ctx, request("k"), mustNotRun(t))
		wantIs(t, err, idempotency.ErrInFlight)
		return counting(&effects, created("ch_1"))(ctx, tx)
	})
	if err != nil || effects != 1 {
		t.Fatalf("%v, %d effects", err, effects)
	}
}

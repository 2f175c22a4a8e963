package postgres

import (
	"context"
	"errors"

	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/txn"
)

// ReserveTx decides within tx; see inventory.TxStore. The wait for a row is bounded by tx's own lock_timeout. On
// an error tx can only be rolled back; one that Classify calls Retryable, such as two transactions that reserve
// under one id in the same moment, is worth another run.
func (s Stock[Tx]) ReserveTx(ctx context.Context, tx Tx, a inventory.Ask) (inventory.Answer, error) {
	q := s.store.engine.in(tx)
	if len(a.Items) == 1 && s.layout.isPlain(a.Items) {
		answer, done, err := s.reserveOneTx(ctx, q, a)
		if done || err != nil {
			return answer, lockTimeout(err)
		}
	}
	return s.decideTx(ctx, q, a)
}

// SettleTx decides within tx; see inventory.TxStore and ReserveTx.
func (s Stock[Tx]) SettleTx(ctx context.Context, tx Tx, a inventory.Ask) (inventory.Answer, error) {
	return s.decideTx(ctx, s.store.engine.in(tx), a)
}

// reserveOneTx is reserveOne without a savepoint, which would cost a quarter of it. So an id that another
// transaction commits in the same moment ends tx by an error that Classify calls Retryable, as a serialization
// failure does: the next run finds it.
func (s Stock[Tx]) reserveOneTx(ctx context.Context, q querier, a inventory.Ask) (answer inventory.Answer, done bool, err error) {
	for sku, quantity := range a.Items {
		one := s.sql.reserveOneTx.with(a.ID, sku, quantity, quickTTL(a.TTL))
		err := q.run(ctx, one)
		if isState(err, uniqueViolation) {
			err = &storeError{point: one.name, class: txn.Retryable, err: err}
		}
		if err != nil || one.rows == 0 {
			return answer, false, err
		}
	}
	return heldFor(a), true, nil
}

// decideTx decides one ask by a Batch, behind a savepoint: going back to it lets go of the locks, so that they
// are taken in order again, and undoes what lost a race.
func (s Stock[Tx]) decideTx(ctx context.Context, q querier, a inventory.Ask) (inventory.Answer, error) {
	d := &deciding{asks: []inventory.Ask{a}, answers: make([]inventory.Answer, 1), open: indexes(1)}
	var again error
	for range raceTries {
		err := s.roundTx(ctx, q, d)
		if err == nil && len(d.open) == 0 {
			return d.answers[0], nil
		}
		if err != nil && !errors.Is(err, errLookAgain) && !isState(err, uniqueViolation, floorRose) {
			return inventory.Answer{}, lockTimeout(err)
		}
		again = err
		if err := q.run(ctx, s.sql.undo.with()); err != nil {
			return inventory.Answer{}, err
		}
	}
	if again == nil || errors.Is(again, errLookAgain) {
		again = changing("stock in tx")
	}
	return inventory.Answer{}, again
}

func (s Stock[Tx]) roundTx(ctx context.Context, q querier, d *deciding) error {
	look := s.look(d)
	if err := q.run(ctx, append([]*call{s.sql.savepoint.with()}, look.calls()...)...); err != nil {
		return err
	}
	seen := look.seen()
	if s.layout.learn(look.counts, seen.buckets) {
		return errLookAgain
	}
	b := inventory.NewBatch(seen.now, seen.buckets, seen.holds)
	decided := d.decideOn(b, seen.holds)
	if len(decided.open) == 0 {
		changes := b.Changes()
		writes, err := s.writes(changes, seen.now)
		if err != nil {
			return err
		}
		if err := q.run(ctx, append(writes, s.sql.release.with())...); err != nil {
			return err
		}
		s.layout.shorter(decided.short, changes.Buckets)
	}
	decided.settle(d)
	return nil
}

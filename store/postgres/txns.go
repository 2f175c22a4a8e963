package postgres

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/txn"
)

// Txns opens transactions. It is safe for concurrent use.
type Txns[Tx any] struct{ store *Store[Tx] }

// Txns returns the store's transactions.
func (s *Store[Tx]) Txns() Txns[Tx] { return Txns[Tx]{s} }

var (
	_ txn.Store[pgx.Tx]  = Txns[pgx.Tx]{}
	_ txn.Store[*sql.Tx] = Txns[*sql.Tx]{}
)

// Transact runs fn in one transaction; see txn.Store. The server ends it when its host is silent for
// Config.IdleMax. fn must not end it: a pgx.Tx refuses, and after a COMMIT or ROLLBACK in SQL, or of a
// *sql.Tx, Transact returns ErrEnded.
func (t Txns[Tx]) Transact(ctx context.Context, opts txn.Options, fn func(ctx context.Context, tx Tx) error) error {
	if opts.Isolation < txn.DefaultIsolation || opts.Isolation > txn.Serializable {
		return &fifty.InvalidError{Field: "Options.Isolation", Problem: fmt.Sprintf("is %d, which is no level", opts.Isolation)}
	}
	return t.store.transact(ctx, opts, fn)
}

func (s *Store[Tx]) transact(ctx context.Context, opts txn.Options, fn func(ctx context.Context, tx Tx) error) error {
	var idle, network string
	tx, err := s.engine.begin(ctx, opts, s.statements.enter.with(s.cfg.idleMax()).into(&idle, &network))
	if err != nil {
		return err
	}
	defer tx.rollback(ctx) // for a panic, too
	if err := fn(ctx, tx.handle()); err != nil {
		return tx.abandon(ctx, err)
	}
	// Linearization point: the COMMIT.
	return tx.commit(ctx)
}

// Savepoint runs fn within tx; see txn.Store. Calls may be nested. When the savepoint can't be gone back
// to, the error says so too, and tx can only be rolled back.
func (t Txns[Tx]) Savepoint(ctx context.Context, tx Tx, fn func(ctx context.Context) error) (err error) {
	q, s := t.store.engine.in(tx), t.store.statements
	if err := q.run(ctx, s.savepoint.with()); err != nil {
		return err
	}
	kept := false
	defer func() {
		if !kept { // an error or a panic
			undoErr := t.undo(ctx, q)
			if undoErr != nil && err != nil {
				err = fmt.Errorf("%w (and the savepoint was lost: %w)", err, undoErr)
			}
		}
	}()
	if err := fn(ctx); err != nil {
		return err
	}
	kept = true
	return q.run(ctx, s.release.with())
}

// undo goes back to the savepoint, on a context of its own: the caller's may be why.
func (t Txns[Tx]) undo(ctx context.Context, q querier) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackMax)
	defer cancel()
	if err := q.run(ctx, t.store.statements.undo.with()); err != nil {
		return err
	}
	return q.run(ctx, t.store.statements.release.with())
}

// Classify says what an error means; see txn.Store. Retryable are serialization failures (40001),
// deadlocks (40P01), a server that takes no connection, and a connection that was lost before COMMIT was
// sent. Unknown are errors of this package that are a fifty.ErrUnknownOutcome, and a server that ended the
// connection under a statement that commits by itself. A lock time-out (55P03) is Permanent.
func (t Txns[Tx]) Classify(err error) txn.Class { return classify(err) }

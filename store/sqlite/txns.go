package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"github.com/fiftyhosts/fifty/txn"
)

// Txns opens transactions. It is safe for concurrent use.
type Txns struct{ store *Store }

// Txns returns the store's transactions.
func (s *Store) Txns() Txns { return Txns{s} }

var _ txn.Store[*sql.Tx] = Txns{}

// Transact runs fn in one transaction; see txn.Store. SQLite has one isolation level, serializable, so any
// that is asked for is given. A read-write transaction is the file's only one while it lasts: it first
// waits for its turn among the callers of this Store, as long as ctx allows, and then for other processes,
// up to Config.BusyTimeout. Read-only ones wait for nobody, and a write in one fails. Within fn, calls of the
// same Store that write get ErrNested.
//
// Once COMMIT was sent, ctx no longer stops it, so that a cancellation never leaves the outcome unknown.
func (t Txns) Transact(ctx context.Context, opts txn.Options, fn func(ctx context.Context, tx *sql.Tx) error) error {
	if !opts.ReadOnly {
		return t.store.write(ctx, "txn", fn)
	}
	tx, err := t.store.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return explain("txn", cause(ctx, err))
	}
	defer tx.Rollback() //nolint:errcheck // there is nothing to undo
	return fn(ctx, tx)
}

// savepointName is that of Savepoint. Savepoints nest, so a name may come again within itself.
const savepointName = "fifty_savepoint"

// Savepoint runs fn within tx; see txn.Store. What fn did is undone even when ctx is done by then.
func (t Txns) Savepoint(ctx context.Context, tx *sql.Tx, fn func(ctx context.Context) error) (err error) {
	x := t.store.session(tx, "savepoint")
	if _, err := x.exec(ctx, t.store.sql.savepoint.of(savepointName)); err != nil {
		return err
	}
	kept := false
	defer func() {
		if kept {
			return
		}
		late := context.WithoutCancel(ctx)
		_, undoErr := x.exec(late, t.store.sql.undo.of(savepointName))
		if undoErr == nil {
			_, undoErr = x.exec(late, t.store.sql.release.of(savepointName))
		}
		if undoErr != nil {
			err = errors.Join(err, undoErr) // the transaction itself is gone
		}
	}()
	if err := fn(ctx); err != nil {
		return err
	}
	_, err = x.exec(ctx, t.store.sql.release.of(savepointName))
	kept = err == nil
	return err
}

// Classify says what an error means; see txn.Store.
func (t Txns) Classify(err error) txn.Class { return classify(err) }

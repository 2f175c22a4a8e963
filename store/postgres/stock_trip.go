package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/fiftyhosts/fifty/txn"
)

// lockNotAvailable is the SQLSTATE of a lock time-out.
const lockNotAvailable = "55P03"

// oneTrip runs statements in one message, which is a transaction of its own: the server commits it at the
// message's end, and rolls it back when one of them fails. It can lose a race as run can.
func (e *pgxEngine) oneTrip(ctx context.Context, calls ...*call) error {
	e.hook.at(ctx, calls...)
	conn, err := e.pool.Acquire(ctx)
	if err != nil {
		return fail(ctx, calls[0].name, connecting, err)
	}
	defer conn.Release()
	if point, err := pgxSend(ctx, conn, &pgx.Batch{}, calls); err != nil {
		return fail(ctx, point, committing, err)
	}
	return nil
}

// oneTrip runs statements in a transaction of its own: here it takes a message for BEGIN and one for COMMIT.
func (e *sqlEngine) oneTrip(ctx context.Context, calls ...*call) error {
	tx, err := e.begin(ctx, txn.Options{Isolation: txn.ReadCommitted}, calls...)
	if err != nil {
		return err
	}
	defer tx.rollback(ctx)
	return tx.commit(ctx)
}

func (e invalidEngine[Tx]) oneTrip(context.Context, ...*call) error { return e.err }

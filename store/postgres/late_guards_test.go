package postgres_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/txn"
)

// lateGuards are the conditions under which the work's first statement is run although nobody has heard yet
// whether the key is free.
func lateGuards() []guard {
	const lock, inserts = "intx.lock", "pg_try_advisory_xact_lock($2::bigint)"
	return []guard{
		{name: lock + " of an open key", changes: []change{{lock, inserts, "$2::bigint is not null"}}, check: isHeld},
		{
			name: lock + " of a key that is not too old", check: outside(40 * day),
			changes: []change{{lock, "$3::timestamptz > clock_timestamp() - $4::bigint * interval '1 microsecond'", "$4::bigint > 0"}},
		},
		{
			name: lock + " of a key that is not ahead", check: outside(-time.Hour),
			changes: []change{{lock, "and $3::timestamptz <= clock_timestamp() + interval '300000000 microseconds'", ""}},
		},
		{name: "intx.new of a key without a record", changes: []change{{"intx.new", "exists (select from", "not exists (select from"}}, check: (*scene).isTaken},
		{name: "intx.new of its scope", changes: []change{{"intx.new", "scope = $1::text and", "$1::text <> '' and"}}, check: isFree},
		{name: "intx.new of its key", changes: []change{{"intx.new", "and key = $2::text", "and $2::text <> ''"}}, check: isFree},
	}
}

// statement has an attempt's work try a statement, and returns what that said.
func (s *scene) statement(a idempotency.Attempt) (said error) {
	first := true
	_, err := s.store.Keys().InTx(s.ctx, a, func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
		_, err := tx.Exec(ctx, `select $1::int`, 1)
		if first { // it may run again, when it is known more of the key
			said, first = err, false
		}
		return idempotency.Response{}, errRollBack
	})
	if err != nil && !errors.Is(err, errRollBack) && !errors.Is(err, idempotency.ErrUnclaimed) {
		return err
	}
	return said
}

func unclaimed(err error) error {
	if !errors.Is(err, idempotency.ErrUnclaimed) {
		return fmt.Errorf("the work's statement got %v", err)
	}
	return nil
}

// isHeld finds that the work's statement is not run while a transaction has the key.
func isHeld(s *scene) error {
	if err := s.put(idempotency.Free, "1 hour"); err != nil {
		return err
	}
	a, other := attempt("new"), attempt("new")
	a.Request.Scope, other.Request.Scope = s.row.scope, s.row.scope
	return s.holder.Txns().Transact(s.ctx, txn.Options{}, func(ctx context.Context, tx pgx.Tx) error {
		if got, err := s.holder.Keys().ClaimTx(ctx, tx, other); err != nil || !got.Won {
			return fmt.Errorf("%+v, %v", got, err)
		}
		return unclaimed(s.statement(a))
	})
}

// isTaken finds that the work's statement is not run for a key that has an answer.
func (s *scene) isTaken() error {
	if err := s.put(idempotency.Done, "1 hour"); err != nil {
		return err
	}
	a := attempt("k")
	a.Request = s.request()
	return unclaimed(s.statement(a))
}

// isFree finds that it is run for a key without a record whose neighbours have one.
func isFree(s *scene) error {
	if err := errors.Join(s.put(idempotency.Done, "1 hour"), s.pool(noRow, s.row.scope)); err != nil {
		return err
	}
	a := attempt("k")
	a.Request = s.request()
	return s.statement(a)
}

// outside finds that it is not run for a key outside its window.
func outside(age time.Duration) func(*scene) error {
	return func(s *scene) error {
		return unclaimed(s.statement(timed(rand.Text(), age)))
	}
}

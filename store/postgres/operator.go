package postgres

import (
	"context"
	"database/sql"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/txn"
)

var (
	_ idempotency.OperatorStore = Keys[pgx.Tx]{}
	_ idempotency.OperatorStore = Keys[*sql.Tx]{}
)

// List returns records; see idempotency.OperatorStore. The order is that of bytes.
func (k Keys[Tx]) List(ctx context.Context, f idempotency.Filter) ([]idempotency.Record, error) {
	var scope, key string
	var row record
	list := k.store.statements.list.with(f.AfterScope, f.AfterKey, f.Scope, f.Unresolved, f.OlderThan.Microseconds(), int64(f.Limit))
	list.into(append([]any{&scope, &key}, row.columns()...)...)
	return collect(ctx, k.store.run, list, func() (idempotency.Record, error) { return row.of(scope, key) })
}

// Resolve decides a key; see idempotency.OperatorStore. It waits for a transaction at work on the key.
func (k Keys[Tx]) Resolve(ctx context.Context, r idempotency.Resolution) error {
	state, response := idempotency.Free, idempotency.Response{}
	if r.Response != nil {
		state, response = idempotency.Done, *r.Response
	}
	answer, err := answerArgs(response)
	if err != nil {
		return err
	}
	s := k.store.statements
	var idle, network string
	var row record
	args := append([]any{r.Scope, r.Key, r.Token, int64(state)}, answer...)
	resolve := s.resolve.with(append(args, r.By, r.Note)...)
	opts := txn.Options{Isolation: txn.ReadCommitted} // the decision must see what the lock waited for
	tx, err := k.store.engine.begin(ctx, opts,
		s.enter.with(k.store.cfg.idleMax()).into(&idle, &network),
		s.resolveLock.with(r.Scope, r.Key).into(row.columns()...),
		resolve,
	)
	if err != nil {
		return err
	}
	defer tx.rollback(ctx)
	if resolve.rows == 1 {
		return tx.commit(ctx)
	}
	if !row.found() {
		return idempotency.ErrNotFound
	}
	rec, err := row.of(r.Scope, r.Key)
	if err != nil {
		return err
	}
	return &idempotency.DecidedError{Record: rec}
}

// Erase takes answers and steps away; see idempotency.OperatorStore. It waits for a sweep at work on them.
func (k Keys[Tx]) Erase(ctx context.Context, scope string, limit int) (erased int, err error) {
	if limit <= 0 {
		return 0, nil
	}
	from := k.store.marks.eraseFrom(scope)
	erased, to, err := k.erase(ctx, scope, limit, from)
	if err == nil && erased < limit && from != "" {
		var more int
		more, to, err = k.erase(ctx, scope, limit-erased, "")
		erased += more
	}
	if erased < limit || err != nil {
		to = ""
	}
	k.store.marks.erasedTo(scope, to)
	return erased, err
}

func (k Keys[Tx]) erase(ctx context.Context, scope string, limit int, from string) (erased int, to string, err error) {
	var n int64
	err = k.tidy(ctx, k.store.statements.tidyEnter, k.store.statements.erase.with(scope, int64(limit), from).into(&n, &to))
	if err != nil {
		return 0, "", err
	}
	return int(n), to, nil
}

// Audit returns decisions; see idempotency.OperatorStore.
func (k Keys[Tx]) Audit(ctx context.Context, scope, key string) ([]idempotency.Decision, error) {
	var at time.Time
	var by, note string
	var before, after, token int64
	audit := k.store.statements.audit.with(scope, key).into(&at, &by, &note, &before, &after, &token)
	return collect(ctx, k.store.run, audit, func() (idempotency.Decision, error) {
		return idempotency.Decision{
			At: at, By: by, Note: note, From: idempotency.State(before), To: idempotency.State(after), Token: token,
		}, nil
	})
}

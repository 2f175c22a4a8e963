package postgres

import (
	"context"
	"database/sql"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
)

// late is a session whose transaction begins with the first statement of the caller's function, in one round trip.
type late[Tx any] interface {
	session[Tx]

	// claim is what became of the first statements, and their error when it is undecided.
	claim() (fate, error)

	// instead runs statements in place of the transaction, which was refused and never began.
	instead(ctx context.Context, calls ...*call) error
}

// beginLate opens a transaction when its function comes with a statement. guards go ahead of that, and fail where
// the function must not work. It is nil where only the function itself can begin.
//
// look is a statement that instead will run.
func (e *pgxEngine) beginLate(ctx context.Context, look statement, guards ...*call) (late[pgx.Tx], error) {
	conn, err := e.pool.Acquire(ctx)
	if err != nil {
		return nil, fail(ctx, "begin", connecting, err)
	}
	texts := textsOf(conn.Conn())
	tx := unbegun(ctx, conn.Conn())
	if tx == nil || !texts.travel || !knows(ctx, conn.Conn(), look) {
		conn.Release()
		return nil, nil
	}
	o := &opening{
		conn: conn.Conn(), texts: texts, hook: e.hook, ctx: ctx,
		ahead: append(guards, beginCall.with()),
	}
	return &pgxLate{pgxSession{
		pgxQuerier: pgxQuerier{tx, e.hook},
		conn:       conn,
		tx:         tx,
		given:      &givenTx{tx: tx, first: o, ended: &atomic.Bool{}},
	}, o}, nil
}

// knows has statements prepared, and says whether they could be.
func knows(ctx context.Context, conn *pgx.Conn, all ...statement) bool {
	for _, st := range all {
		if _, err := conn.Prepare(ctx, st.text, st.text); err != nil {
			return false // who begins at once will say what is wrong
		}
	}
	return true
}

// unbegun is a transaction of pgx whose BEGIN is sent by somebody else: that of a batch whose statements, BEGIN
// itself, were taken out before it was sent. Should pgx ever do without a transaction then, it is nil.
func unbegun(ctx context.Context, conn *pgx.Conn) pgx.Tx {
	b := &pgx.Batch{}
	b.BeginTx(pgx.TxOptions{})
	b.QueuedQueries = nil
	return conn.SendBatch(ctx, b).Tx()
}

func (e *sqlEngine) beginLate(context.Context, statement, ...*call) (late[*sql.Tx], error) {
	return nil, nil
}

func (e invalidEngine[Tx]) beginLate(context.Context, statement, ...*call) (late[Tx], error) {
	return nil, e.err
}

type pgxLate struct {
	pgxSession
	first *opening
}

func (s *pgxLate) claim() (fate, error) { return s.first.fate, s.first.err }

// commit sends all in one message when the function had no statement of its own.
func (s *pgxLate) commit(ctx context.Context, last ...*call) error {
	s.given.ended.Store(true)
	var calls []*call
	if s.first.fate == waiting {
		calls = append(calls, s.first.ahead...)
	} else if err := s.whole(ctx); err != nil {
		return err
	}
	calls = append(append(calls, last...), commitCall.with())
	s.hook.at(ctx, calls...)
	point, sent, err := pipeAll(ctx, s.first.conn, calls...)
	switch {
	case err == nil:
		s.end()
		return nil
	case s.first.isGuard(point):
		return s.first.learn(ctx, point, sent, err)
	case sent:
		return fail(ctx, point, committing, err)
	default:
		return fail(ctx, point, within, err)
	}
}

func (s *pgxLate) abandon(ctx context.Context, err error) error {
	if !s.ended && s.first.conn.IsClosed() {
		err = lostWithin(ctx, err)
	}
	s.rollback(ctx)
	return err
}

func (s *pgxLate) rollback(ctx context.Context) {
	if pg := s.first.conn.PgConn(); !s.ended && !pg.IsClosed() && !pg.IsBusy() && pg.TxStatus() == 'I' { // it never began
		s.given.ended.Store(true)
		s.end()
		return
	}
	s.pgxSession.rollback(ctx)
}

func (s *pgxLate) instead(ctx context.Context, calls ...*call) error {
	s.given.ended.Store(true)
	s.hook.at(ctx, calls...)
	if point, _, err := pipeAll(ctx, s.first.conn, calls...); err != nil {
		return fail(ctx, point, within, err)
	}
	s.end()
	return nil
}

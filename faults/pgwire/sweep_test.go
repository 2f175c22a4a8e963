package pgwire_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fiftyhosts/fifty/faults"
)

// enrol is an operation that may be repeated: a transaction that inserts a row unless it is there.
func enrol(ctx context.Context, conn *pgx.Conn, what string) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `insert into once (what) values ($1) on conflict do nothing`, what)
		return err
	})
}

// The sweep that the doc of package faults describes, on an operation of three requests.
func TestPostgresSweepOverEachPointLeavesOneEffect(t *testing.T) {
	b := setup(t, faults.Config{})
	b.exec(b.direct, `create table once (what text primary key)`)
	enrolWarm := func(conn *pgx.Conn, what string) {
		t.Helper()
		if err := enrol(b.ctx, conn, what); err != nil {
			t.Fatal(err)
		}
	}
	enrolWarm(b.conn, "warm")
	b.proxy.Arm(nil)
	enrolWarm(b.conn, "clean")
	points := faults.Points(b.proxy.Trace())
	// begin and commit are a Query each, the insert is Bind, Describe, Execute, Sync.
	if want := 6*2 + 3*2; len(points) != want {
		t.Fatalf("%d cut points, want %d: %v", len(points), want, points)
	}
	retrier := b.connect(b.through)
	defer retrier.Close(b.ctx)
	b.exec(retrier, `set lock_timeout = '50ms'`)
	enrolWarm(retrier, "warm")
	for i, point := range points {
		b := b.renew()
		enrolWarm(b.conn, "warm")
		what := fmt.Sprint(i)
		b.proxy.Arm(point.Plan())
		if err := enrol(b.ctx, b.conn, what); err == nil {
			t.Fatalf("%v: no error", point)
		}
		s := b.strike()
		retried := enrol(b.ctx, retrier, what)
		if overlaps := point.Fault == faults.Zombie || point.Fault == faults.ClientGone; retried != nil && !overlaps {
			t.Fatalf("%v: the retry: %v", point, retried)
		}
		s.Release()
		if err := s.Wait(b.ctx); err != nil {
			t.Fatalf("%v: %v; %q", point, err, s.Replies())
		}
		// Where the zombie is the rest of a transaction, that held locks that the retry needed.
		enrolWarm(retrier, what)
		var n int
		if err := b.direct.QueryRow(b.ctx, `select count(*) from once where what = $1`, what).Scan(&n); err != nil || n != 1 {
			t.Fatalf("%v: %d effects, %v", point, n, err)
		}
	}
}

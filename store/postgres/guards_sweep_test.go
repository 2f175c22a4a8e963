package postgres_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/txn"
)

const (
	dropped   = idempotency.Tombstone
	removed   = idempotency.State(0)
	freeState = idempotency.Free
)

// sweeps has a sweep make of a row what it should be, and of its neighbours nothing. The changes are made first.
func sweeps(from, to idempotency.State, steps int, changes ...string) func(*scene) error {
	return func(s *scene) error {
		if err := s.settled(from); err != nil {
			return err
		}
		for _, set := range changes {
			if err := s.pool(`update fifty.keys set `+set+` where scope = $1 and key = 'k'`, s.row.scope); err != nil {
				return err
			}
		}
		return errors.Join(s.swept(from, to, steps), s.drain())
	}
}

func (s *scene) swept(from, to idempotency.State, steps int) error {
	want := 1
	if from == to {
		want = 0
	}
	if n, err := s.store.Keys().Sweep(s.ctx, day, 30*day, 1); err != nil || n != want {
		return fmt.Errorf("swept %d, %v; want %d", n, err, want)
	}
	if err := s.is(to, steps); err != nil {
		return err
	}
	if rec, err := s.store.Keys().Find(s.ctx, s.row.scope, "k"); err == nil && len(rec.Steps) != steps {
		return fmt.Errorf("%+v, want %d steps", rec, steps)
	}
	if to == removed {
		a := attempt("k")
		a.Request = s.request()
		if got, err := byClaim(s, a); err != nil || !got.Won || got.Record.Token <= s.row.token {
			return fmt.Errorf("claimed anew: %+v, %v", got, err)
		}
	}
	return s.same()
}

// drain leaves nothing due for the next scene of the same tables.
func (s *scene) drain() error {
	return errors.Join(
		s.pool(`delete from fifty.keys where starts_with(scope, $1)`, s.row.scope),
		s.pool(`delete from fifty.steps where starts_with(scope, $1)`, s.row.scope),
		s.pool(`select setval('fifty.token_floor', 0)`),
	)
}

// whileHeld has a sweep meet somebody who has the lock that sql takes, and leave what is his.
func whileHeld(from, to idempotency.State, sql string) func(*scene) error {
	return func(s *scene) error {
		if err := s.settled(from); err != nil {
			return err
		}
		number := s.holder.LockNumber(s.row.scope, "k")
		err := s.holder.Txns().Transact(s.ctx, txn.Options{}, func(ctx context.Context, tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, sql, pgx.NamedArgs{"scope": s.row.scope, "number": number}); err != nil {
				return err
			}
			steps := 1
			if to == dropped {
				steps = 0
			}
			return s.swept(from, to, steps)
		})
		return errors.Join(err, s.drain())
	}
}

// behind has a sweep of one record find the due one behind an older one that is not.
func behind(s *scene) error {
	if err := s.settled(idempotency.Done); err != nil {
		return err
	}
	err := s.pool(`update fifty.keys set state = 3, created = created - interval '100 days', changed = changed - interval '100 days' where scope = $1 and key = 'neighbour'`, s.row.scope)
	if err != nil {
		return err
	}
	n, err := s.store.Keys().Sweep(s.ctx, day, 30*day, 1)
	if err != nil || n != 1 {
		err = fmt.Errorf("swept %d, %v", n, err)
	}
	return errors.Join(err, s.is(dropped, 0), s.drain())
}

// inBatches has a sweep take no more than it was told.
func inBatches(from idempotency.State) func(s *scene) error {
	return func(s *scene) error {
		if err := s.settled(from); err != nil {
			return err
		}
		err := s.pool(`update fifty.keys set created = created - interval '100 days', changed = changed - interval '100 days',
			buried = case state when 5 then changed - interval '100 days' end where starts_with(scope, $1)`, s.row.scope)
		if err != nil {
			return err
		}
		var got []int
		for range 2 {
			n, err := s.store.Keys().Sweep(s.ctx, day, 300*day, 2)
			if from == idempotency.Tombstone {
				n, err = s.store.Keys().Sweep(s.ctx, day, 30*day, 2)
			}
			if err != nil {
				return err
			}
			got = append(got, n)
		}
		if fmt.Sprint(got) != "[2 1]" {
			err = fmt.Errorf("swept %v", got)
		}
		return errors.Join(err, s.drain())
	}
}

func sweepGuards() []guard {
	const (
		rowLock = `select from fifty.keys where scope = @scope and key = 'k' and @number::bigint <> 0 for update`
		keyLock = `select pg_advisory_xact_lock(@number::bigint) where @scope::text <> ''`
		oneLock = `select pg_advisory_xact_lock(50, hashtext('fifty sweep')) where @scope::text <> '' and @number::bigint <> 0`
		number  = "pg_try_advisory_xact_lock(('x' || left(encode(sha256(\n        convert_to('fifty', 'UTF8') || decode('00', 'hex')\n        || convert_to(scope, 'UTF8') || decode('00', 'hex')\n        || convert_to(key, 'UTF8')), 'hex'), 16))::bit(64)::bigint)"
	)
	drop := func(name, old, replacement string, check func(*scene) error) guard {
		return guard{name: "sweep " + name, changes: []change{{"sweep", old, replacement}}, check: check}
	}
	waits := func(g guard) guard { g.waits = true; return g }
	in := func(statement string, g guard) guard { g.changes[0].statement = statement; return g }
	inBoth := func(g guard) guard {
		g.changes = append(g.changes, g.changes[0])
		return in("sweep.around", g)
	}
	skip := "limit $3::bigint\n        for update skip locked"
	skipDue := "(select n from old), 1000)\n    for update skip locked"
	return []guard{
		drop("tombstones of their time", "and k.buried <= statement_timestamp() - $2::bigint * interval '1 microsecond'", "and $2::bigint > 0",
			sweeps(dropped, dropped, 0, `buried = clock_timestamp() - interval '29 days'`)),
		drop("answers of their time", "and k.changed <= statement_timestamp() - $1::bigint * interval '1 microsecond'", "",
			sweeps(idempotency.Done, idempotency.Done, 1, `changed = clock_timestamp() - interval '23 hours'`)),
		drop("one at a time, tombstones", "where (select open from gate)\n          and", "where", whileHeld(dropped, dropped, oneLock)),
		drop("one at a time, free keys", "k.state = 4 and (select open from gate)", "k.state = 4", whileHeld(freeState, freeState, oneLock)),
		drop("answers beside another sweep", "and (k.state = 2 or", "and (select open from gate) and (k.state = 2 or", whileHeld(idempotency.Done, dropped, oneLock)),
		drop("free keys by the lock of their key", "where state = 4 and "+number, "where state = 4", whileHeld(freeState, freeState, keyLock)),
		waits(in("sweep.enter", drop("waits for a moment only", ",\n    "+sweepPatience, "", whileHeld(dropped, dropped, rowLock)))),
		in("sweep.around", drop("tombstones that are not locked", skip, "limit $3::bigint", whileHeld(dropped, dropped, rowLock))),
		in("sweep.around", drop("tombstones that are not locked, nor waits for them", skip, "limit $3::bigint for update", whileHeld(dropped, dropped, rowLock))),
		inBoth(drop("answers that are not locked", skipDue, "(select n from old), 1000) for update", whileHeld(idempotency.Done, idempotency.Done, rowLock))),
		inBoth(drop("answers that are not locked, nor waits for them", skipDue, "(select n from old), 1000)", whileHeld(idempotency.Done, idempotency.Done, rowLock))),
		drop("only what is done or free", "and (k.state = 2 or k.state = 4 and (select open from gate))", "", behind),
		drop("free keys away", "where state = 4 and pg_try", "where state <> 4 and pg_try", sweeps(freeState, removed, 0)),
		drop("answers into tombstones", "where state = 4 and pg_try", "where pg_try", sweeps(idempotency.Done, dropped, 0)),
		drop("answers only into tombstones", "where state = 2))", "))", whileHeld(freeState, freeState, keyLock)),
		drop("free keys after the floor", ", (select max(token) from gone))", ")", sweeps(freeState, removed, 0)),
		drop("tombstones after the floor", "(select token from old), ", "", sweeps(dropped, removed, 0)),
		drop("tombstones from the later time", "greatest(k.changed, k.made)", "k.changed", func(s *scene) error {
			first := sweeps(idempotency.Done, dropped, 0, `made = clock_timestamp()`, `buried = null`)
			later := func(s *scene) error {
				if err := s.settled(idempotency.Done); err != nil {
					return err
				}
				if err := s.pool(`update fifty.keys set made = clock_timestamp() where scope = $1 and key = 'k'`, s.row.scope); err != nil {
					return err
				}
				return errors.Join(s.swept(idempotency.Done, dropped, 0), s.swept(dropped, dropped, 0), s.drain())
			}
			return errors.Join(first(s), later(s))
		}),
		drop("its steps", "union all select scope, key from dropped", "", sweeps(idempotency.Done, dropped, 0)),
		drop("its steps, when it is removed", "select scope, key from gone union all", "", sweeps(freeState, removed, 0)),
		drop("steps of its scope", "where s.scope = k.scope and s.key", "where s.key", sweeps(idempotency.Done, dropped, 0)),
		drop("steps of its key", "where s.scope = k.scope and s.key = k.key", "where s.scope = k.scope", sweeps(idempotency.Done, dropped, 0)),
		drop("no more than it was told", "least($3::bigint - (select n from old), 1000)", "1000", inBatches(idempotency.Done)),
		drop("no more tombstones than it was told", "order by k.buried\n        limit $3::bigint", "order by k.buried", inBatches(idempotency.Tombstone)),
		erase("of its scope", "k.scope = $1::text and k.key >= $3::text", "$1::text <> '' and k.key >= $3::text", erases(idempotency.Done)),
		erase("what is done", "and k.state = 2", "", erases(idempotency.Unknown)),
		erase("what is there", "(not k.not_replayable or exists (", "(true or exists (", erases(idempotency.Done)),
		erase("no more than it was told", "limit $2::bigint", "limit $2::bigint + 10", erases(idempotency.Done)),
		erase("steps of its scope", "where s.scope = $1::text and", "where $1::text <> '' and", erases(idempotency.Done)),
		erase("steps of its key", "and s.key = bare.key", "", erases(idempotency.Done)),
	}
}

func erase(name, old, replacement string, check func(*scene) error) guard {
	return guard{name: "erase " + name, changes: []change{{"erase", old, replacement}}, check: check}
}

// erases takes one answer away, of a row in Done, and nothing of any other.
func erases(state idempotency.State) func(*scene) error {
	return func(s *scene) error {
		if err := s.settled(state); err != nil {
			return err
		}
		want, steps := 1, 0
		if state != idempotency.Done {
			want, steps = 0, 1
		}
		if n, err := s.store.Keys().Erase(s.ctx, s.row.scope, 1); err != nil || n != want {
			return fmt.Errorf("erased %d, %v; want %d", n, err, want)
		}
		if err := errors.Join(s.is(state, steps), s.same()); err != nil {
			return err
		}
		if state != idempotency.Done {
			return nil
		}
		for range 2 { // the neighbour in the same scope, and then nothing
			n, err := s.store.Keys().Erase(s.ctx, s.row.scope, 10)
			if err != nil || n != want {
				return fmt.Errorf("erased %d, %v; want %d", n, err, want)
			}
			want = 0
		}
		return nil
	}
}

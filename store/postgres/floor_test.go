package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/internal/testenv"
	"github.com/fiftyhosts/fifty/store/postgres"
	"github.com/fiftyhosts/fifty/txn"
)

const day = 24 * time.Hour

// freed leaves a free key that had the token, two days ago.
func (b bundle) freed(tb testing.TB, key string, token int64) {
	tb.Helper()
	won := claim(tb, b.Keys(), attempt(key))
	if err := complete(tb, b.Keys(), idempotency.Completion{Claim: claimOf(won.Record), State: idempotency.Free}); err != nil {
		tb.Fatal(err)
	}
	b.exec(tb, `update fifty.keys set token = $2 where key = $1`, key, token)
	b.age(tb, key, "2 days")
}

// buried leaves a tombstone that had the token, and whose time is over.
func (b bundle) buried(tb testing.TB, key string, token int64) {
	tb.Helper()
	if err := complete(tb, b.Keys(), lateDone(claim(tb, b.Keys(), attempt(key)))); err != nil {
		tb.Fatal(err)
	}
	b.exec(tb, `update fifty.keys set token = $2, state = 5, buried = changed where key = $1`, key, token)
	b.age(tb, key, "40 days")
}

func (b bundle) sweep(tb testing.TB) int {
	tb.Helper()
	n, err := b.Keys().Sweep(tb.Context(), day, 30*day, 10)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// A claim's snapshot is from before the sweep, and the key is gone when the claim comes to it.
func TestPostgresTokenGrowsAlthoughItsRecordWasRemovedUnderTheClaim(t *testing.T) {
	t.Parallel()
	pause := []change{{"claim.insert", "where pg_try", "where " + paused + " and pg_try"}}
	early := append([]change{
		{"claim.insert", floor + " + 1", "floor + 1"},
		{"claim.insert", "\nwhere pg_try", "\nfrom (select " + floor + " as floor offset 0) f\nwhere pg_try"},
		above("claim.insert"),
	}, pause...)
	token := func(changes []change) int64 {
		b := setup(t)
		b.freed(t, "k", 7)
		resume := b.pause(t)
		s := b.Break(breaking(t, changes))
		claimed := later(func() ([]idempotency.Claimed, error) {
			return s.Keys().Claim(t.Context(), []idempotency.Attempt{attempt("k")})
		})
		b.untilBlocked(t, 1)
		if n := b.sweep(t); n != 1 {
			t.Fatalf("swept %d", n)
		}
		resume()
		all, err := claimed()
		if err != nil || !all[0].Won {
			t.Fatalf("%+v, %v", all, err)
		}
		return all[0].Record.Token
	}
	if got := token(pause); got <= 7 {
		t.Errorf("token %d after 7", got)
	}
	if got := token(early); got > 7 {
		t.Errorf("a floor that is read before the removal alone goes unnoticed: token %d", got)
	}
}

// above drops the condition that the token of a new row is higher than the floor when the row is there.
func above(statement string) change {
	return change{statement, "k.token > " + floor, "k.token > 0"}
}

const floor = `pg_sequence_last_value('"fifty".token_floor'::regclass)`

// insertsPaused is the lock at which pauseInserts holds.
const insertsPaused = 4712

// waiting says that somebody waits for an advisory lock.
const waiting = `select count(*) > 0 from pg_locks where locktype = 'advisory' and objid = $1::bigint::oid and not granted
	and database = (select oid from pg_database where datname = current_database())`

// pauseInserts holds every insert into the table of keys that has read the floor and not yet come to the index.
func (b bundle) pauseInserts(tb testing.TB) (resume func()) {
	tb.Helper()
	resume = b.pauseAt(tb, insertsPaused)
	b.exec(tb, `create function wait() returns trigger language plpgsql as
		$$begin perform pg_advisory_xact_lock_shared(4712); return new; end$$`)
	b.exec(tb, `create trigger wait before insert on fifty.keys for each row execute function wait()`)
	return resume
}

// A claim has read the floor and not yet come to the index, when a sweep removes what was there.
func TestPostgresTokenGrowsAlthoughItsTombstoneGoesUnderTheClaim(t *testing.T) {
	t.Parallel()
	token := func(changes ...change) int64 {
		b := setup(t)
		b.buried(t, "k", 7)
		resume := b.pauseInserts(t)
		s := b.Break(breaking(t, changes))
		claimed := later(func() ([]idempotency.Claimed, error) {
			return s.Keys().Claim(t.Context(), []idempotency.Attempt{attempt("k")})
		})
		b.untilBlocked(t, 1)
		if n := b.sweep(t); n != 1 {
			t.Fatalf("swept %d", n)
		}
		resume()
		all, err := claimed()
		if err != nil || !all[0].Won {
			t.Fatalf("%+v, %v", all, err)
		}
		return all[0].Record.Token
	}
	if got := token(); got <= 7 {
		t.Errorf("token %d after 7", got)
	}
	if got := token(above("claim.insert")); got > 7 {
		t.Errorf("a floor that is read before the insert alone goes unnoticed: token %d", got)
	}
}

// In a transaction the claim can't be made again alone: the whole of it must, as after a serialization failure.
func TestPostgresTransactionWhoseTombstoneGoesUnderItsClaimIsMadeAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.buried(t, "k", 7)
	resume := b.pauseInserts(t)
	claimed := later(func() (got idempotency.Claimed, err error) {
		err = b.Txns().Transact(t.Context(), txn.Options{}, func(ctx context.Context, tx pgx.Tx) error {
			got, err = b.Keys().ClaimTx(ctx, tx, attempt("k"))
			return err
		})
		return got, err
	})
	b.untilBlocked(t, 1)
	if n := b.sweep(t); n != 1 {
		t.Fatalf("swept %d", n)
	}
	resume()
	if got, err := claimed(); err == nil || b.Keys().Classify(err) != txn.Retryable {
		t.Errorf("%+v, %v", got, err)
	}
}

// At repeatable read InTx looks with a snapshot that is older than its lock: a whole life of the key may be
// missing from it, and end while the answer is on its way to the index.
func TestPostgresTokenGrowsAlthoughItsTombstoneGoesUnderAnInTx(t *testing.T) {
	t.Parallel()
	token := func(changes ...change) int64 {
		b := setup(t)
		pool := newPool(t, b.url, func(c *pgxpool.Config) {
			c.ConnConfig.RuntimeParams["default_transaction_isolation"] = "repeatable read"
		})
		look := b.pause(t)
		s := postgres.New(pool, postgres.Config{}).Break(breaking(t, append(changes, change{
			"intx.lock", "pg_try_advisory_xact_lock($2::bigint)", "(" + paused + " and pg_try_advisory_xact_lock($2::bigint))",
		})))
		answered := later(func() (idempotency.Claimed, error) {
			return s.Keys().InTx(t.Context(), attempt("k"), func(context.Context, pgx.Tx) (idempotency.Response, error) {
				return created("1"), nil
			})
		})
		b.untilBlocked(t, 1)
		b.buried(t, "k", 7)
		insert := b.pauseInserts(t)
		look()
		until(t, b.pool, waiting, insertsPaused)
		if n := b.sweep(t); n != 1 {
			t.Fatalf("swept %d", n)
		}
		insert()
		got, err := answered()
		if err != nil || !got.Won {
			t.Fatalf("%+v, %v", got, err)
		}
		return got.Record.Token
	}
	if got := token(); got <= 7 {
		t.Errorf("token %d after 7", got)
	}
	if got := token(above("intx.answer")); got > 7 {
		t.Errorf("a floor that is read before the insert alone goes unnoticed: token %d", got)
	}
}

// A claim has read the floor and not yet come to the index. Of a free key a sweep needs the lock.
func TestPostgresSweepLeavesAFreeKeyThatIsJustBeingClaimed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.freed(t, "k", 7)
	resume := b.pauseInserts(t)
	claimed := later(func() ([]idempotency.Claimed, error) {
		return b.Keys().Claim(t.Context(), []idempotency.Attempt{attempt("k")})
	})
	b.untilBlocked(t, 1)
	if n := b.sweep(t); n != 0 {
		t.Errorf("swept %d", n)
	}
	resume()
	all, err := claimed()
	if err != nil || !all[0].Won || all[0].Record.Token != 8 {
		t.Fatalf("%+v, %v", all, err)
	}
}

// A transaction at repeatable read sees nothing that happened after its first statement, but the floor.
func TestPostgresTokenGrowsInATransactionThatIsOlderThanTheSweep(t *testing.T) {
	t.Parallel()
	b := setup(t)
	opts := txn.Options{Isolation: txn.RepeatableRead}
	err := b.Txns().Transact(t.Context(), opts, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `select count(*) from fifty.keys`); err != nil {
			return err
		}
		b.freed(t, "k", 7)
		if n := b.sweep(t); n != 1 {
			t.Errorf("swept %d", n)
		}
		won, err := b.Keys().ClaimTx(ctx, tx, attempt("k"))
		if err != nil || !won.Won || won.Record.Token != 8 {
			t.Errorf("%+v, %v", won, err)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestPostgresTokenOutlivesItsRecordInEveryWayOfClaiming(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]ask{"Claim": byClaim, "ClaimTx": byClaimTx, "InTx": byInTx} {
		b := setup(t)
		b.freed(t, "k", 7)
		if n := b.sweep(t); n != 1 {
			t.Fatalf("%s: swept %d", name, n)
		}
		got, err := by(&scene{t: t, ctx: t.Context(), store: b.Store}, attempt("k"))
		if err != nil || !got.Won || got.Record.Token != 8 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if rec, err := b.Keys().Find(t.Context(), "acme", "k"); err != nil || rec.Token != 8 {
			t.Errorf("%s: %+v, %v", name, rec, err)
		}
	}
}

// Two sweeps want to raise the floor. The one that read it first must not write last.
func TestPostgresTwoSweepsNeverLowerTheFloor(t *testing.T) {
	t.Parallel()
	token := func(changes ...change) int64 {
		b := setup(t)
		b.freed(t, "low", 7)
		resume := b.pause(t)
		slow := b.Break(breaking(t, append(changes, change{
			"sweep", "case when d.token > f.last_value then", "case when d.token > f.last_value and " + paused + " then",
		})))
		first := later(func() (int, error) { return slow.Keys().Sweep(t.Context(), day, 30*day, 10) })
		b.untilBlocked(t, 1)
		b.freed(t, "high", 9)
		if _, err := b.Break(breaking(t, changes)).Keys().Sweep(t.Context(), day, 30*day, 10); err != nil {
			t.Fatal(err)
		}
		resume()
		if n, err := first(); n != 1 || err != nil {
			t.Fatalf("the first swept %d, %v", n, err)
		}
		b.sweep(t) // what the second had to leave
		return claim(t, b.Keys(), attempt("high")).Record.Token
	}
	if got := token(); got <= 9 {
		t.Errorf("token %d after 9", got)
	}
	if got := token(change{"sweep", "select pg_try_advisory_xact_lock(50, hashtext('fifty sweep')) as open", "select true as open"}); got > 9 {
		t.Errorf("two sweeps that raise the floor at once go unnoticed: token %d", got)
	}
}

func TestPostgresSweepAndClaimMeanTheSameLock(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, id := range [][2]string{{"acme", "k"}, {"a", "a k"}, {"a a", "k"}, {"açmé 日本 😀", `'"\x00%`}, {" ", "~"}} {
		sql := `select ` + postgres.LockNumberSQL("fifty") + ` from (values ($1::text, $2::text)) as id (scope, key)`
		if got, want := one[int64](t, b.pool, sql, id[0], id[1]), b.LockNumber(id[0], id[1]); got != want {
			t.Errorf("%q: %d in SQL, %d in Go", id, got, want)
		}
	}
}

// A floor that a crash loses would let a token come twice.
func TestPostgresFloorIsAsDurableAsTheRemoval(t *testing.T) {
	t.Parallel()
	server := testenv.NewPostgres(t)
	b := setupOn(t, server.Database(t))
	b.freed(t, "k", 7)
	if n := b.sweep(t); n != 1 {
		t.Fatalf("swept %d", n)
	}
	server.Kill()
	server.Start()
	fresh := postgres.New(newPool(t, b.url), postgres.Config{})
	if got := claim(t, fresh.Keys(), attempt("k")); got.Record.Token != 8 {
		t.Errorf("%+v", got)
	}
}

package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/store/postgres"
)

// clocked is a store whose server's clock the test sets: its sessions find another clock_timestamp() before
// the server's own. The host's clock stays as it is.
type clocked struct {
	bundle
	real bundle
}

func setupClocked(tb testing.TB) clocked {
	tb.Helper()
	b := setup(tb)
	b.exec(tb, `create schema clock`)
	b.exec(tb, `create table clock.ahead (by interval not null)`)
	b.exec(tb, `insert into clock.ahead values ('0')`)
	for _, name := range []string{"clock_timestamp", "statement_timestamp"} {
		b.exec(tb, `create function clock.`+name+`() returns timestamptz language sql volatile as
			$$select pg_catalog.clock_timestamp() + by from clock.ahead$$`)
	}
	pool := newPool(tb, b.url, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["search_path"] = "clock, pg_catalog" })
	return clocked{bundle{postgres.New(pool, postgres.Config{}), b.url, pool}, b}
}

func (c clocked) set(tb testing.TB, ahead string) {
	tb.Helper()
	c.real.exec(tb, `update clock.ahead set by = $1::text::interval`, ahead)
}

// timed is an attempt whose key carries a time, so long ago by the host's clock.
func timed(key string, ago time.Duration) idempotency.Attempt {
	a := attempt(key)
	a.Made, a.Window = time.Now().Add(-ago), 30*day
	return a
}

func TestPostgresServersClockDecidesAboutTheWindow(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]ask{"Claim": byClaim, "ClaimTx": byClaimTx, "InTx": byInTx} {
		c := setupClocked(t)
		ask := func(a idempotency.Attempt) (idempotency.Claimed, error) {
			return by(&scene{t: t, ctx: t.Context(), store: c.Store}, a)
		}
		c.set(t, "100 days")
		got, err := ask(timed("fresh by the host's clock", 0))
		if err != nil || got.Won || !errors.Is(got.Err, idempotency.ErrExpired) {
			t.Errorf("%s, too old: %+v, %v", name, got, err)
		}
		got, err = ask(timed("in time", -100*day+time.Minute))
		if err != nil || !got.Won || got.Err != nil {
			t.Errorf("%s, in time: %+v, %v", name, got, err)
		}
		got, err = ask(timed("ahead", -100*day-time.Hour))
		if err != nil || got.Won || !errors.Is(got.Err, fifty.ErrInvalid) {
			t.Errorf("%s, ahead: %+v, %v", name, got, err)
		}
		if n := one[int](t, c.real.pool, `select count(*) from fifty.keys`); n != 1 {
			t.Errorf("%s: %d records", name, n)
		}
	}
}

func TestPostgresFreeKeyIsNewForItsWindowAndNoOtherIs(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]ask{"Claim": byClaim, "ClaimTx": byClaimTx, "InTx": byInTx} {
		c := setupClocked(t)
		ask := func(a idempotency.Attempt) (idempotency.Claimed, error) {
			return by(&scene{t: t, ctx: t.Context(), store: c.Store}, a)
		}
		won := claim(t, c.Keys(), timed("free", 0))
		if err := complete(t, c.Keys(), idempotency.Completion{Claim: claimOf(won.Record), State: idempotency.Free}); err != nil {
			t.Fatal(err)
		}
		vanished, next := timed("vanished", 0), timed("vanished", 0)
		vanished.Resume, next.Resume = true, true
		claim(t, c.Keys(), vanished)
		answered := claim(t, c.Keys(), timed("answered", 0))
		if err := complete(t, c.Keys(), lateDone(answered)); err != nil {
			t.Fatal(err)
		}
		c.set(t, "100 days")
		if got, err := ask(timed("free", 0)); err != nil || got.Won || !errors.Is(got.Err, idempotency.ErrExpired) {
			t.Errorf("%s, free: %+v, %v", name, got, err)
		}
		if got, err := ask(next); err != nil || !got.Won || got.Record.Token != 2 {
			t.Errorf("%s, taken over: %+v, %v", name, got, err)
		}
		if got, err := ask(timed("answered", 0)); err != nil || got.Err != nil || string(got.Record.Response.Body) != "late" {
			t.Errorf("%s, answered: %+v, %v", name, got, err)
		}
	}
}

// The clock is read again when the row is there: a key that left its window while the claim was on its way is
// not claimed, since its tombstone may have been removed meanwhile.
func TestPostgresKeyWhoseTombstoneGoesUnderTheClaimIsNotClaimed(t *testing.T) {
	t.Parallel()
	won := func(changes ...change) bool {
		c := setupClocked(t)
		first := timed("k", 0)
		if err := complete(t, c.Keys(), lateDone(claim(t, c.Keys(), first))); err != nil {
			t.Fatal(err)
		}
		sweep := func() {
			if n, err := c.Keys().Sweep(t.Context(), 0, 30*day, 10); n != 1 || err != nil {
				t.Fatalf("swept %d, %v", n, err)
			}
		}
		sweep()                                                 // the answer
		c.real.exec(t, `select setval('fifty.token_floor', 9)`) // as after others of a higher token
		resume := c.real.pauseInserts(t)
		s := c.Break(breaking(t, changes))
		claimed := later(func() ([]idempotency.Claimed, error) {
			again := timed("k", 0)
			again.Made = first.Made
			return s.Keys().Claim(t.Context(), []idempotency.Attempt{again})
		})
		c.real.untilBlocked(t, 1)
		c.set(t, "30 days")
		sweep() // the tombstone
		resume()
		all, err := claimed()
		if err != nil || all[0].Won == errors.Is(all[0].Err, idempotency.ErrExpired) {
			t.Fatalf("%+v, %v", all, err)
		}
		return all[0].Won
	}
	if won() {
		t.Error("a key outside of its window was claimed")
	}
	if !won(change{"claim.insert", "and coalesce(\n        $9::timestamptz > clock_timestamp() - $10::bigint * interval '1 microsecond'\n        and $9::timestamptz <= clock_timestamp() + interval '300000000 microseconds',\n        true) then", "then"}) {
		t.Error("a clock that is read before the insert alone goes unnoticed")
	}
}

// The window passes between the look and the takeover.
func TestPostgresFreeKeyThatLeavesItsWindowUnderTheClaimIsNotTaken(t *testing.T) {
	t.Parallel()
	won := func(changes ...change) bool {
		c := setupClocked(t)
		first := claim(t, c.Keys(), timed("k", 0))
		if err := complete(t, c.Keys(), idempotency.Completion{Claim: claimOf(first.Record), State: idempotency.Free}); err != nil {
			t.Fatal(err)
		}
		s := c.Break(breaking(t, changes))
		s.SetHook(once("claim.take", func() { c.set(t, "100 days") }))
		got := claim(t, s.Keys(), timed("k", 0))
		if got.Won == errors.Is(got.Err, idempotency.ErrExpired) {
			t.Fatalf("%+v", got)
		}
		return got.Won
	}
	if won() {
		t.Error("it was taken")
	}
	if !won(change{"claim.take", "and (state <> 4 or coalesce(", "and (true or coalesce("}) {
		t.Error("a takeover without the window goes unnoticed")
	}
}

func TestPostgresTombstoneStaysUntilTheWindowCoversItsKey(t *testing.T) {
	t.Parallel()
	c := setupClocked(t)
	won := claim(t, c.Keys(), timed("k", -4*time.Minute)) // of a client whose clock is fast
	if err := complete(t, c.Keys(), lateDone(won)); err != nil {
		t.Fatal(err)
	}
	sweep := func() int {
		n, err := c.Keys().Sweep(t.Context(), day, 30*day, 10)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	c.set(t, "30 days 1 minute")
	if n := sweep(); n != 1 {
		t.Fatalf("dropped %d answers", n)
	}
	if n := sweep(); n != 0 {
		t.Fatal("the tombstone is gone, and its key is in the window")
	}
	if got := claim(t, c.Keys(), timed("k", -4*time.Minute)); got.Won || got.Record.State != idempotency.Tombstone {
		t.Fatalf("%+v", got)
	}
	c.set(t, "30 days 10 minutes")
	if n := sweep(); n != 1 {
		t.Fatalf("removed %d", n)
	}
	if got := claim(t, c.Keys(), timed("k", -4*time.Minute)); got.Won || !errors.Is(got.Err, idempotency.ErrExpired) {
		t.Fatalf("%+v", got)
	}
}

package postgres_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/store/postgres"
	"github.com/fiftyhosts/fifty/txn"
)

// lockSKU holds the rows of a SKU, without changing them, until unlock is called.
func (b bundle) lockSKU(tb testing.TB, sku string) (unlock func()) {
	tb.Helper()
	tx, err := b.pool.Begin(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	unlock = sync.OnceFunc(func() { _ = tx.Rollback(context.Background()) })
	tb.Cleanup(unlock)
	if _, err := tx.Exec(tb.Context(), `select from fifty.stock where sku = $1 for update`, sku); err != nil {
		tb.Fatal(err)
	}
	return unlock
}

// queued asks, and returns when the ask waits for a lock behind n-1 others.
func queued(tb testing.TB, b bundle, n int, ask inventory.Ask) func() (inventory.Answer, error) {
	tb.Helper()
	got := later(func() (inventory.Answer, error) {
		act := b.Stock().Settle
		if ask.Act == inventory.Reserve {
			act = b.Stock().Reserve
		}
		answers, err := act(tb.Context(), []inventory.Ask{ask})
		if err != nil {
			return inventory.Answer{}, err
		}
		return answers[0], nil
	})
	b.untilBlocked(tb, n)
	return got
}

func TestPostgresOldTransactionDoesNotConfirmWhatHasExpiredAndIsSold(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.Stock()
	supply(t, s, inventory.Items{"a": 1}, 0)
	heldBy(t, s, "first", inventory.Items{"a": 1})
	var got inventory.Answer
	// Its now() stands still from here on; its later statements see what others commit.
	err := b.Txns().Transact(t.Context(), txn.Options{}, func(ctx context.Context, tx pgx.Tx) (err error) {
		if _, err := tx.Exec(ctx, `select now()`); err != nil {
			return err
		}
		b.expire(t, 2*3600, "first")
		heldBy(t, s, "second", inventory.Items{"a": 1})
		got, err = s.SettleTx(ctx, tx, confirm("first"))
		return err
	})
	if err != nil || !errors.Is(got.Err, inventory.ErrHoldExpired) {
		t.Errorf("%+v, %v", got, err)
	}
	balanced(t, s)
}

func TestPostgresOfAConfirmAndAnOrderThatWaitForARowThatIsOnlyLockedTheFirstGetsTheExpiredUnit(t *testing.T) {
	t.Parallel()
	for _, confirmFirst := range []bool{true, false} {
		b := setup(t)
		s := b.Stock()
		supply(t, s, inventory.Items{"a": 1}, 0)
		heldBy(t, s, "first", inventory.Items{"a": 1})
		asks := []inventory.Ask{confirm("first"), reserve("second", inventory.Items{"a": 1})}
		want := []error{nil, inventory.ErrSoldOut}
		if !confirmFirst {
			slices.Reverse(asks)
			want = []error{nil, inventory.ErrHoldExpired}
		}
		unlock := b.lockSKU(t, "a")
		one := queued(t, b, 1, asks[0])
		two := queued(t, b, 2, asks[1])
		b.expire(t, 2*3600, "first") // while both wait
		unlock()
		for i, wait := range []func() (inventory.Answer, error){one, two} {
			if got, err := wait(); err != nil || !errors.Is(got.Err, want[i]) || (want[i] == nil) != (got.Err == nil) {
				t.Errorf("confirm first %v: the %d. got %v, %v; want %v", confirmFirst, i+1, got.Err, err, want[i])
			}
		}
		balanced(t, s)
	}
}

func TestPostgresTwoOrdersThatWaitForTheLastUnitGetItOnce(t *testing.T) {
	t.Parallel()
	for _, items := range []inventory.Items{{"a": 1}, {"a": 1, "b": 1}} { // the quick statement, and several SKUs
		b := setup(t)
		s := b.Stock()
		supply(t, s, inventory.Items{"a": 1, "b": 5}, 0)
		unlock := b.lockSKU(t, "a")
		one := queued(t, b, 1, reserve("1", items))
		two := queued(t, b, 2, reserve("2", items))
		unlock()
		first, err := one()
		if err != nil || first.Err != nil {
			t.Errorf("%+v, %v", first, err)
		}
		if second, err := two(); err != nil || !errors.Is(second.Err, inventory.ErrSoldOut) {
			t.Errorf("%+v, %v", second, err)
		}
		balanced(t, s)
	}
}

func TestPostgresOverlappingBatchesNeverDeadlock(t *testing.T) {
	t.Parallel()
	b := setup(t)
	skus := []string{"a", "b", "c", "d", "e"}
	items := inventory.Items{}
	for _, sku := range skus {
		items[sku] = 1000
	}
	supply(t, b.Stock(), items, 0)
	const hosts, rounds, size = 4, 25, 12
	deadlocks := one[int64](t, b.pool, `select deadlocks from pg_stat_database where datname = current_database()`)
	errs := make([]error, hosts)
	var all sync.WaitGroup
	for host := range hosts {
		s := postgres.New(newPool(t, b.url, func(c *pgxpool.Config) { c.MaxConns = 1 }), postgres.Config{}).Stock()
		all.Go(func() {
			for range rounds {
				errs[host] = errors.Join(errs[host], mixedBatch(t.Context(), s, skus, host, size))
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	until(t, b.pool, `select pg_stat_get_db_xact_commit(oid) > 0 from pg_database where datname = current_database()`)
	if n := one[int64](t, b.pool, `select deadlocks from pg_stat_database where datname = current_database()`); n != deadlocks {
		t.Errorf("%d deadlocks", n-deadlocks)
	}
	balanced(t, b.Stock())
}

// mixedBatch reserves pairs of SKUs, whose order differs from host to host, and confirms or releases them.
func mixedBatch(ctx context.Context, s postgres.Stock[pgx.Tx], skus []string, host, size int) error {
	asks, settle := make([]inventory.Ask, size), make([]inventory.Ask, size)
	for i := range asks {
		x, y := skus[(i*(host+1))%len(skus)], skus[(i+host+1)%len(skus)]
		pair := inventory.Items{x: 1}
		pair[y] = 1
		asks[i] = reserve(rand.Text(), pair)
		if settle[i] = confirm(asks[i].ID); i%2 == 0 {
			settle[i] = release(asks[i].ID)
		}
	}
	if host%2 == 1 {
		slices.Reverse(asks)
	}
	for _, act := range []func() ([]inventory.Answer, error){
		func() ([]inventory.Answer, error) { return s.Reserve(ctx, asks) },
		func() ([]inventory.Answer, error) { return s.Settle(ctx, settle) },
	} {
		answers, err := act()
		if err != nil {
			return err
		}
		for _, a := range answers {
			if a.Err != nil && !errors.Is(a.Err, inventory.ErrSoldOut) && !errors.Is(a.Err, inventory.ErrState) {
				return a.Err
			}
		}
	}
	return nil
}

func TestPostgresSaleWithSplitsAndSweepsSellsWhatThereIs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const hosts, orders, units = 4, 60, 150
	supply(t, b.Stock(), inventory.Items{"a": units, "b": 2 * units}, 0)
	sold := make([]int, hosts)
	errs := make([]error, hosts+1)
	done := make(chan struct{})
	var all, beside sync.WaitGroup
	for host := range hosts {
		stock := inventory.NewTx(postgres.New(newPool(t, b.url), postgres.Config{}).Stock(), inventory.Config{})
		all.Go(func() { sold[host], errs[host] = shopping(t.Context(), stock, host, orders) })
	}
	beside.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			if err := b.Stock().Split(t.Context(), "a", []int{3, 1, 5, 2}[i%4]); err != nil {
				errs[hosts] = err
				return
			}
			if _, err := b.Stock().Sweep(t.Context(), time.Hour, 100); err != nil {
				errs[hosts] = err
				return
			}
		}
	})
	all.Wait()
	close(done)
	beside.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	balanced(t, b.Stock())
	total := 0
	for _, n := range sold {
		total += n
	}
	if l := level(t, b.Stock(), "a"); int(l.Sold) != total || l.Held != 0 || total == 0 || total > units {
		t.Errorf("%+v, and %d were told that they have one", l, total)
	}
}

// shopping reserves and settles from several goroutines, and counts the confirmed ones.
func shopping(ctx context.Context, stock *inventory.TxStock[pgx.Tx], host, orders int) (sold int, err error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range orders {
		all.Go(func() {
			id := fmt.Sprintf("%d-%d", host, i)
			_, reserved := stock.Reserve(ctx, id, inventory.Items{"a": 1, "b": 1}, time.Minute)
			var settled error
			if reserved == nil && i%4 == 0 {
				_, settled = stock.Release(ctx, id)
			} else if reserved == nil {
				_, settled = stock.Confirm(ctx, id)
			}
			mu.Lock()
			defer mu.Unlock()
			if errors.Is(reserved, inventory.ErrSoldOut) {
				return
			}
			if err = errors.Join(err, reserved, settled); reserved == nil && settled == nil && i%4 != 0 {
				sold++
			}
		})
	}
	all.Wait()
	return sold, err
}

func TestPostgresSplitSKUInATransactionLetsGoOfItsHomeBeforeItLocksAll(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.Stock()
	supply(t, s, inventory.Items{"a": 4}, 2)
	other := postgres.New(b.pool, postgres.Config{})
	first := make(chan struct{})
	var got [2]inventory.Answer
	// Both find their home short. Did they keep it while they lock the rest, they would deadlock.
	both := func(i int, s postgres.Stock[pgx.Tx]) func() (struct{}, error) {
		return later(func() (struct{}, error) {
			return struct{}{}, b.Txns().Transact(t.Context(), txn.Options{}, func(ctx context.Context, tx pgx.Tx) (err error) {
				<-first
				got[i], err = s.ReserveTx(ctx, tx, reserve(fmt.Sprint("order ", i), inventory.Items{"a": 3}))
				return err
			})
		})
	}
	one, two := both(0, s), both(1, other.Stock())
	close(first)
	for _, wait := range []func() (struct{}, error){one, two} {
		if _, err := wait(); err != nil {
			t.Error(err)
		}
	}
	if (got[0].Err == nil) == (got[1].Err == nil) {
		t.Errorf("%+v, %+v", got[0], got[1])
	}
	balanced(t, s)
}

func TestPostgresOneIDInTwoTransactionsIsOneHoldAfterAnotherRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.Stock()
	supply(t, s, inventory.Items{"a": 10}, 0)
	ask := reserve("order", inventory.Items{"a": 1})
	var second func() (inventory.Answer, error)
	again := func() (answer inventory.Answer, err error) {
		err = b.Txns().Transact(t.Context(), txn.Options{}, func(ctx context.Context, tx pgx.Tx) (err error) {
			answer, err = s.ReserveTx(ctx, tx, ask)
			return err
		})
		return answer, err
	}
	err := b.Txns().Transact(t.Context(), txn.Options{}, func(ctx context.Context, tx pgx.Tx) error {
		first, err := s.ReserveTx(ctx, tx, ask)
		second = later(again)
		b.untilBlocked(t, 1)
		return errors.Join(err, first.Err)
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := second(); err == nil || b.Txns().Classify(err) != txn.Retryable {
		t.Errorf("%v, class %v", err, b.Txns().Classify(err))
	}
	if got, err := again(); err != nil || !got.Hold.Replayed || got.Err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	if l := level(t, s, "a"); l.Held != 1 {
		t.Errorf("%+v", l)
	}
	balanced(t, s)
}

package postgres_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/store/postgres"
	"github.com/fiftyhosts/fifty/txn"
)

// trips are the round trips of a store, by the names of their statements.
type trips struct {
	mu    sync.Mutex
	names []string
}

func watch[Tx any](s *postgres.Store[Tx]) *trips {
	seen := &trips{}
	s.SetHook(func(_ context.Context, point string) {
		seen.mu.Lock()
		defer seen.mu.Unlock()
		seen.names = append(seen.names, point)
	})
	return seen
}

// watched is another store on the same database, and its round trips.
func (b bundle) watched() (*postgres.Store[pgx.Tx], *trips) {
	s := postgres.New(b.pool, postgres.Config{})
	return s, watch(s)
}

// were says that these were the round trips since the last call.
func (seen *trips) were(t *testing.T, what string, want ...string) {
	t.Helper()
	seen.mu.Lock()
	defer seen.mu.Unlock()
	if !slices.Equal(seen.names, want) {
		t.Errorf("%s took %q, want %q", what, seen.names, want)
	}
	seen.names = nil
}

// What comes before and after the work travels with its first statement and with COMMIT.
func TestPostgresInTxTakesOneRoundTripBesideTheWork(t *testing.T) {
	t.Parallel()
	b := withEffects(t, setup(t))
	s, seen := b.watched()
	keys, runs := idempotency.NewTx(s.Keys(), idempotency.Config{}), 0
	for key, tc := range map[string]struct {
		fn    func(context.Context, pgx.Tx) (idempotency.Response, error)
		trips []string
	}{
		"a statement": {charge(&runs), []string{"intx.lock+intx.new+begin+the work", "intx.answer+commit"}},
		"no statement": {
			func(context.Context, pgx.Tx) (idempotency.Response, error) { return created("1"), nil },
			[]string{"intx.lock+intx.new+begin+intx.answer+commit"},
		},
		"one that can't travel": {
			func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
				_, err := tx.Exec(ctx, `lock table effects`)
				return created("1"), err
			},
			[]string{"intx.lock+intx.new+begin", "intx.answer+commit"},
		},
	} {
		if _, err := keys.InTx(t.Context(), request(key), tc.fn); err != nil {
			t.Fatal(err)
		}
		seen.were(t, "InTx of "+key, tc.trips...)
	}
}

func TestPostgresInTxOverDatabaseSQLTakesFourRoundTripsBesideTheWork(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := postgres.NewDB(newDB(t, b.url), postgres.Config{})
	seen := watch(s)
	keys := idempotency.NewTx(s.Keys(), idempotency.Config{})
	_, err := keys.InTx(t.Context(), request("k"), func(context.Context, *sql.Tx) (idempotency.Response, error) {
		return created("1"), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	seen.were(t, "InTx", "begin", "intx.enter+intx.look", "intx.answer", "commit")
}

func TestPostgresDoTxTakesTwoRoundTripsBesideTheWork(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s, seen := b.watched()
	keys := idempotency.NewTx(s.Keys(), idempotency.Config{})
	err := b.Txns().Transact(t.Context(), txn.Options{}, func(ctx context.Context, tx pgx.Tx) error {
		for _, key := range []string{"k", "another"} {
			_, err := keys.DoTx(ctx, tx, request(key), func(context.Context, pgx.Tx) (idempotency.Response, error) {
				return created("1"), nil
			})
			if err != nil {
				return err
			}
			seen.were(t, "DoTx", "claimtx.insert+claimtx.savepoint", "complete+claimtx.release")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A claim that is ended twice, or by a stranger first, has no savepoint to take away in the same message: that
// would end the transaction.
func TestPostgresCompletionOfAClaimThatIsNotKnownHereLeavesTheTransactionUsable(t *testing.T) {
	t.Parallel()
	b := setup(t)
	err := b.Txns().Transact(t.Context(), txn.Options{}, func(ctx context.Context, tx pgx.Tx) error {
		won, err := b.Keys().ClaimTx(ctx, tx, attempt("k"))
		if err != nil {
			return err
		}
		stranger := lateDone(won)
		stranger.Claim.Token++
		if err := wantLost(b.Keys().CompleteTx(ctx, tx, stranger), true); err != nil {
			t.Error(err)
		}
		for range 2 {
			if err := b.Keys().CompleteTx(ctx, tx, lateDone(won)); err != nil {
				t.Errorf("the owner: %v", err)
			}
		}
		other := postgres.New(b.pool, postgres.Config{}) // as after the process forgot
		if won, err = b.Keys().ClaimTx(ctx, tx, attempt("another")); err != nil {
			return err
		}
		return other.Keys().CompleteTx(ctx, tx, lateDone(won))
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestPostgresKeyThatThisHostSawIsReplayedByOneRead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := postgres.New(b.pool, postgres.Config{})
	keys := idempotency.NewTx(s.Keys(), idempotency.Config{})
	if _, err := keys.Do(t.Context(), request("k"), func(context.Context) (idempotency.Response, error) { return created("1"), nil }); err != nil {
		t.Fatal(err)
	}
	seen := watch(s)
	for range 2 {
		res, err := keys.InTx(t.Context(), request("k"), mustNotRun(t))
		if err != nil || !res.Replayed || string(res.Body) != "1" || res.Header["Location"][0] != "/charges/1" {
			t.Fatalf("%+v, %v", res, err)
		}
		seen.were(t, "a replay", "find.answer")
	}
	other := idempotency.NewTx(s.Keys(), idempotency.Config{}) // another host
	if res, err := other.InTx(t.Context(), request("k"), mustNotRun(t)); err != nil || !res.Replayed {
		t.Fatalf("%+v, %v", res, err)
	}
	seen.were(t, "a replay elsewhere", "intx.lock+intx.new+begin+the work", "intx.look")
}

// A host that gets the keys that another one answered learns to read first. A fresh key is claimed as ever then, behind
// a read that finds nothing.
func TestPostgresInTxOfAHostThatGetsTheRetriesOfAnotherReadsFirst(t *testing.T) {
	t.Parallel()
	b := withEffects(t, setup(t))
	s := postgres.New(b.pool, postgres.Config{})
	dead, keys := idempotency.NewTx(s.Keys(), idempotency.Config{}), idempotency.NewTx(s.Keys(), idempotency.Config{})
	const surprises, more = 4, 3
	for i := range surprises + more {
		name := fmt.Sprint("k", i)
		if _, err := dead.Do(t.Context(), request(name), func(context.Context) (idempotency.Response, error) { return created(name), nil }); err != nil {
			t.Fatal(err)
		}
	}
	seen := watch(s)
	for i := range surprises + more {
		name := fmt.Sprint("k", i)
		if res, err := keys.InTx(t.Context(), request(name), mustNotRun(t)); err != nil || !res.Replayed || string(res.Body) != name {
			t.Fatalf("%+v, %v", res, err)
		}
		if i < surprises {
			seen.were(t, "a surprise", "intx.lock+intx.new+begin+the work", "intx.look")
		} else {
			seen.were(t, "a retry in the storm", "find.answer")
		}
	}
	runs := 0
	if res, err := keys.InTx(t.Context(), request("fresh"), charge(&runs)); err != nil || res.Replayed || runs != 1 {
		t.Fatalf("%+v, %v, %d runs", res, err, runs)
	}
	seen.were(t, "a fresh key in the storm", "find.answer", "intx.lock+intx.new+begin+the work", "intx.answer+commit")
}

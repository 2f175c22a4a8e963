package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/store/postgres"
	"github.com/fiftyhosts/fifty/txn"
)

// crowd is how many callers come at once.
const crowd = 256

// noticed is a context that tells when somebody first waits for its end: a caller that queues does.
type noticed struct {
	context.Context
	waits func()
}

func (n noticed) Done() <-chan struct{} {
	n.waits()
	return n.Context.Done()
}

// rush lets a crowd in, each with a key of its own. The first one's claim is held until all the others wait for it.
func rush[Tx any](t *testing.T, s *postgres.Store[Tx], sees func(point string)) []error {
	t.Helper()
	held, release := make(chan struct{}), make(chan struct{})
	var first sync.Once
	s.SetHook(func(_ context.Context, point string) {
		sees(point)
		first.Do(func() {
			close(held)
			<-release
		})
	})
	keys := idempotency.NewTx(s.Keys(), idempotency.Config{})
	errs := make([]error, crowd)
	var all, queued sync.WaitGroup
	arrive := func(i int, ctx context.Context) {
		all.Go(func() {
			key := fmt.Sprint("key ", i)
			runs := 0
			res, err := keys.Do(ctx, request(key), func(context.Context) (idempotency.Response, error) {
				runs++
				return created(key), nil
			})
			if err == nil && (string(res.Body) != key || res.Replayed || runs != 1) {
				err = fmt.Errorf("the answer is %q, replayed %v, after %d runs", res.Body, res.Replayed, runs)
			}
			errs[i] = err
		})
	}
	arrive(0, t.Context())
	<-held
	for i := 1; i < crowd; i++ {
		queued.Add(1)
		arrive(i, noticed{t.Context(), sync.OnceFunc(queued.Done)})
	}
	queued.Wait()
	close(release)
	all.Wait()
	return errs
}

func TestPostgresCallersWhoComeAtTheSameTimeShareStatements(t *testing.T) {
	t.Parallel()
	t.Run("pgx", func(t *testing.T) { sharesStatements(t, postgres.New(setup(t).pool, postgres.Config{})) })
	t.Run("sql", func(t *testing.T) { sharesStatements(t, postgres.NewDB(newDB(t, setup(t).url), postgres.Config{})) })
}

func sharesStatements[Tx any](t *testing.T, s *postgres.Store[Tx]) {
	t.Parallel()
	var mu sync.Mutex
	var trips []string
	for i, err := range rush(t, s, func(point string) {
		mu.Lock()
		defer mu.Unlock()
		trips = append(trips, point)
	}) {
		if err != nil {
			t.Errorf("caller %d: %v", i, err)
		}
	}
	claims := slices.DeleteFunc(slices.Clone(trips), func(p string) bool { return !strings.HasPrefix(p, "claim") })
	if want := []string{"claim.insert", "claim.insert_many"}; !slices.Equal(claims, want) {
		t.Errorf("the claims took %q, want %q", claims, want)
	}
	for i := range crowd {
		rec, err := s.Keys().Find(t.Context(), "acme", fmt.Sprint("key ", i))
		if err != nil || rec.State != idempotency.Done {
			t.Errorf("key %d: %+v, %v", i, rec, err)
		}
	}
}

// A batch whose reply is lost is nobody's failure: each of its callers asks again, and is known by its id.
func TestPostgresCallersWhoseBatchLostItsReplyEachGetTheirOwnAnswerOfOneRun(t *testing.T) {
	t.Parallel()
	for _, batch := range []string{"claim.insert_many", "complete_many"} {
		t.Run(batch, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			wire, through := newRelay(t, b.url)
			s := postgres.New(newPool(t, through, func(c *pgxpool.Config) { // one connection: one message at a time
				c.MaxConns = 1
				c.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
			}), postgres.Config{})
			warmBatches(t, s.Keys())
			var lost sync.Once
			var mu sync.Mutex
			var after []string
			again := make(chan struct{}) // closed when the claims are asked for again
			asked := sync.OnceFunc(func() { close(again) })
			errs := rush(t, s, func(point string) {
				mu.Lock()
				struck := len(after) > 0
				if struck || point == batch {
					after = append(after, point)
				}
				mu.Unlock()
				switch {
				case point == batch:
					lost.Do(func() { wire.arm(loseReply) })
				case batch == "claim.insert_many" && struck && strings.HasPrefix(point, "claim."):
					asked()
				case batch == "claim.insert_many" && point == "complete": // of the first caller: not on the wire meanwhile
					<-again
				}
			})
			for i, err := range errs {
				if err != nil {
					t.Errorf("caller %d: %v", i, err)
				}
			}
			if strikes := wire.Strikes(); len(strikes) != 1 {
				t.Errorf("%d replies were lost", len(strikes))
			}
			if n := one[int](t, b.pool, `select count(*) from fifty.keys where state = 2 and starts_with(key, 'key ')`); n != crowd {
				t.Errorf("%d keys are done", n)
			}
		})
	}
}

// warmBatches has all statements prepared.
func warmBatches[Tx any](t *testing.T, keys postgres.Keys[Tx]) {
	t.Helper()
	for _, batch := range [][]idempotency.Attempt{{attempt("warm"), attempt("warm too")}, {attempt("warm alone")}} {
		answers, err := keys.Claim(t.Context(), batch)
		if err != nil {
			t.Fatal(err)
		}
		var ends []idempotency.Completion
		for _, c := range answers {
			ends = append(ends, idempotency.Completion{Claim: claimOf(c.Record), State: idempotency.Free})
		}
		if errs, err := keys.Complete(t.Context(), ends); err != nil || errors.Join(errs...) != nil {
			t.Fatal(errs, err)
		}
	}
}

func TestPostgresBatchTakesOneRoundTrip(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s, seen := b.watched()
	keys := s.Keys()
	batch := []idempotency.Attempt{attempt("b"), attempt("a"), attempt("c")}
	answers, err := keys.Claim(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	seen.were(t, "new keys", "claim.insert_many")
	if _, err := keys.Claim(t.Context(), []idempotency.Attempt{attempt("a"), attempt("d"), attempt("b")}); err != nil {
		t.Fatal(err)
	}
	seen.were(t, "new keys and known ones", "claim.insert_many", "claim.look_many")
	var claims []idempotency.Claim
	var ends []idempotency.Completion
	for _, c := range answers {
		claims = append(claims, claimOf(c.Record))
		ends = append(ends, idempotency.Completion{Claim: claimOf(c.Record), State: idempotency.Done, Response: created("1")})
	}
	for i := range 2 {
		if errs, err := keys.Renew(t.Context(), claims, 1); err != nil || errs[0] != nil && i == 0 {
			t.Fatal(errs, err)
		}
		if errs, err := keys.Complete(t.Context(), ends); err != nil || errors.Join(errs...) != nil {
			t.Fatal(errs, err)
		}
	}
	seen.were(t, "their ends, twice", "renew_many", "complete_many", "renew_many", "find_many", "complete_many", "find_many")
}

// crossing has two hosts claim the same keys, while a stranger holds one of them that comes between the others: the
// first host has what comes before it, and waits. It returns how many statements that took.
func crossing(t *testing.T, first, second []change) (statements int) {
	t.Helper()
	b := setup(t)
	var mu sync.Mutex
	host := func(changes []change) *postgres.Store[pgx.Tx] {
		s := postgres.New(newPool(t, b.url), postgres.Config{}).Break(breaking(t, changes))
		s.SetHook(func(_ context.Context, point string) {
			mu.Lock()
			defer mu.Unlock()
			if point == "claim.insert_many" {
				statements++
			}
		})
		return s
	}
	hosts := []*postgres.Store[pgx.Tx]{host(first), host(second)}
	orders := [][]string{{"z", "m", "a"}, {"a", "m", "z"}}
	won := make([]int, len(hosts))
	var all sync.WaitGroup
	errGone := errors.New("the stranger goes without a trace")
	err := b.Txns().Transact(t.Context(), txn.Options{}, func(ctx context.Context, tx pgx.Tx) error {
		const stranger = `insert into fifty.keys (scope, key, fingerprint, state, token, attempt, owner) values ('acme', 'm', '', 4, 1, '', '')`
		if _, err := tx.Exec(ctx, stranger); err != nil {
			return err
		}
		for i, s := range hosts {
			var batch []idempotency.Attempt
			for _, key := range orders[i] {
				batch = append(batch, attempt(key))
			}
			all.Go(func() {
				answers, err := s.Keys().Claim(t.Context(), batch)
				if err != nil {
					t.Error(err)
				}
				for _, c := range answers {
					if c.Won {
						won[i]++
					}
				}
			})
			until(t, b.pool, `select count(*) = $1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`, i+1)
		}
		return errGone
	})
	if !errors.Is(err, errGone) {
		t.Fatal(err)
	}
	all.Wait()
	if won[0]+won[1] != len(orders[0]) {
		t.Errorf("%d and %d won", won[0], won[1])
	}
	return statements
}

func TestPostgresBatchesOfTwoHostsThatCrossNeverDeadlock(t *testing.T) {
	t.Parallel()
	if n := crossing(t, nil, nil); n != 2 {
		t.Errorf("it took %d statements", n)
	}
	// What a host without an order does: one of the two is a deadlock's victim, and runs again.
	if n := crossing(t, []change{{"claim.insert_many", "order by a.place", "order by a.place desc"}}, nil); n < 3 {
		t.Error("a batch in another order went unnoticed")
	}
}

// The failure is definite, so that whoever sends batches may look for the one that is at fault.
func TestPostgresAnswerThatFitsNoColumnFailsAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	batch := []idempotency.Attempt{attempt("a"), attempt("b"), attempt("c")}
	answers, err := b.Keys().Claim(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	ends := make([]idempotency.Completion, len(batch))
	for i, c := range answers {
		ends[i] = idempotency.Completion{Claim: claimOf(c.Record), State: idempotency.Done, Response: created("1")}
	}
	ends[1].Response.Status = 1 << 40
	if _, err := b.Keys().Complete(t.Context(), ends); err == nil || b.Keys().Classify(err) != txn.Permanent {
		t.Fatalf("%v is %v", err, b.Keys().Classify(err))
	}
	for _, a := range batch { // so bisecting finds it
		if rec, err := b.Keys().Find(t.Context(), "acme", a.Request.Key); err != nil || rec.State != idempotency.InFlight {
			t.Errorf("%s: %+v, %v", a.Request.Key, rec, err)
		}
	}
	ends[1].Response.Status = 201
	if errs, err := b.Keys().Complete(t.Context(), ends); err != nil || errors.Join(errs...) != nil {
		t.Fatal(errs, err)
	}
}

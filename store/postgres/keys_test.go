package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/internal/testenv"
	"github.com/fiftyhosts/fifty/store/postgres"
	"github.com/fiftyhosts/fifty/txn"
)

// caseless makes a database whose collation holds "A" and "a" for equal, as far as Postgres allows that.
func caseless(t *testing.T) string {
	t.Helper()
	server := testenv.Postgres(t)
	admin := newPool(t, server.URL())
	const name = "caseless"
	_, err := admin.Exec(t.Context(), `create database `+name+` template template0 encoding 'UTF8' locale_provider icu icu_locale 'und-u-ks-level1'`)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := admin.Exec(context.Background(), `drop database `+name+` with (force)`); err != nil {
			t.Error(err)
		}
	})
	u, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

func TestPostgresKeysAreComparedByteForByteInACaselessDatabase(t *testing.T) {
	t.Parallel()
	b := setupOn(t, caseless(t))
	keys := []string{"a", "A", "a ", " a", "a-b", "ab", "a_b", "AB"}
	for _, key := range keys {
		if got := claim(t, b.Keys(), attempt(key)); !got.Won {
			t.Errorf("%q is taken for another key: %+v", key, got.Record.Request)
		}
	}
	for _, scope := range []string{"Acme", "acme ", "acmé", "acme\u0301"} {
		a := attempt("a")
		a.Request.Scope = scope
		if got := claim(t, b.Keys(), a); !got.Won {
			t.Errorf("%q is taken for another scope: %+v", scope, got.Record.Request)
		}
	}
	// The index is in the order of bytes, which no upgrade of a collation library can change.
	slices.Sort(keys)
	rows, err := b.pool.Query(t.Context(), `select key from fifty.keys where scope = 'acme' order by key`)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := pgx.CollectRows(rows, pgx.RowTo[string]); err != nil || !slices.Equal(got, keys) {
		t.Errorf("the order is %q, %v; want %q", got, err, keys)
	}
}

func TestPostgresHeadersComeBackByteForByte(t *testing.T) {
	t.Parallel()
	b := setup(t)
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for name, header := range map[string]map[string][]string{
		"nil":       nil,
		"empty":     {},
		"cookies":   {"Set-Cookie": {"a=1, b", "a=2; c", ""}, "Vary": {"A, B"}},
		"no values": {"X-None": {}, "X-Nil": nil},
		"all bytes": {string(every): {string(every), "né", "\xff\xfe"}},
	} {
		a := attempt(name)
		won, err := b.Keys().InTx(t.Context(), a, func(context.Context, pgx.Tx) (idempotency.Response, error) {
			return idempotency.Response{Status: 200, Header: header, Body: every}, nil
		})
		if err != nil || !won.Won {
			t.Fatalf("%s: %+v, %v", name, won, err)
		}
		rec, err := b.Keys().Find(t.Context(), "acme", name)
		if err != nil {
			t.Fatal(err)
		}
		if got := rec.Response.Header; !maps.EqualFunc(got, header, slices.Equal) || (got == nil) != (header == nil) {
			t.Errorf("%s: got %q, want %q", name, got, header)
		}
		if string(rec.Response.Body) != string(every) {
			t.Errorf("%s: the body is %q", name, rec.Response.Body)
		}
	}
	// What is plain can be read by an operator.
	got := one[string](t, b.pool, `select convert_from(header, 'UTF8')::jsonb -> 'Set-Cookie' ->> 1 from fifty.keys where key = 'cookies'`)
	if got != "a=2; c" {
		t.Errorf("in SQL: %q", got)
	}
}

// everyMode is each way in which pgx can send a statement. A pooler in transaction mode wants one of the
// last two.
var everyMode = []pgx.QueryExecMode{
	pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
	pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
}

func TestPostgresEveryQueryExecModeWorks(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t).Database(t)
	for _, mode := range everyMode {
		t.Run(mode.String(), func(t *testing.T) {
			pool := newPool(t, url, func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode })
			b := withEffects(t, bundle{migrated(t, postgres.New(pool, postgres.Config{})), url, pool})
			keys := idempotency.NewTx(b.Keys(), idempotency.Config{})
			scope, runs := mode.String(), 0
			req := func(key string) idempotency.Request {
				r := request(key)
				r.Scope = scope
				return r
			}
			for i := range 2 { // the first has nothing prepared
				if res, err := keys.InTx(t.Context(), req("in tx"), charge(&runs)); err != nil || res.Replayed != (i > 0) || string(res.Body) != "1" {
					t.Fatalf("InTx: %+v, %v", res, err)
				}
				err := b.Txns().Transact(t.Context(), txn.Options{}, func(ctx context.Context, tx pgx.Tx) error {
					res, err := keys.DoTx(ctx, tx, req("do tx"), charge(&runs))
					if err != nil || res.Replayed != (i > 0) {
						t.Errorf("DoTx: %+v, %v", res, err)
					}
					res, err = keys.DoTx(ctx, tx, req("refused"), func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
						if _, err := charge(&runs)(ctx, tx); err != nil {
							return idempotency.Response{}, err
						}
						_, _ = tx.Exec(ctx, `select 1 / 0`) // the transaction has failed
						return idempotency.Response{}, idempotency.Refuse(idempotency.Response{Status: 402})
					})
					if err != nil || res.Status != 402 {
						t.Errorf("refused: %+v, %v", res, err)
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				if res, err := keys.Do(t.Context(), req("do"), func(context.Context) (idempotency.Response, error) { return created("2"), nil }); err != nil || res.Replayed != (i > 0) {
					t.Fatalf("Do: %+v, %v", res, err)
				}
			}
			if runs != 3 {
				t.Errorf("the functions ran %d times, want 3", runs)
			}
			everythingElseWorks(t, b, scope)
		})
	}
}

// everythingElseWorks makes the calls beside those of a claim and its completion, twice each.
func everythingElseWorks(t *testing.T, b bundle, scope string) {
	t.Helper()
	k, ctx := b.Keys(), t.Context()
	for i := range 2 {
		a := timed(fmt.Sprint("steps", i), 0)
		a.Request.Scope, a.Resume = scope, true
		won := claim(t, k, a)
		saveStep(t, k, won, "charge")
		if err := complete(t, k, idempotency.Completion{Claim: claimOf(won.Record), State: idempotency.InFlight}); err != nil {
			t.Error(err)
		}
		all, err := k.List(ctx, idempotency.Filter{Scope: scope, Unresolved: true, OlderThan: time.Microsecond, Limit: 10})
		if err != nil || len(all) != 1 || stepNames(all[0]) != "charge" {
			t.Errorf("List: %+v, %v", all, err)
		}
		r := answered(a.Request.Key, "by hand")
		r.Scope = scope
		if err := k.Resolve(ctx, r); err != nil {
			t.Errorf("Resolve: %v", err)
		}
		if log, err := k.Audit(ctx, scope, a.Request.Key); err != nil || len(log) != 1 {
			t.Errorf("Audit: %+v, %v", log, err)
		}
		if n, err := k.Erase(ctx, scope, 1); n != 1 || err != nil {
			t.Errorf("Erase: %d, %v", n, err)
		}
		if n, err := k.Sweep(ctx, 0, 30*day, 1); n != 1 || err != nil {
			t.Errorf("Sweep: %d, %v", n, err)
		}
	}
}

// At these levels a duplicate is told by a serialization failure, which only says to look again.
func TestPostgresStricterDefaultIsolationWorks(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			b := withEffects(t, setup(t))
			pool := newPool(t, b.url, func(c *pgxpool.Config) {
				c.ConnConfig.RuntimeParams["default_transaction_isolation"] = level
			})
			s := postgres.New(pool, postgres.Config{})
			migrated(t, s)

			// Another decides the key after the transaction has its snapshot.
			runs, stolen := 0, attempt("k")
			got, err := s.Keys().InTx(t.Context(), attempt("k"), func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
				b.exec(t, `insert into fifty.keys (scope, key, fingerprint, state, token, attempt, owner, body)
					values ('acme', 'k', $1, 2, 1, $2, 'other', 'theirs')`, []byte(stolen.Request.Fingerprint), stolen.ID)
				return charge(&runs)(ctx, tx)
			})
			switch {
			case err == nil && !got.Won && string(got.Record.Response.Body) == "theirs":
			case err != nil && s.Keys().Classify(err) == txn.Retryable:
			default:
				t.Errorf("%+v, %v, class %v", got, err, s.Keys().Classify(err))
			}
			if n := one[int](t, b.pool, `select count(*) from effects`); n != 0 || runs != 1 {
				t.Errorf("%d effects after %d runs", n, runs)
			}

			// A claim whose statement finds a row that its snapshot does not know.
			if all, err := s.Keys().Claim(t.Context(), []idempotency.Attempt{attempt("k")}); err != nil || all[0].Won {
				t.Errorf("%+v, %v", all, err)
			}
		})
	}
}

// The advisory lock only saves a wait. Here it is of no use: the other row comes from elsewhere.
func TestPostgresUniqueIndexIsTheGuardOfInTx(t *testing.T) {
	t.Parallel()
	b := withEffects(t, setup(t))
	runs := 0
	got, err := b.Keys().InTx(t.Context(), attempt("k"), func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
		other := attempt("k")
		b.exec(t, `insert into fifty.keys (scope, key, fingerprint, state, token, attempt, owner, body)
			values ('acme', 'k', $1, 2, 1, $2, 'other', 'theirs')`, []byte(other.Request.Fingerprint), other.ID)
		return charge(&runs)(ctx, tx)
	})
	if err != nil || got.Won || string(got.Record.Response.Body) != "theirs" {
		t.Fatalf("%+v, %v", got, err)
	}
	if n := one[int](t, b.pool, `select count(*) from effects`); n != 0 || runs != 1 {
		t.Fatalf("%d effects after %d runs", n, runs)
	}
}

func TestPostgresFreeKeyIsAnsweredOverWithAHigherToken(t *testing.T) {
	t.Parallel()
	b := withEffects(t, setup(t))
	won := claim(t, b.Keys(), attempt("k"))
	if err := complete(t, b.Keys(), idempotency.Completion{Claim: claimOf(won.Record), State: idempotency.Free}); err != nil {
		t.Fatal(err)
	}
	runs := 0
	a := attempt("k")
	a.Request.Fingerprint = idempotency.FingerprintOf("another intent")
	got, err := b.Keys().InTx(t.Context(), a, func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
		if runs == 0 { // another takes the key and gives it back, meanwhile
			b.exec(t, `update fifty.keys set token = token + 1`)
		}
		return charge(&runs)(ctx, tx)
	})
	if err != nil || !got.Won || got.Record.Token != 3 || runs != 2 {
		t.Fatalf("%+v, %v after %d runs", got, err, runs)
	}
	rec, err := b.Keys().Find(t.Context(), "acme", "k")
	if err != nil || rec.State != idempotency.Done || rec.Token != 3 || rec.Attempt != a.ID || rec.Request != a.Request || string(rec.Response.Body) != "1" {
		t.Fatalf("%+v, %v", rec, err)
	}
	if n := one[int](t, b.pool, `select count(*) from effects`); n != 1 {
		t.Fatalf("%d effects", n)
	}
}

func TestPostgresSecretIsMadeOnceForAllHosts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const hosts = 8
	secrets := make(chan string, hosts)
	for range hosts {
		go func() {
			secret, err := b.Secret(t.Context(), "cookies")
			if err != nil {
				t.Error(err)
			}
			secrets <- string(secret)
		}()
	}
	first := <-secrets
	for range hosts - 1 {
		if s := <-secrets; s != first {
			t.Fatal("two hosts have two secrets")
		}
	}
	overSQL, err := postgres.NewDB(newDB(t, b.url), postgres.Config{}).Secret(t.Context(), "cookies")
	if err != nil || string(overSQL) != first || len(first) != 32 {
		t.Fatalf("%d bytes, %v", len(first), err)
	}
	if other, err := b.Secret(t.Context(), "Cookies"); err != nil || string(other) == first {
		t.Fatalf("another name has the same secret, %v", err)
	}
	if _, err := b.Secret(t.Context(), ""); !errors.Is(err, fifty.ErrInvalid) {
		t.Fatalf("no name: %v", err)
	}
}

func TestPostgresCheckNamesWhatLosesAnswers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if warnings, err := b.Check(t.Context()); err != nil || len(warnings) != 0 {
		t.Fatalf("%q, %v", warnings, err)
	}
	hasty := newPool(t, b.url, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["synchronous_commit"] = "off" })
	if warnings, err := postgres.New(hasty, postgres.Config{}).Check(t.Context()); err != nil || len(warnings) != 1 {
		t.Fatalf("%q, %v", warnings, err)
	}
}

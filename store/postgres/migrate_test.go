package postgres_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/internal/testenv"
	"github.com/fiftyhosts/fifty/store/postgres"
)

func TestPostgresFiftyHostsMigrateAtOnce(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t).Database(t)
	const hosts, perPool = 50, 5
	errs := make([]error, hosts)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range hosts / perPool {
		s := postgres.New(newPool(t, url), postgres.Config{})
		if i%2 == 1 {
			// Fifty hosts on both drivers meet at the same lock.
			db := postgres.NewDB(newDB(t, url), postgres.Config{})
			for j := range perPool {
				wg.Go(func() { <-start; errs[i*perPool+j] = db.Migrate(t.Context()) })
			}
			continue
		}
		for j := range perPool {
			wg.Go(func() { <-start; errs[i*perPool+j] = s.Migrate(t.Context()) })
		}
	}
	close(start)
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	pool := newPool(t, url)
	if n, newest := one[int](t, pool, `select count(*) from fifty.migrations`), postgres.Newest(); n != newest {
		t.Errorf("%d migrations are recorded, want %d", n, newest)
	}
}

func TestPostgresMigrateAgainDoesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const state = `select string_agg(version || ' ' || applied, ',' order by version) from fifty.migrations`
	before := one[string](t, b.pool, state)
	migrated(t, b.Store)
	if after := one[string](t, b.pool, state); after != before {
		t.Errorf("migrations were %s, and now are %s", before, after)
	}
}

// as is url with another user, who may log in.
func as(t *testing.T, b bundle, user string) string {
	t.Helper()
	b.exec(t, `create role `+user+` login password 'secret'`)
	t.Cleanup(func() {
		_, _ = b.pool.Exec(context.Background(), `drop owned by `+user+` cascade`)
		_, _ = b.pool.Exec(context.Background(), `drop role `+user)
	})
	u, err := url.Parse(b.url)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(user, "secret")
	return u.String()
}

func TestPostgresRoleThatCanCreateNothingRunsOnMigratedTables(t *testing.T) {
	t.Parallel()
	b := setup(t)
	u := as(t, b, "app_of_migrated_tables")
	b.exec(t, `grant usage on schema fifty to app_of_migrated_tables`)
	b.exec(t, `grant select, insert, update, delete on all tables in schema fifty to app_of_migrated_tables`)
	b.exec(t, `grant select, update on all sequences in schema fifty to app_of_migrated_tables`)
	s := migrated(t, postgres.New(newPool(t, u), postgres.Config{}))
	got := claim(t, s.Keys(), attempt("k"))
	if !got.Won {
		t.Errorf("%+v", got)
	}
	saveStep(t, s.Keys(), got, "charge")
	if err := complete(t, s.Keys(), idempotency.Completion{Claim: claimOf(got.Record), State: idempotency.Free}); err != nil {
		t.Error(err)
	}
	if n, err := s.Keys().Sweep(t.Context(), 0, 0, 10); n != 1 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
	err := s.Keys().Resolve(t.Context(), idempotency.Resolution{Scope: "acme", Key: "k", By: "ana", Note: "why"})
	if !errors.Is(err, idempotency.ErrNotFound) {
		t.Errorf("resolved: %v", err)
	}
}

func TestPostgresRoleThatOwnsTheSchemaOnlyMigratesIt(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t).Database(t)
	b := bundle{url: url, pool: newPool(t, url)}
	u := as(t, b, "owner_of_the_schema")
	b.exec(t, `create schema fifty authorization owner_of_the_schema`)
	migrated(t, postgres.New(newPool(t, u), postgres.Config{}))
}

func TestPostgresMigrateWithoutAnyRightSaysSo(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t).Database(t)
	b := bundle{url: url, pool: newPool(t, url)}
	u := as(t, b, "without_any_right")
	err := postgres.New(newPool(t, u), postgres.Config{}).Migrate(t.Context())
	if err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Fatalf("%v", err)
	}
	if one[bool](t, b.pool, `select to_regnamespace('fifty') is not null`) {
		t.Error("the schema is there")
	}
}

func TestPostgresTablesOfANewerProgramAreLeftAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	newest := postgres.Newest()
	b.exec(t, `insert into fifty.migrations (version, name, oldest) values ($1, 'of a newer program', 1)`, newest+1)
	migrated(t, b.Store)
	if got := claim(t, b.Keys(), attempt("k")); !got.Won {
		t.Errorf("%+v", got)
	}
	b.exec(t, `insert into fifty.migrations (version, name, oldest) values ($1, 'that takes something away', $1)`, newest+2)
	err := b.Migrate(t.Context())
	tooNew, ok := errors.AsType[*postgres.SchemaTooNewError](err)
	if !ok || !errors.Is(err, postgres.ErrSchemaTooNew) || *tooNew != (postgres.SchemaTooNewError{Found: newest + 2, Oldest: newest + 2, Known: newest}) {
		t.Fatalf("%v", err)
	}
}

func TestPostgresMigrationThatFailsLeavesNothingOfItself(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t).Database(t)
	b := bundle{url: url, pool: newPool(t, url)}
	b.exec(t, `create schema fifty`)
	b.exec(t, `create table fifty.secrets ()`) // in the way of the second migration
	s := postgres.New(b.pool, postgres.Config{})
	if err := s.Migrate(t.Context()); err == nil {
		t.Fatal("it went through")
	}
	if n := one[int](t, b.pool, `select max(version) from fifty.migrations`); n != 1 {
		t.Fatalf("version %d is recorded, want 1", n)
	}
	b.exec(t, `drop table fifty.secrets`)
	migrated(t, s)
}

func TestPostgresWrittenMigrationsAreWhatMigrateDoes(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	if err := postgres.WriteMigrations(&text, postgres.Config{Schema: "elsewhere"}); err != nil {
		t.Fatal(err)
	}
	const columns = `
		select string_agg(concat_ws(' ', table_name, column_name, data_type, collation_name, is_nullable, column_default), E'\n'
		                  order by table_name, column_name)
		from information_schema.columns where table_schema = 'elsewhere'`
	const indexes = `select string_agg(indexdef, E'\n' order by indexdef) from pg_indexes where schemaname = 'elsewhere'`
	shape := func(b bundle) string {
		return one[string](t, b.pool, columns) + one[string](t, b.pool, indexes) +
			one[string](t, b.pool, `select string_agg(concat_ws(' ', version, name, oldest), ',' order by version) from elsewhere.migrations`)
	}

	url := testenv.Postgres(t).Database(t)
	written := bundle{url: url, pool: newPool(t, url)}
	written.exec(t, text.String())
	url = testenv.Postgres(t).Database(t)
	ours := bundle{url: url, pool: newPool(t, url)}
	migrated(t, postgres.New(ours.pool, postgres.Config{Schema: "elsewhere"}))
	if a, b := shape(written), shape(ours); a != b {
		t.Errorf("written:\n%s\n\nmigrated:\n%s", a, b)
	}
	migrated(t, postgres.New(written.pool, postgres.Config{Schema: "elsewhere"}))
}

func TestPostgresWrongConfigIsNamedByEveryCall(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{"Fifty", "1st", "a-b", `a"; drop schema public; --`, "pg_fifty", strings.Repeat("a", 64), "é"} {
		cfg := postgres.Config{Schema: schema}
		s := postgres.New(newPool(t, "postgres://localhost:1/none"), cfg)
		_, findErr := s.Keys().Find(t.Context(), "s", "k")
		_, claimErr := s.Keys().ClaimTx(t.Context(), pgx.Tx(nil), attempt("k"))
		for _, err := range []error{s.Migrate(t.Context()), findErr, claimErr, postgres.WriteMigrations(new(strings.Builder), cfg)} {
			if invalid, ok := errors.AsType[*fifty.InvalidError](err); !ok || invalid.Field != "Config.Schema" {
				t.Errorf("%q: %v", schema, err)
			}
		}
	}
	if err := (postgres.Config{IdleMax: -1}).Validate(); !errors.Is(err, fifty.ErrInvalid) {
		t.Errorf("IdleMax: %v", err)
	}
}

func TestPostgresTwoSchemasShareNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other := migrated(t, postgres.New(b.pool, postgres.Config{Schema: "other"}))
	for _, s := range []*postgres.Store[pgx.Tx]{b.Store, other} {
		if got := claim(t, s.Keys(), attempt("k")); !got.Won {
			t.Errorf("%+v", got)
		}
	}
}

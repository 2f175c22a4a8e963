package server

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/internal/testenv"
	"github.com/fiftyhosts/fifty/store/memory"
	"github.com/fiftyhosts/fifty/store/sqlite"
)

// ring makes one of keys, each of which is its ID and a letter that its bytes are made of.
func ring(t testing.TB, keys ...string) *idempotency.Ring {
	t.Helper()
	all := make([]idempotency.SealingKey, len(keys))
	for i, k := range keys {
		id, letter, _ := strings.Cut(k, "=")
		all[i] = idempotency.SealingKey{ID: id, Key: bytes.Repeat([]byte(letter), 32)}
	}
	r, err := idempotency.NewRing(all...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// startSealed serves an upstream with a ring.
func startSealed(t testing.TB, up *upstream, keys idempotency.Store, seal *idempotency.Ring) *gate {
	t.Helper()
	return startGateWith(t, up.URL, nil, GatewayConfig{Keys: keys, Seal: seal})
}

// TestAWrongRingIsNamedAndRunsNothing: each answer tells which key is missing or wrong, and so does the log; with
// the right ring it is there.
func TestAWrongRingIsNamedAndRunsNothing(t *testing.T) {
	up := startUpstream(t, created)
	keys := memory.New(memory.Config{}).Keys()
	startSealed(t, up, keys, ring(t, "2025=a")).send(t, http.MethodPost, "/charges", "k1", "{}")
	for name, seal := range map[string]*idempotency.Ring{"another key": ring(t, "2026=b"), "other bytes": ring(t, "2025=b"), "no ring": nil} {
		g := startSealed(t, up, keys, seal)
		a := g.send(t, http.MethodPost, "/charges", "k1", "{}")
		wantProblem(t, a, http.StatusServiceUnavailable, "answer-sealed")
		if !strings.Contains(a.body, `\"2025\"`) || strings.Contains(a.body, "charged") {
			t.Errorf("%s: the answer says %s", name, a.body)
		}
		if lines := g.log.with("replay_failed"); len(lines) != 1 || !strings.Contains(fmt.Sprint(lines[0]["error"]), `"2025"`) {
			t.Errorf("%s: the log says %v", name, lines)
		}
	}
	if a := startSealed(t, up, keys, ring(t, "2026=b", "2025=a")).send(t, http.MethodPost, "/charges", "k1", "{}"); a.body != "charged" || !a.replayed() {
		t.Errorf("with the right ring it got %+v", a)
	}
	wantEffects(t, up, 1)
}

// TestWhileTheStoreFailsNothingRuns: requests of all kinds get a clear answer; when it is back, each key runs
// once.
func TestWhileTheStoreFailsNothingRuns(t *testing.T) {
	for _, unknown := range []UnknownRule{UnknownHold, UnknownRetry} {
		t.Run(string(unknown), func(t *testing.T) {
			up := startUpstream(t, created)
			store := &failing{Store: memory.New(memory.Config{}).Keys()}
			g := startGateOn(t, up.URL, store, func(r *Route) {
				retrying(r)
				r.Unknown, r.Duplicate = unknown, DuplicateAccepted
			})
			store.claims.Store(true)
			var group sync.WaitGroup
			for i := range 10 {
				group.Go(func() {
					for range 3 {
						a, err := g.try(t.Context(), http.MethodPost, "/charges", fmt.Sprintf("k%d", i), "{}")
						if err != nil || a.status != http.StatusServiceUnavailable || a.problem() != "store-unavailable" || a.header.Get("Retry-After") == "" {
							t.Errorf("got %+v, %v", a, err)
						}
					}
				})
			}
			group.Wait()
			wantEffects(t, up, 0)
			store.claims.Store(false)
			for i := range 10 {
				for again := range 2 {
					a := g.send(t, http.MethodPost, "/charges", fmt.Sprintf("k%d", i), "{}")
					if a.status != http.StatusCreated || a.replayed() != (again == 1) {
						t.Errorf("got %+v", a)
					}
				}
			}
			wantEffects(t, up, 10)
		})
	}
}

func exec(t testing.TB, db, sql string) {
	t.Helper()
	cfg, err := pgx.ParseConfig(db)
	if err != nil {
		t.Fatal(err)
	}
	cfg.RuntimeParams["default_transaction_read_only"] = "off" // whatever the test has made of it
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

func TestAPostgresSchemaThatIsTooNewStopsTheStart(t *testing.T) {
	db := testenv.Postgres(t).Database(t)
	migrated(t, db)
	// One that only adds is no hindrance: the older program goes on, during a rolling upgrade.
	exec(t, db, `insert into fifty.migrations (version, name, oldest) values (98, 'adds', 1)`)
	serve(t, ServeConfig{DB: db})
	exec(t, db, `insert into fifty.migrations (version, name, oldest) values (99, 'changes', 99)`)
	s, _ := begin(t, ServeConfig{DB: db})
	if err := <-s.result; err == nil || !strings.Contains(err.Error(), "needs a program that knows version 99") || !strings.Contains(err.Error(), "deploy a newer one") {
		t.Errorf("it ended with %v", err)
	}
}

func TestASQLiteFileThatIsTooNewStopsTheStart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "fifty.db")
	store, err := sqlite.Open(t.Context(), file, sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	if err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := store.DB().ExecContext(t.Context(), `insert into fifty_migrations (version, name, oldest) values (99, 'changes', 99)`); err != nil {
		t.Fatal(err)
	}
	s, _ := begin(t, ServeConfig{DB: "sqlite://" + file})
	if err := <-s.result; err == nil || !strings.Contains(err.Error(), "needs a program that knows version 99") {
		t.Errorf("it ended with %v", err)
	}
}

func TestAReadOnlyPostgresRunsNothing(t *testing.T) {
	db := testenv.Postgres(t).Database(t)
	readOnly(t, db, "on")
	s, _ := begin(t, ServeConfig{DB: db})
	if err := <-s.result; err == nil || !strings.Contains(err.Error(), "takes no writes") || !strings.Contains(err.Error(), "connect to the primary") {
		t.Errorf("without tables it ended with %v", err)
	}
	readOnly(t, db, "off")
	migrated(t, db)
	readOnly(t, db, "on")
	b, err := OpenBackend(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	up := startUpstream(t, created)
	// A claim whose reply is late is looked after in the background, for a lease: a short one, so that no test
	// has to wait for it.
	g := startGateWith(t, up.URL, func(r *Route) { r.Lease = 50 * time.Millisecond }, GatewayConfig{Keys: b.Keys, StoreMax: time.Second})
	wantProblem(t, g.send(t, http.MethodPost, "/charges", "k1", "{}"), http.StatusServiceUnavailable, "store-unavailable")
	wantEffects(t, up, 0)
}

func readOnly(t testing.TB, db, how string) {
	t.Helper()
	exec(t, db, `do $$ begin execute format('alter database %I set default_transaction_read_only = `+how+`', current_database()); end $$`)
}

// migrated brings a database's tables up to date.
func migrated(t testing.TB, db string) {
	t.Helper()
	b, err := OpenBackend(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	if err := b.migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
}

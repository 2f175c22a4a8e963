package sandbox_test

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/fiftyhosts/fifty/internal/testenv"
	"github.com/fiftyhosts/fifty/server/sandbox"
	"github.com/fiftyhosts/fifty/store/postgres"
)

// sqliteDB opens a file as the SQLite store does: many connections, and writers that wait for each other.
func sqliteDB(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_txlock=immediate")
	return opened(t, db, err)
}

func opened(t testing.TB, db *sql.DB, err error) *sql.DB {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func newSQL(t testing.TB, db *sql.DB, dialect sandbox.Dialect) *sandbox.SQL {
	t.Helper()
	ledger, err := sandbox.NewSQL(t.Context(), db, dialect)
	if err != nil {
		t.Fatal(err)
	}
	return ledger
}

func TestMemoryLedger(t *testing.T) {
	t.Parallel()
	testLedger(t, sandbox.NewMemory())
}

func TestSQLiteLedger(t *testing.T) {
	t.Parallel()
	db := sqliteDB(t, filepath.Join(t.TempDir(), "ledger.db"))
	testLedger(t, newSQL(t, db, sandbox.SQLite))
}

func TestPostgresLedger(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("pgx", testenv.Postgres(t).Database(t))
	testLedger(t, newSQL(t, opened(t, db, err), sandbox.Postgres))
}

func TestSQLiteLedgerIsMadeByManyHostsAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	testManyHosts(t, sandbox.SQLite, func() *sql.DB { return sqliteDB(t, path) })
}

func TestPostgresLedgerIsMadeByManyHostsAtOnce(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t).Database(t)
	testManyHosts(t, sandbox.Postgres, func() *sql.DB {
		db, err := sql.Open("pgx", url)
		return opened(t, db, err)
	})
}

// The ledger and the keys live in one schema, and whichever comes first makes it.
func TestPostgresLedgerIsMadeWhileTheStoreMigrates(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t).Database(t)
	start := make(chan struct{})
	var group sync.WaitGroup
	for n := range 8 {
		db, err := sql.Open("pgx", url)
		opened(t, db, err)
		group.Go(func() {
			<-start
			var err error
			if n%2 == 0 {
				_, err = sandbox.NewSQL(t.Context(), db, sandbox.Postgres)
			} else {
				err = postgres.NewDB(db, postgres.Config{}).Migrate(t.Context())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	close(start)
	group.Wait()
}

func TestALedgerOfNoDialectIsRefused(t *testing.T) {
	t.Parallel()
	if _, err := sandbox.NewSQL(t.Context(), nil, 0); err == nil {
		t.Fatal("dialect 0 was taken")
	}
}

func charge(n int, account string) sandbox.Charge {
	return sandbox.Charge{
		ID: fmt.Sprintf("ch_%03d", n), Account: account, Amount: int64(n), Currency: "EUR",
		Created: time.UnixMicro(1_800_000_000_123_456 + int64(n)).UTC(),
	}
}

// testLedger books five charges of two accounts and reads them in every way.
func testLedger(t *testing.T, ledger sandbox.Ledger) {
	ctx := t.Context()
	var all []sandbox.Charge
	for n := 1; n <= 5; n++ {
		c := charge(n, []string{"alice", "Alice"}[n%2]) // 2 and 4 are alice's
		if err := ledger.Add(ctx, c); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	c, err := ledger.Find(ctx, "ch_003")
	if err != nil || !reflect.DeepEqual(c, all[2]) {
		t.Errorf("Find gave %+v, %v; want %+v", c, err, all[2])
	}
	if _, err := ledger.Find(ctx, "ch_none"); !errors.Is(err, sandbox.ErrNotFound) {
		t.Errorf("Find of no charge gave %v", err)
	}
	if _, err := ledger.List(ctx, sandbox.Query{After: "ch_none"}); !errors.Is(err, sandbox.ErrNotFound) {
		t.Errorf("List after no charge gave %v", err)
	}
	for _, tt := range []struct {
		q    sandbox.Query
		want []sandbox.Charge
	}{
		{sandbox.Query{}, all},
		{sandbox.Query{Limit: 2}, all[:2]},
		{sandbox.Query{Limit: 2, After: "ch_002"}, all[2:4]},
		{sandbox.Query{After: "ch_005"}, nil},
		{sandbox.Query{Account: "alice"}, []sandbox.Charge{all[1], all[3]}},
		{sandbox.Query{Account: "alice", After: "ch_002", Limit: 1}, []sandbox.Charge{all[3]}},
		{sandbox.Query{Account: "nobody"}, nil},
	} {
		got, err := ledger.List(ctx, tt.q)
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("List(%+v) gave %+v, %v; want %+v", tt.q, got, err, tt.want)
		}
	}
}

// testManyHosts makes and writes the ledger from eight connections of their own at the same moment.
func testManyHosts(t *testing.T, dialect sandbox.Dialect, open func() *sql.DB) {
	const hosts = 8
	start := make(chan struct{})
	var group sync.WaitGroup
	for n := range hosts {
		db := open()
		group.Go(func() {
			<-start
			ledger, err := sandbox.NewSQL(t.Context(), db, dialect)
			if err == nil {
				err = ledger.Add(t.Context(), charge(n+1, "alice"))
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	close(start)
	group.Wait()
	all, err := newSQL(t, open(), dialect).List(t.Context(), sandbox.Query{})
	if err != nil || len(all) != hosts {
		t.Fatalf("the ledger has %d charges, %v; want %d", len(all), err, hosts)
	}
}

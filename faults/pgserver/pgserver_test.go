//go:build linux || darwin

package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// waitMax bounds each wait in these tests; a wait that gets there has failed.
const waitMax = 30 * time.Second

func TestMain(m *testing.M) {
	if how := os.Getenv(childVariable); how != "" {
		child(how)
	}
	os.Exit(m.Run())
}

// connect opens a connection that ends with the test.
func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func exec1(t *testing.T, conn *pgx.Conn, statement string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func count(t *testing.T, conn *pgx.Conn, query string) int {
	t.Helper()
	var n int
	if err := conn.QueryRow(t.Context(), query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// recorder is a test that writes down how it failed.
type recorder struct {
	testing.TB
	failure string
	skipped bool
}

func (r *recorder) Helper() {}
func (r *recorder) Fatalf(format string, args ...any) {
	r.failure = fmt.Sprintf(format, args...)
	runtime.Goexit()
}
func (r *recorder) Skip(...any)          { r.skipped = true; runtime.Goexit() }
func (r *recorder) Skipf(string, ...any) { r.skipped = true; runtime.Goexit() }
func (r *recorder) SkipNow()             { r.skipped = true; runtime.Goexit() }

// record runs f as a test of its own would be run.
func record(t *testing.T, f func(testing.TB)) *recorder {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(r)
	}()
	<-done
	return r
}

func TestEachDatabaseIsEmptyAndApart(t *testing.T) {
	t.Parallel()
	server := Shared(t)
	one, other := connect(t, server.Database(t)), connect(t, server.Database(t))
	exec1(t, one, "CREATE TABLE seen (id int)")
	if n := count(t, other, "SELECT count(*) FROM pg_tables WHERE tablename = 'seen'"); n != 0 {
		t.Errorf("a table made in one database is in the other")
	}
}

func TestSharedServerIsOneForAllTests(t *testing.T) {
	t.Parallel()
	if first, second := Shared(t), Shared(t); first != second {
		t.Errorf("two calls gave two servers, at %s and at %s", first.Addr(), second.Addr())
	}
}

func TestDatabaseOfTheSharedServerIsDroppedAfterItsTest(t *testing.T) {
	t.Parallel()
	server := Shared(t)
	var name string
	t.Run("user", func(t *testing.T) {
		conn := connect(t, server.Database(t))
		name = conn.Config().Database
	})
	admin := connect(t, server.URL())
	if n := count(t, admin, "SELECT count(*) FROM pg_database WHERE datname = '"+name+"'"); n != 0 {
		t.Errorf("database %s is still there", name)
	}
}

func TestOpenConnectionsDoNotKeepADatabaseAlive(t *testing.T) {
	t.Parallel()
	server := Shared(t)
	var left *pgx.Conn
	t.Run("user that forgets to close", func(t *testing.T) {
		var err error
		if left, err = pgx.Connect(t.Context(), server.Database(t)); err != nil {
			t.Fatal(err)
		}
	})
	t.Cleanup(func() { _ = left.Close(context.Background()) })
	if err := left.Ping(t.Context()); err == nil {
		t.Error("a connection to a dropped database still works")
	}
}

func TestSharedServerRefusesToBeKilled(t *testing.T) {
	t.Parallel()
	server := Shared(t)
	for name, act := range map[string]func(){
		"Kill": server.Kill, "Stop": server.Stop, "Start": server.Start,
		"Restart": server.Restart, "Pause": server.Pause, "Resume": server.Resume,
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s did not refuse", name)
				}
			}()
			act()
		}()
	}
	connect(t, server.Database(t))
}

func TestPasswordIsAskedFor(t *testing.T) {
	t.Parallel()
	server := Shared(t)
	config, err := pgx.ParseConfig(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	config.Password = "a guess"
	if _, err := pgx.ConnectConfig(t.Context(), config); err == nil {
		t.Error("a stranger on this machine got in as superuser")
	}
}

func TestMissingPostgresFailsTheTestAndSaysWhatToInstall(t *testing.T) {
	t.Setenv(BinVariable, t.TempDir())
	r := record(t, func(tb testing.TB) { New(tb) })
	if r.skipped {
		t.Error("the test was skipped")
	}
	if !strings.Contains(r.failure, "no initdb in") {
		t.Errorf("the failure was %q", r.failure)
	}
}

func TestPostgresNowhereToBeFoundSaysWhatToInstall(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv(BinVariable, "")
	_, err := find([]string{t.TempDir() + "/*/bin"})
	if !errors.Is(err, ErrNotFound) {
		t.Fatalf("got %v", err)
	}
	for _, hint := range []string{"apt-get install postgresql", "brew install postgresql", BinVariable} {
		if !strings.Contains(err.Error(), hint) {
			t.Errorf("the message has no %q:\n%v", hint, err)
		}
	}
}

func TestNewestPostgresIsPreferredAndAnOldOneRefused(t *testing.T) {
	root := t.TempDir()
	for version, says := range map[string]string{"9": "9.6.24", "16": "16.3", "17": "17.2"} {
		bin := root + "/" + version + "/bin"
		if err := os.MkdirAll(bin, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, program := range []string{"initdb", "postgres"} {
			script := "#!/bin/sh\necho 'postgres (PostgreSQL) " + says + "'\n"
			if err := os.WriteFile(bin+"/"+program, []byte(script), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	// No initdb in PATH, but the shell's own echo is all that the scripts need.
	t.Setenv("PATH", t.TempDir())
	t.Setenv(BinVariable, "")
	found, err := find([]string{root + "/*/bin"})
	if err != nil || !strings.HasSuffix(found.folder, "/17/bin") {
		t.Errorf("found %+v, %v", found, err)
	}
	t.Setenv(BinVariable, root+"/9/bin")
	if _, err := find(nil); err == nil || !strings.Contains(err.Error(), "14 or newer") {
		t.Errorf("an old version gave %v", err)
	}
}

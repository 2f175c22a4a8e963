//go:build linux || darwin

package pgserver

import (
	"context"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fiftyhosts/fifty/faults/internal/keeper"
)

func TestKilledServerIsDownAndThenHasWhatWasCommitted(t *testing.T) {
	t.Parallel()
	server := New(t)
	url := server.Database(t)
	before := connect(t, url)
	exec1(t, before, "CREATE TABLE charge (id int)")
	exec1(t, before, "INSERT INTO charge VALUES (1)")
	exec1(t, before, "BEGIN")
	exec1(t, before, "INSERT INTO charge VALUES (2)")

	server.Kill()
	if err := before.Ping(t.Context()); err == nil {
		t.Error("a connection outlived its server")
	}
	if _, err := pgx.Connect(t.Context(), url); err == nil {
		t.Error("a killed server took a connection")
	}

	server.Start()
	if n := count(t, connect(t, url), "SELECT count(*) FROM charge"); n != 1 {
		t.Errorf("%d charges after the crash, want the one that was committed", n)
	}
	if !strings.Contains(server.Log(), "not properly shut down") {
		t.Error("the server did not notice that it had crashed: it was not killed")
	}
}

func TestStoppedServerNeedsNoRecovery(t *testing.T) {
	t.Parallel()
	server := New(t)
	url := server.Database(t)
	exec1(t, connect(t, url), "CREATE TABLE charge (id int)")
	server.Restart()
	if n := count(t, connect(t, url), "SELECT count(*) FROM charge"); n != 0 {
		t.Errorf("%d rows in an empty table", n)
	}
	if strings.Contains(server.Log(), "not properly shut down") {
		t.Error("an orderly stop looked like a crash")
	}
}

func TestServerCanBeKilledAgainAndAgain(t *testing.T) {
	t.Parallel()
	server := New(t)
	addr := server.Addr()
	for range 2 {
		server.Kill()
		server.Kill() // a dead one stays dead
		server.Start()
		connect(t, server.Database(t))
	}
	server.Stop()
	server.Stop()
	server.Start()
	if server.Addr() != addr {
		t.Errorf("the address changed from %s to %s", addr, server.Addr())
	}
	connect(t, server.Database(t))
}

// TestPausedServerFreezesAsAWholeAndGoesOn asks each process of the server.
func TestPausedServerFreezesAsAWholeAndGoesOn(t *testing.T) {
	t.Parallel()
	server := New(t)
	conn := connect(t, server.Database(t))
	server.Pause()
	for _, p := range serverProcesses(t, server) {
		if p.Runs() {
			t.Errorf("process %d of the server runs on (%c)", p.PID, p.State)
		}
	}
	answer := make(chan error, 1)
	go func() {
		_, err := conn.Exec(context.Background(), "SELECT 1")
		answer <- err
	}()
	// The kernel completes the handshake of a frozen server, so this says only
	// that the address is still held.
	tcp, err := net.Dial("tcp", server.Addr())
	if err != nil {
		t.Errorf("the listener of a frozen server is gone: %v", err)
	} else {
		_ = tcp.Close()
	}
	select {
	case err := <-answer:
		t.Fatalf("a frozen server answered: %v", err)
	default:
	}
	server.Resume()
	select {
	case err := <-answer:
		if err != nil {
			t.Errorf("the question asked during the pause was lost: %v", err)
		}
	case <-time.After(waitMax):
		t.Fatal("no answer after the pause")
	}
}

func TestPausedServerCanBeKilled(t *testing.T) {
	t.Parallel()
	server := New(t)
	server.Pause()
	server.Kill()
	server.Start()
	connect(t, server.Database(t))
}

func TestPausedServerSaysThatItCanNotStop(t *testing.T) {
	t.Parallel()
	r := record(t, func(tb testing.TB) {
		server := New(tb)
		server.Pause()
		server.Stop()
	})
	if !strings.Contains(r.failure, "Resume or Kill it first") {
		t.Errorf("the failure was %q", r.failure)
	}
}

// serverProcesses lists the server's main process and all below it.
func serverProcesses(t *testing.T, server *Server) []keeper.Process {
	t.Helper()
	all, err := keeper.Processes()
	if err != nil {
		t.Fatal(err)
	}
	below, err := keeper.Descendants(server.PID())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if p.PID == server.PID() {
			below = append(below, p)
		}
	}
	if len(below) < 3 {
		t.Fatalf("found only %d processes of a Postgres server", len(below))
	}
	return below
}

func TestSettingsReachTheServer(t *testing.T) {
	t.Parallel()
	server := New(t, "wal_level=logical", "max_connections=40")
	conn := connect(t, server.URL())
	for setting, want := range map[string]string{
		"wal_level": "logical", "max_connections": "40", "fsync": "on", "synchronous_commit": "on",
		"server_encoding": "UTF8", "listen_addresses": "127.0.0.1",
	} {
		var got string
		if err := conn.QueryRow(t.Context(), "SHOW "+setting).Scan(&got); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%s is %s, want %s", setting, got, want)
		}
	}
}

func TestBadSettingFailsWithTheServersOwnWords(t *testing.T) {
	t.Parallel()
	r := record(t, func(tb testing.TB) { New(tb, "wal_level=nonsense") })
	if !strings.Contains(r.failure, "did not start") || !strings.Contains(r.failure, "nonsense") {
		t.Errorf("the failure was %q", r.failure)
	}
}

func TestTakenPortLeadsToTheNextOne(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	server := New(t)
	server.Stop()
	ports := []int{taken.Addr().(*net.TCPAddr).Port, server.port}
	err = server.startOnOneOf(func() (int, error) {
		port := ports[0]
		ports = ports[1:]
		return port, nil
	})
	if err != nil || len(ports) != 0 {
		t.Fatalf("%v, with %v left", err, ports)
	}
	connect(t, server.Database(t))
}

// TestManyServersStartAtOnceWithoutACache has no template at first; each server
// makes its own, and one of them stays for the next.
func TestManyServersStartAtOnceWithoutACache(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // Linux
	t.Setenv("HOME", t.TempDir())           // macOS
	var all sync.WaitGroup
	servers := make(chan *Server, 3)
	for range cap(servers) {
		all.Go(func() {
			server, err := launch(options{})
			if err != nil {
				t.Error(err)
				return
			}
			servers <- server
		})
	}
	all.Wait()
	close(servers)
	for server := range servers {
		if err := server.admin("SELECT 1"); err != nil {
			t.Error(err)
		}
		if err := server.kept.Close(); err != nil {
			t.Error(err)
		}
	}
	programs, err := find(usualPlaces)
	if err != nil {
		t.Fatal(err)
	}
	who, err := keeper.ServerOwner()
	if err != nil {
		t.Fatal(err)
	}
	kept := templateFor(programs, who)
	if _, err := os.Stat(string(kept) + "/data/PG_VERSION"); err != nil {
		t.Errorf("no template was kept: %v", err)
	}
	leftovers, err := os.ReadDir(string(kept) + "/..")
	if err != nil || len(leftovers) != 1 {
		t.Errorf("beside the template lies more: %v, %v", leftovers, err)
	}
}

func TestBrokenTemplateIsThrownAway(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	programs, err := find(usualPlaces)
	if err != nil {
		t.Fatal(err)
	}
	who, err := keeper.ServerOwner()
	if err != nil {
		t.Fatal(err)
	}
	broken := string(templateFor(programs, who))
	if err := os.MkdirAll(broken+"/data", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(broken+"/password", []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := launch(options{}); err == nil {
		t.Fatal("a server started from an empty folder")
	}
	server, err := launch(options{})
	if err != nil {
		t.Fatalf("the second start: %v", err)
	}
	if err := server.kept.Close(); err != nil {
		t.Error(err)
	}
}

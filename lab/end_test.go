package lab

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/faults/hosts"
)

// waitMax bounds each wait of these tests; a wait that gets there has failed.
const waitMax = 30 * time.Second

// gone fails the test if one of the processes is still there.
func gone(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d is still there: %v", pid, err)
		}
	}
}

func pidsOf(s *Stage) (pids []int) {
	for _, h := range s.Hosts {
		pids = append(pids, h.proc.PID())
	}
	return pids
}

func testDeadHost(t *testing.T, where testPlace) {
	cfg := testConfig("check-then-act")
	cfg.DB = where.url
	var pids []int
	cfg.staged = func(s *Stage) {
		pids = pidsOf(s)
		if err := syscall.Kill(pids[1], syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	}
	_, err := Play(t.Context(), cfg)
	dead, ok := errors.AsType[*HostError](err)
	if !ok || dead.Host != "host 2" || dead.PID != pids[1] {
		t.Fatalf("the error is %v", err)
	}
	if text := err.Error(); !strings.Contains(text, "host 2 (process") || !strings.Contains(text, "killed by a signal") || !strings.Contains(text, "run it again") {
		t.Errorf("it says %q", text)
	}
	gone(t, pids)
	if left := where.left(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestAHostThatDiesEndsTheRunAndIsNamed(t *testing.T) {
	t.Parallel()
	testDeadHost(t, sqlitePlace(t))
}

func TestAHostThatDiesEndsTheRunAndIsNamedOnPostgres(t *testing.T) {
	t.Parallel()
	testDeadHost(t, postgresPlace(t))
}

func TestAHostThatCanNotBeginSaysWhy(t *testing.T) {
	t.Parallel()
	where := sqlitePlace(t)
	cfg := testConfig("check-then-act")
	cfg.DB, cfg.HostCommand = where.url, []string{"/bin/sh", "-c", "echo no idea what to do >&2"}
	_, err := Play(t.Context(), cfg)
	if _, ok := errors.AsType[*HostError](err); !ok || !strings.Contains(err.Error(), "it said: no idea what to do") {
		t.Errorf("the error is %v", err)
	}
	cfg.HostCommand = []string{filepath.Join(t.TempDir(), "absent")}
	if _, err = Play(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "the hosts can't be started") {
		t.Errorf("the error is %v", err)
	}
	if left := where.left(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func testInterrupt(t *testing.T, where testPlace) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("somebody pressed a key")
	cfg := testConfig("window-too-small")
	cfg.DB = where.url
	var pids []int
	cfg.staged = func(s *Stage) {
		pids = pidsOf(s)
		cancel(why)
	}
	if _, err := Play(ctx, cfg); err != why { //nolint:errorlint // as it is, so that the caller knows that nothing is left
		t.Errorf("the error is %v", err)
	}
	gone(t, pids)
	if left := where.left(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestAnInterruptedRunLeavesNothing(t *testing.T) {
	t.Parallel()
	testInterrupt(t, sqlitePlace(t))
}

func TestAnInterruptedRunLeavesNothingOnPostgres(t *testing.T) {
	t.Parallel()
	testInterrupt(t, postgresPlace(t))
}

// killedConductor kills -9 a conductor in the middle of a run, and returns when its hosts have ended.
func killedConductor(t *testing.T, db string) {
	t.Helper()
	line, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer line.Close()
	command := testConfig().HostCommand
	conductor, err := hosts.Start(hosts.Config{
		Path: command[0], Args: []string{conductorArg, db}, Env: append(os.Environ(), lineEnv+"="+line.Addr().String()),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := conductor.Kill(); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), waitMax)
	defer cancel()
	var calls []net.Conn
	for range 3 {
		conn, err := line.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		calls = append(calls, conn)
	}
	if _, err := conductor.WaitFor(ctx, "staged"); err != nil {
		t.Fatal(err)
	}
	if err := conductor.Kill(); err != nil {
		t.Fatal(err)
	}
	for i, conn := range calls {
		if err := conn.SetReadDeadline(time.Now().Add(waitMax)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("host %d outlives its conductor: %v", i+1, err)
		} else if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("host %d: %v", i+1, err)
		}
	}
}

func TestHostsEndWithAKilledConductorAndTheNextStartTidies(t *testing.T) {
	t.Parallel()
	where := sqlitePlace(t)
	killedConductor(t, where.url)
	left := where.left(t)
	if len(left) != 1 || !strings.HasPrefix(left[0], folderPrefix) {
		t.Fatalf("a killed conductor left %v, want its folder", left)
	}
	folder := filepath.Join(filepath.Dir(strings.TrimPrefix(where.url, "sqlite://")), left[0])

	play(t, testPlace{where.url, func(*testing.T) []string { return nil }}, testConfig("check-then-act"))
	if left := where.left(t); len(left) != 1 {
		t.Errorf("a young folder may be one that is just being made, and it is gone: %v", left)
	}
	old := time.Now().Add(-2 * youngMax)
	if err := os.Chtimes(filepath.Join(folder, lockName), old, old); err != nil {
		t.Fatal(err)
	}
	play(t, where, testConfig("check-then-act")) // it fails when something is left
}

func TestAFolderWhoseOwnerLivesIsNoLeftover(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	mine, err := newFolder(parent, "")
	if err != nil {
		t.Fatal(err)
	}
	lock := filepath.Join(mine.(*folder).path, lockName)
	old := time.Now().Add(-2 * youngMax)
	if err := os.Chtimes(lock, old, old); err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{folderPrefix + "file", folderPrefix + "without-lock/data"} {
		path := filepath.Join(parent, other)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tidyFolders(parent)
	entries, err := os.ReadDir(parent)
	if err != nil || len(entries) != 3 {
		t.Errorf("%v, %v: what is somebody's, or nobody knows whose, was taken away", entries, err)
	}
	if err := mine.close(); err != nil {
		t.Error(err)
	}
}

func TestASchemaOfAKilledConductorGoesWithTheNextStartOnPostgres(t *testing.T) {
	t.Parallel()
	where := postgresPlace(t)
	killedConductor(t, where.url)
	left := where.left(t)
	if len(left) != 1 || !isOurs(left[0]) {
		t.Fatalf("a killed conductor left %v, want its schema", left)
	}
	// The server lets go of the lock when it sees the end of the connection, which is soon. Each start looks.
	ctx, cancel := context.WithTimeout(t.Context(), waitMax)
	defer cancel()
	for len(where.left(t)) > 0 && ctx.Err() == nil {
		next, err := openPlace(ctx, where.url, 3)
		if err != nil {
			t.Fatal(err)
		}
		if err := next.close(); err != nil {
			t.Fatal(err)
		}
	}
	if left := where.left(t); len(left) > 0 {
		t.Errorf("still there: %v", left)
	}
}

func TestASchemaWhoseOwnerLivesIsNoLeftoverOnPostgres(t *testing.T) {
	t.Parallel()
	where := postgresPlace(t)
	mine, err := openPlace(t.Context(), where.url, 3)
	if err != nil {
		t.Fatal(err)
	}
	w, err := mine.fresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	other, err := openPlace(t.Context(), where.url, 3)
	if err != nil {
		t.Fatal(err)
	}
	if left := where.left(t); len(left) != 1 || left[0] != w.Schema {
		t.Errorf("a start took a schema in use away: %v", left)
	}
	for _, err := range []error{other.close(), mine.drop(t.Context(), w), mine.close()} {
		if err != nil {
			t.Error(err)
		}
	}
}

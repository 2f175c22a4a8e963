//go:build linux || darwin

package pgserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/faults/internal/keeper"
)

func TestSkewedServerHasItsClock(t *testing.T) {
	t.Parallel()
	for _, skew := range []time.Duration{4 * time.Hour, -4 * time.Hour} {
		server := NewSkewed(t, skew)
		if ahead := server.Ahead(t); (ahead - skew).Abs() > clockSlack {
			t.Errorf("the server is ahead by %v, want %v", ahead, skew)
		}
		var spread float64 // a backend forked later, and the time of a transaction
		conn := connect(t, server.URL())
		if err := conn.QueryRow(t.Context(), "SELECT extract(epoch FROM clock_timestamp() - now())").Scan(&spread); err != nil {
			t.Fatal(err)
		}
		if spread < 0 || spread > time.Minute.Seconds() {
			t.Errorf("at %v, clock_timestamp() is %v s after now()", skew, spread)
		}
	}
}

func TestServerOfTheHostsClockIsNotAhead(t *testing.T) {
	t.Parallel()
	if ahead := Shared(t).Ahead(t); ahead.Abs() > clockSlack {
		t.Errorf("the server is ahead by %v", ahead)
	}
}

func TestClockCanBeMovedWhileTheServerRunsAndOverACrash(t *testing.T) {
	t.Parallel()
	server := NewSkewed(t, 0)
	conn := connect(t, server.URL()) // a backend that lives through the steps
	now := func() (at time.Time) {
		t.Helper()
		if err := conn.QueryRow(t.Context(), "SELECT clock_timestamp()").Scan(&at); err != nil {
			t.Fatal(err)
		}
		return at
	}
	for _, skew := range []time.Duration{time.Hour, -time.Hour, 0} {
		server.SetClock(skew)
		if off := time.Until(now()) - skew; off.Abs() > time.Minute {
			t.Errorf("an open connection's clock is %v from %v", off, skew)
		}
	}
	server.Kill()
	server.SetClock(2 * time.Hour)
	server.Start()
	if ahead := server.Ahead(t); (ahead - 2*time.Hour).Abs() > clockSlack {
		t.Errorf("after a crash the server is ahead by %v, want 2h", ahead)
	}
}

func TestOnlyASkewedServersClockCanBeMoved(t *testing.T) {
	t.Parallel()
	r := record(t, func(tb testing.TB) { New(tb).SetClock(time.Hour) })
	if !strings.Contains(r.failure, "NewSkewed") {
		t.Errorf("the failure was %q", r.failure)
	}
}

func TestKilledSkewedServerLeavesNoMemoryBehind(t *testing.T) {
	t.Parallel()
	server := NewSkewed(t, time.Hour)
	pid := server.PID()
	server.Kill()
	left, err := filepath.Glob("/dev/shm/*faketime*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range left {
		if strings.HasSuffix(name, fmt.Sprint("_", pid)) {
			t.Errorf("%s is left", name)
		}
	}
}

func TestMissingFaketimeFailsTheTestAndSaysWhatToInstall(t *testing.T) {
	t.Setenv(FaketimeVariable, t.TempDir()+"/absent.so")
	r := record(t, func(tb testing.TB) { NewSkewed(tb, time.Hour) })
	if r.skipped || !strings.Contains(r.failure, "absent.so") {
		t.Errorf("skipped %t, failed with %q", r.skipped, r.failure)
	}
	t.Setenv(FaketimeVariable, "")
	_, err := keeper.FindFaketime([]string{t.TempDir() + "/*.so"})
	if !errors.Is(err, ErrNoFaketime) || !strings.Contains(err.Error(), "apt-get install faketime") || !strings.Contains(err.Error(), FaketimeVariable) {
		t.Errorf("got %v", err)
	}
}

func TestLibraryThatMovesNoClockIsNoticed(t *testing.T) {
	library := filepath.Join(t.TempDir(), "empty.so") // the loader says so, and goes on without it
	if err := os.WriteFile(library, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv(FaketimeVariable, library)
	r := record(t, func(tb testing.TB) { NewSkewed(tb, time.Hour) })
	if !strings.Contains(r.failure, "and not by 1h0m0s") {
		t.Errorf("the failure was %q", r.failure)
	}
}

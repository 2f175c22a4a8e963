//go:build linux || darwin

package pgserver

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fiftyhosts/fifty/faults/internal/keeper"
)

// FaketimeVariable names libfaketime's library, which is then the only one looked at.
const FaketimeVariable = keeper.FaketimeVariable

// clockSlack is how far a server's clock may be from what it was set to: libfaketime takes whole seconds.
const clockSlack = 2 * time.Second

// ErrNoFaketime is returned when libfaketime is not found. Its message says what to install.
var ErrNoFaketime = keeper.ErrNoFaketime

// NewSkewed is [New] with a clock that is ahead of the host's by skew, in whole seconds; negative is behind. It
// fails the test where libfaketime is missing, with what to install, and where the server's clock is then not
// where it should be.
//
// Statements, transactions, the log and all that SQL can see have the skewed time. Durations are true: sleeps,
// and time-outs on a clock that is behind. On a clock that is ahead of the host's, Postgres's own time-outs
// (statement_timeout, lock_timeout, deadlock_timeout, idle_in_transaction_session_timeout) never strike, for
// libfaketime shows the true time to signal handlers: don't test those on such a server.
func NewSkewed(tb TB, skew time.Duration, settings ...string) *Server {
	tb.Helper()
	library, err := FindFaketime()
	if err != nil {
		tb.Fatalf("pgserver: %v", err)
	}
	return own(tb, options{settings: settings, clock: &keeper.Clock{Library: library, Skew: skew}})
}

// SetClock moves the clock of a server of [NewSkewed], while it runs or is down: from now on it is ahead of the
// host's by skew, in whole seconds. It returns when statements see that.
func (s *Server) SetClock(skew time.Duration) {
	tb := s.mayBreak("have another clock")
	tb.Helper()
	if s.with.clock == nil {
		tb.Fatalf("pgserver: only a server of NewSkewed can have another clock")
	}
	s.with.clock.Skew = skew
	if _, err := s.with.clock.Set(s.kept.Folder, s.owner); err != nil {
		tb.Fatalf("pgserver: set the clock: %v", err)
	}
	if s.pid == 0 || s.paused {
		return
	}
	if err := s.checkClock(); err != nil {
		tb.Fatalf("pgserver: %v", err)
	}
}

// Ahead measures how far the server's clock, as a statement sees it, is ahead of this process's. A test that
// needs a skew asserts it first. Safe for concurrent use.
func (s *Server) Ahead(tb TB) time.Duration {
	tb.Helper()
	low, high, err := s.ahead()
	if err != nil {
		tb.Fatalf("pgserver: ask for the time: %v", err)
	}
	return (low + high) / 2
}

// ahead returns the bounds of the skew.
func (s *Server) ahead() (low, high time.Duration, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), adminMax)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.URL())
	if err != nil {
		return 0, 0, err
	}
	defer conn.Close(ctx)
	before := time.Now()
	var at time.Time
	if err := conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&at); err != nil {
		return 0, 0, err
	}
	return at.Sub(time.Now().Round(0)), at.Sub(before.Round(0)), nil
}

// checkClock fails when the clock is not where it was set.
func (s *Server) checkClock() error {
	if s.with.clock == nil {
		return nil
	}
	low, high, err := s.ahead()
	if err != nil {
		return fmt.Errorf("ask for the time: %w", err)
	}
	if want := s.with.clock.Skew; low-clockSlack > want || want > high+clockSlack {
		return fmt.Errorf("the server's clock is ahead by %v and not by %v: does %s work with this Postgres?", high, want, s.with.clock.Library)
	}
	return nil
}

// FindFaketime returns the path of libfaketime's library: that named by FIFTY_FAKETIME_LIB, else the first in
// the usual places. The error wraps [ErrNoFaketime] when there is none.
func FindFaketime() (library string, err error) { return keeper.FindFaketime(keeper.FaketimePlaces) }

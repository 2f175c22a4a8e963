//go:build linux || darwin

package testenv

import (
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/faults/pgserver"
)

// A Server is a Postgres server that belongs to this test process.
type Server = pgserver.Server

// Postgres is [pgserver.Shared], for a test that says so in its name (see [Variable]).
func Postgres(tb testing.TB) *Server {
	tb.Helper()
	mayUse(tb, "Postgres")
	return pgserver.Shared(tb)
}

// NewPostgres is [pgserver.New], for a test that says so in its name.
func NewPostgres(tb testing.TB, settings ...string) *Server {
	tb.Helper()
	mayUse(tb, "Postgres")
	return pgserver.New(tb, settings...)
}

// NewSkewedPostgres is [pgserver.NewSkewed], for a test that says so in its name.
func NewSkewedPostgres(tb testing.TB, skew time.Duration, settings ...string) *Server {
	tb.Helper()
	mayUse(tb, "Postgres")
	return pgserver.NewSkewed(tb, skew, settings...)
}

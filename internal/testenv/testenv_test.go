//go:build linux || darwin

package testenv

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

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

func TestServersAreRefusedWhereTheCallerLeftThemOut(t *testing.T) {
	t.Setenv(Variable, "none")
	for name, ask := range map[string]func(testing.TB){
		"Postgres":          func(tb testing.TB) { Postgres(tb) },
		"NewPostgres":       func(tb testing.TB) { NewPostgres(tb) },
		"NewSkewedPostgres": func(tb testing.TB) { NewSkewedPostgres(tb, time.Hour) },
		"Tool":              func(tb testing.TB) { Tool(tb, "stripe-mock") },
	} {
		r := record(t, ask)
		if r.skipped || !strings.Contains(r.failure, "says so in its name") {
			t.Errorf("%s: skipped %t, failed with %q", name, r.skipped, r.failure)
		}
	}
}

func TestPostgresServersAreRealOnes(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"Postgres": Postgres(t).Database(t), "NewPostgres": NewPostgres(t).URL()} {
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := conn.Close(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

//go:build linux || darwin

package testenv

import (
	"os"
	"testing"
)

// Variable is the name of an environment variable. When it is none, every test
// fails that asks for a server or a tool. make check sets it, and leaves out by name the tests that need one: a
// test that calls [Postgres] or [NewPostgres] has Postgres in its name (or in its
// package's path), one that calls [Tool] has Stripe. So a test under another name
// is found out on every machine, not only on one without Postgres.
const Variable = "FIFTY_TESTENV"

func mayUse(tb testing.TB, name string) {
	tb.Helper()
	if os.Getenv(Variable) == "none" {
		tb.Fatalf("testenv: %s=none, as make check sets it: a test that needs this says so in its name, which must have %q in it", Variable, name)
	}
}

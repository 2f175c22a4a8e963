package idempotencytest

import (
	"testing"

	"github.com/fiftyhosts/fifty/idempotency"
)

// Catch runs the cases of Run against a store that is broken on purpose, and returns the names of the
// cases that failed, in order: none means that the fault went unnoticed. Their failures are logged on t
// and don't fail it. With only, just the cases of these names run; a name that is none fails t.
func Catch(t *testing.T, newStore func(tb testing.TB, hook Hook) idempotency.Store, f Features, only ...string) []string {
	t.Helper()
	return catch(t, cases(newStore), f, only)
}

// CatchTx is Catch for the cases of RunTx.
func CatchTx[Tx any](t *testing.T, newTx func(tb testing.TB, hook Hook) TxHarness[Tx], f Features, only ...string) []string {
	t.Helper()
	return catch(t, txCases(newTx), f, only)
}

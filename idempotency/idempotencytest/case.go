package idempotencytest

import (
	"testing"

	"github.com/fiftyhosts/fifty/idempotency"
)

// testCase is one claim of the contract.
type testCase struct {
	name string
}

func cases(func(tb testing.TB, hook Hook) idempotency.Store) []testCase { return nil }

func txCases[Tx any](func(tb testing.TB, hook Hook) TxHarness[Tx]) []testCase { return nil }

func run(t *testing.T, all []testCase, f Features) { t.Helper() }

func catch(t *testing.T, all []testCase, f Features, only []string) []string { return nil }

package idempotencytest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/faults/history"
	"github.com/fiftyhosts/fifty/faults/interleave"
	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/idempotency/idempotencytest"
)

// keyRaces is a case of some clients that work on one key of a reference with a fault, at random.
func keyRaces(t *testing.T, f fault) func(seed uint64) interleave.Case {
	const clients, calls = 3, 9
	dir := t.TempDir()
	return func(seed uint64) interleave.Case {
		b := newBench(patient)
		store := newReference(interleave.Point, b, f)
		rec := history.NewRecorder[idempotencytest.KeyCall, idempotencytest.KeyAnswer](nil)
		now := func() int64 { return b.read().UnixNano() }
		request := idempotency.Request{Scope: "acme", Key: "key", Fingerprint: idempotency.FingerprintOf("POST", "/charges", "the body")}
		var c interleave.Case
		for client := range clients {
			w := &idempotencytest.KeyWork{
				Rand: rand.New(rand.NewPCG(seed, uint64(client))), Name: fmt.Sprint("client", client), Request: request,
				Store:  idempotencytest.Recorded(store, rec, client, now),
				Leases: []time.Duration{time.Second, time.Minute}, Pass: func() { b.advance(time.Second) },
			}
			c.Callers = append(c.Callers, func(ctx context.Context) { w.Run(ctx, calls) })
		}
		c.Check = func() error {
			h, err := rec.History()
			if err == nil {
				_, err = history.Check(h, history.Config{Model: idempotencytest.KeyModel(0), Dir: dir, Name: t.Name()})
			}
			return err
		}
		return c
	}
}

func TestTheModelAllowsWhatARightStoreDoes(t *testing.T) {
	opts := interleave.Options{Runs: 400, Test: t.Name(), Grace: patient}
	report, err := interleave.Sample(t.Context(), opts, keyRaces(t, none))
	if err != nil {
		t.Fatal(err)
	}
	t.Log(report)
}

// foundBy are the faults of which random clients show the model at least one history in some seeds. The others
// are caught where every order is run, or by a case of one caller; that "a takeover does not compare the token"
// does not show in a hundred random runs is why a short random run proves little.
var foundBy = []fault{
	readThenInsert, claimAfterWork, inFlightAbsent, unknownAbsent, expiredTaken, unresumableTaken, unresumableTakes,
	freeClosed, mineForgotten, takesBlindly, tokenKept, tokenRestarts, oldAttemptKept, zeroIsLive,
	renewsAnyToken, renewsAnyState, renewRevives, completesBlindly, completesAnyToken, completesAnyAttempt,
	completesAnyState, lateRefused, stepsLostByTakeover, stepAnyState, letGoIgnored,
	resolvesLive, resolvesUnknownOnly, resolveKeepsToken, resolveKeepsAttempt,
}

// seedsOf is how many seeds each fault gets.
const seedsOf = 50

// rate runs a case under seedsOf seeds and says under how many it went wrong, and under which first.
func rate(t *testing.T, newCase func(seed uint64) interleave.Case) (caught int, first uint64) {
	t.Helper()
	for seed := range uint64(seedsOf) {
		_, err := interleave.Sample(t.Context(), interleave.Options{Runs: 1, Seed: seed, Grace: patient}, newCase)
		if _, ok := errors.AsType[*interleave.Failure](err); !ok && err != nil {
			t.Fatal(err)
		} else if !ok {
			continue
		}
		if !errors.Is(err, history.ErrIllegal) {
			t.Fatalf("went wrong otherwise: %v", err)
		}
		if caught == 0 {
			first = seed
		}
		caught++
	}
	return caught, first
}

func TestTheModelFindsPlantedFaultsAtRandom(t *testing.T) {
	for _, f := range foundBy {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			caught, first := rate(t, keyRaces(t, f))
			if caught == 0 {
				t.Errorf("%d seeds did not show it", seedsOf)
			}
			t.Logf("%s: shown by %d of %d seeds, first by %d", f, caught, seedsOf, first)
		})
	}
}

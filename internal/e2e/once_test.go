package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/fiftyhosts/fifty/internal/testenv"
	"github.com/fiftyhosts/fifty/server/sandbox"
)

// The size of the main promise: each key is sent sendsPerKey times at the same moment.
const (
	keyCount    = 500
	sendsPerKey = 8
	keysAtOnce  = 12
)

func TestOneServeOnSQLiteChargesOnceForEachKey(t *testing.T) {
	testChargesOnce(t, startServes(t, sqliteURL(t), 1)...)
}

func TestTwoServesOnOnePostgresChargeOnceForEachKey(t *testing.T) {
	testChargesOnce(t, startServes(t, testenv.Postgres(t).Database(t), 2)...)
}

// testChargesOnce sends every key from sendsPerKey callers at once, spread over the gateways.
func testChargesOnce(t *testing.T, gateways ...string) {
	keys := make(chan charge)
	answers := make(chan sandbox.Charge, keyCount)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var group sync.WaitGroup
	for range keysAtOnce {
		group.Go(func() {
			for c := range keys {
				one, err := sendAtOnce(ctx, c, gateways)
				if err != nil {
					t.Errorf("key %s: %v", c.key, err)
					cancel() // one failure says enough
					return
				}
				answers <- one.charge(t)
			}
		})
	}
	for n := 1; n <= keyCount && ctx.Err() == nil; n++ {
		select {
		case keys <- charge{key: fmt.Sprintf("intent-%d", n), account: "alice", amount: n}:
		case <-ctx.Done():
		}
	}
	close(keys)
	group.Wait()
	close(answers)
	if t.Failed() {
		return
	}

	answered := map[string]sandbox.Charge{}
	for c := range answers {
		answered[c.ID] = c
	}
	booked := ledger(t, gateways[0], "alice")
	if len(booked) != keyCount || len(answered) != keyCount {
		t.Fatalf("%d charges are booked and %d were answered, want %d", len(booked), len(answered), keyCount)
	}
	for _, c := range booked {
		if answered[c.ID] != c {
			t.Errorf("booked is %+v, answered was %+v", c, answered[c.ID])
		}
	}
}

// sendAtOnce lets sendsPerKey callers send c at the same moment and insist on an answer. All must get the
// same one; it is returned.
func sendAtOnce(ctx context.Context, c charge, gateways []string) (answer, error) {
	answers := make([]answer, sendsPerKey)
	errs := make([]error, sendsPerKey)
	start := make(chan struct{})
	var group sync.WaitGroup
	for i := range sendsPerKey {
		group.Go(func() {
			<-start
			answers[i], errs[i] = c.insist(ctx, gateways[i%len(gateways)])
		})
	}
	close(start)
	group.Wait()

	first, originals := answers[0], 0
	for i, a := range answers {
		switch {
		case errs[i] != nil:
			return a, errs[i]
		case a.status != http.StatusCreated || !sameAnswer(a, first):
			return a, fmt.Errorf("caller 0 got %v, caller %d got %v", first, i, a)
		case a.header.Get(replayedHeader) == "":
			originals++
		case a.header.Get(replayedHeader) != "true":
			return a, fmt.Errorf("the mark of a replay is wrong: %v", a)
		}
	}
	if originals != 1 {
		return first, fmt.Errorf("%d answers were not marked as replays, want 1", originals)
	}
	return first, nil
}

// sameAnswer says whether two callers were told the same, as far as the service told it.
func sameAnswer(a, b answer) bool {
	if a.status != b.status || !bytes.Equal(a.body, b.body) {
		return false
	}
	for _, name := range []string{"Content-Type", "Location"} {
		if !slices.Equal(a.header.Values(name), b.header.Values(name)) {
			return false
		}
	}
	return true
}

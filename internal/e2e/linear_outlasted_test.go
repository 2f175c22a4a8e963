package e2e

import (
	"errors"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/faults/history"
	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/idempotency/idempotencytest"
)

// TestClaimWonAndLostWithinOneCallIsExplained: b's takeover is seen by another, has expired and has gone to c
// before b's own caller is told anything. Only a call that outlasted its own lease is explained so.
func TestClaimWonAndLostWithinOneCallIsExplained(t *testing.T) {
	t.Parallel()
	const short, long = 200 * time.Millisecond, time.Minute
	record := func(token int64, attempt string) idempotencytest.KeyRecord {
		return idempotencytest.KeyRecord{State: idempotency.InFlight, Token: token, Attempt: attempt, Fingerprint: "01", Resume: true}
	}
	call := func(client int, from, to time.Duration, in idempotencytest.KeyCall, told string, rec idempotencytest.KeyRecord) history.Operation[idempotencytest.KeyCall, idempotencytest.KeyAnswer] {
		in.At, in.Fingerprint, in.Resume = int64(from), "01", true
		return history.Operation[idempotencytest.KeyCall, idempotencytest.KeyAnswer]{
			Client: client, Key: "key", Call: int64(from), Return: int64(to), Input: in,
			Output: idempotencytest.KeyAnswer{Told: told, At: int64(to), Record: rec},
		}
	}
	claim := func(attempt string, lease time.Duration) idempotencytest.KeyCall {
		return idempotencytest.KeyCall{Do: "claim", Attempt: attempt, Lease: lease}
	}
	const ms = time.Millisecond
	for leaseOfB, explained := range map[time.Duration]bool{short: true, long: false} {
		h := idempotencytest.KeyHistory{Clock: "of this test"}
		h.Operations = append(h.Operations,
			call(0, 1*ms, 10*ms, claim("a", short), "won", record(1, "a")),
			call(1, 300*ms, 900*ms, claim("b", leaseOfB), "lost", record(3, "c")),
			call(2, 320*ms, 330*ms, idempotencytest.KeyCall{Do: "find"}, "found", record(2, "b")),
			call(3, 700*ms, 710*ms, claim("c", long), "won", record(3, "c")),
		)
		check := func(again map[string]bool) error {
			_, err := history.Check(withOutlasted(h, again), history.Config{Model: idempotencytest.KeyModel(0), Dir: t.TempDir()})
			return err
		}
		if err := check(nil); !errors.Is(err, history.ErrIllegal) {
			t.Errorf("lease of %v: with one moment for each call: %v, want it illegal", leaseOfB, err)
		}
		if err := check(map[string]bool{"key": true}); (err == nil) != explained {
			t.Errorf("lease of %v: explained is %v, want %v", leaseOfB, err, explained)
		}
	}
}

package idempotency

import (
	"fmt"
	"testing"
	"time"
)

func TestTheSameRequestUnderManyKeysIsASign(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	a := NewPerAttempt(func() time.Time { return now })
	req := func(scope, fingerprint, key string) Request {
		return Request{Scope: scope, Fingerprint: Fingerprint(fingerprint), Key: key}
	}
	for i, c := range []struct {
		req        Request
		after      time.Duration
		sign, warn bool
	}{
		{req("alice", "f", "1"), 0, false, false},
		{req("alice", "f", "1"), 0, false, false}, // a retry as it should be
		{req("alice", "f", "2"), 0, false, false},
		{req("alice", "g", "3"), 0, false, false}, // another request
		{req("bob", "f", "3"), 0, false, false},   // another caller
		{req("alice", "f", "3"), 0, true, true},
		{req("alice", "f", "4"), 0, true, false}, // told once
		{req("alice", "f", "3"), 0, false, false},
		{req("alice", "f", "5"), intentWindow + 1, false, false}, // long after: another intent
		{req("alice", "f", "6"), 0, false, false},
		{req("alice", "f", "7"), 0, true, false},
		{req("bob", "f", "4"), 0, false, false},
	} {
		now = now.Add(c.after)
		if sign, warn := a.See(c.req); sign != c.sign || warn != c.warn {
			t.Errorf("step %d, %v: sign %v, warn %v; want %v, %v", i, c.req, sign, warn, c.sign, c.warn)
		}
	}
}

func TestWhatIsRememberedOfAttemptsIsBounded(t *testing.T) {
	a := NewPerAttempt(nil)
	for i := range intentsMax + 10 {
		for key := range intentKeysMin + 2 {
			a.See(Request{Scope: fmt.Sprint(i), Fingerprint: "f", Key: fmt.Sprint(key)})
		}
	}
	if len(a.intents) != intentsMax || a.recent.Len() != intentsMax || len(a.warned) != warnedScopesMax {
		t.Errorf("remembered are %d intents in a list of %d, and %d callers", len(a.intents), a.recent.Len(), len(a.warned))
	}
	for _, e := range a.intents {
		if n := len(e.Value.(*intent).keys); n > intentKeysMin {
			t.Fatalf("%d keys of one intent", n)
		}
	}
}

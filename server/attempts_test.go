package server

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
)

func TestTheSameRequestUnderManyKeysIsASign(t *testing.T) {
	now := at
	a := newAttempts(func() time.Time { return now })
	req := func(scope, fingerprint, key string) idempotency.Request {
		return idempotency.Request{Scope: scope, Fingerprint: idempotency.Fingerprint(fingerprint), Key: key}
	}
	for i, c := range []struct {
		req        idempotency.Request
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
		if sign, warn := a.see(c.req); sign != c.sign || warn != c.warn {
			t.Errorf("step %d, %v: sign %v, warn %v; want %v, %v", i, c.req, sign, warn, c.sign, c.warn)
		}
	}
}

func TestWhatIsRememberedOfAttemptsIsBounded(t *testing.T) {
	a := newAttempts(func() time.Time { return at })
	for i := range intentsMax + 10 {
		for key := range intentKeysMin + 2 {
			a.see(idempotency.Request{Scope: fmt.Sprint(i), Fingerprint: "f", Key: fmt.Sprint(key)})
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

func TestAClientThatMakesAKeyPerAttemptIsNamedOnce(t *testing.T) {
	up := startUpstream(t, created)
	g := startGate(t, up.URL, nil)
	for i := range 5 {
		g.send(t, http.MethodPost, "/charges", fmt.Sprint("key-", i), "{}", "User-Agent", "shop/1")
	}
	told := g.log.with("under several keys")
	if len(told) != 1 || told[0]["user_agent"] != "shop/1" || told[0]["scope"] != `constant:"all"` {
		t.Errorf("told: %v", told)
	}
	if n := g.metric(t, `fifty_key_per_attempt_total{route="/"}`); n != 3 {
		t.Errorf("%v are counted, want 3", n)
	}
	wantEffects(t, up, 5) // it is a sign, not a proof
}

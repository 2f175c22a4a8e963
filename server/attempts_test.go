package server

import (
	"fmt"
	"net/http"
	"testing"
)

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

package e2e

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// look asks for the status of a request, as the given caller.
func look(tb testing.TB, base, path, caller string) answer {
	tb.Helper()
	a, err := request(tb.Context(), http.MethodGet, base+path, map[string]string{"Authorization": caller}, "")
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

// TestStatusURLIsOneTenantsOwn: a duplicate of a request at work is told where to look, by any gateway. There
// its caller sees how it stands and then the answer; to another caller the URL is that of a key that nobody
// used, and looking runs nothing.
func TestStatusURLIsOneTenantsOwn(t *testing.T) {
	t.Parallel()
	database := sqliteURL(t)
	service := startSandbox(t, "memory:")
	upstream, open := newGate(t, service.url)
	gateway := startRoute(t, upstream.url, database, "duplicate: accepted")
	other := startRoute(t, upstream.url, database, "duplicate: accepted")
	c := charge{key: "order-1", account: "alice", amount: 1200}
	got := make(chan answer, 1)
	go func() {
		a, err := c.send(t.Context(), gateway.url)
		if err != nil {
			t.Errorf("the caller got %v", err)
		}
		got <- a
	}()
	upstream.waitForPost(t)

	again := c.mustSend(t, other.url)
	status := again.header.Get("Location")
	if again.status != http.StatusAccepted || status == "" {
		t.Fatalf("a duplicate got %v, want 202 and where to look", again)
	}
	if a := look(t, gateway.url, status, credential); a.status != http.StatusAccepted || a.header.Get("Retry-After") == "" {
		t.Errorf("while it is at work, its caller sees %v", a)
	}
	const mallory = "Bearer mallory-secret"
	foreign := func(when string) {
		t.Helper()
		never := look(t, other.url, strings.Replace(status, c.key, "order-2", 1), mallory)
		never.body = bytes.ReplaceAll(never.body, []byte("order-2"), []byte(c.key)) // each names the key of its URL
		for _, base := range []string{gateway.url, other.url} {
			a := look(t, base, status, mallory)
			if a.status != http.StatusNotFound || !sameAnswer(a, never) {
				t.Errorf("%s, another caller sees %v, want what a key that nobody used shows: %v", when, a, never)
			}
		}
		if a := look(t, other.url, status, ""); a.status != http.StatusUnauthorized {
			t.Errorf("%s, nobody in particular sees %v", when, a)
		}
	}
	foreign("while it is at work")
	open()
	first := <-got
	first.charge(t)
	foreign("when it is done")
	for _, base := range []string{gateway.url, other.url} {
		if a := look(t, base, status, credential); !bytes.Equal(a.body, first.body) || a.status != http.StatusCreated || a.header.Get(replayedHeader) != "true" {
			t.Errorf("when it is done, its caller sees %v, want %v", a, first)
		}
	}
	if n := upstream.posts.Load(); n != 1 {
		t.Errorf("the service got %d POSTs, want 1", n)
	}
}

// sealKeys is the configuration of a ring of keys, each "id file"; the first one seals.
func sealKeys(keys ...string) (config string) {
	config = "seal:\n  keys:\n"
	for _, k := range keys {
		id, file, _ := strings.Cut(k, " ")
		config += fmt.Sprintf("  - {id: %q, file: %s}\n", id, file)
	}
	return config
}

// newSealKey makes a file with a key in it.
func newSealKey(tb testing.TB) (path string) {
	tb.Helper()
	path = filepath.Join(tb.TempDir(), "seal.key")
	secret := make([]byte, 32)
	_, _ = rand.Read(secret)
	if err := os.WriteFile(path, secret, 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

// sealedRoute is startRoute with a ring of keys.
func sealedRoute(tb testing.TB, upstream, database, ring string, fields ...string) *host {
	tb.Helper()
	config := writeConfig(tb, ring+routeConfig(upstream, fields...))
	return ready(start(tb, append([]string{"serve", "--config", config}, onFreePorts(database)...)...))
}

// TestAnswerThatIsSealedOpensOnlyWithItsKey: a host without the key, or with another one of its name, says
// so and asks the service nothing; after a rotation the old answer opens. Nothing of it can be read in the
// database.
func TestAnswerThatIsSealedOpensOnlyWithItsKey(t *testing.T) {
	t.Parallel()
	right, wrong, next := newSealKey(t), newSealKey(t), newSealKey(t)
	database := sqliteURL(t)
	service := startSandbox(t, "memory:")
	upstream := newCounter(t, service.url)
	c := charge{key: "order-1", account: "alice", amount: 1200}
	sealing := sealedRoute(t, upstream.url, database, sealKeys("2026 "+right))
	first := c.mustSend(t, sealing.url)
	id := first.charge(t).ID

	for name, gateway := range map[string]*host{
		"another key of that name": sealedRoute(t, upstream.url, database, sealKeys("2026 "+wrong)),
		"only a later key":         sealedRoute(t, upstream.url, database, sealKeys("2027 "+next)),
		"no key":                   startRoute(t, upstream.url, database),
	} {
		a := c.mustSend(t, gateway.url)
		if a.status != http.StatusServiceUnavailable || a.problem() != "urn:fifty:problem:answer-sealed" || !strings.Contains(string(a.body), "2026") {
			t.Errorf("a host with %s told %v, want answer-sealed and the key's name", name, a)
		}
	}
	rotated := sealedRoute(t, upstream.url, database, sealKeys("2027 "+next, "2026 "+right))
	for _, gateway := range []*host{rotated, sealing} {
		if a := c.mustSend(t, gateway.url); !sameAnswer(a, first) || a.header.Get(replayedHeader) != "true" {
			t.Errorf("a host with the key told %v, want %v again", a, first)
		}
	}
	if n := upstream.posts.Load(); n != 1 {
		t.Errorf("the service got %d POSTs, want 1", n)
	}

	wantNowhere(t, database, c.key, id)
}

// TestHostWithAWrongSealingKeySendsNothingAgain: which key the service has seen is sealed too, so a host that
// can't read it does not go on with the request; one that can does.
func TestHostWithAWrongSealingKeySendsNothingAgain(t *testing.T) {
	t.Parallel()
	right, wrong := sealKeys("2026 "+newSealKey(t)), sealKeys("2026 "+newSealKey(t))
	database := sqliteURL(t)
	upstream, _ := newBank(t, scripted(fine, dropAfter))
	c := charge{key: "order-1", account: "alice", amount: 1200}
	owner := sealedRoute(t, upstream.url, database, right, retries...)
	if a := c.mustSend(t, owner.url); a.status != http.StatusServiceUnavailable || a.problem() != problemUnknown {
		t.Errorf("the caller got %v, want unknown", a)
	}
	other := sealedRoute(t, upstream.url, database, wrong, retries...)
	for range 2 {
		if a := c.mustSend(t, other.url); a.status != http.StatusServiceUnavailable || a.problem() != "urn:fifty:problem:answer-sealed" {
			t.Errorf("a host with a wrong key told %v, want answer-sealed", a)
		}
	}
	if n := upstream.requestsOf(c.key); n != 1 {
		t.Errorf("the bank got %d requests before the right host went on, want 1", n)
	}
	if got := c.mustSend(t, owner.url).bankAnswer(t); got.Charge != upstream.chargeOf(c.key) || got.Request != 2 {
		t.Errorf("the right host told %+v", got)
	}
	upstream.wantBooked(t, 1)
}

// wantNowhere checks that a SQLite database, which holds there, does not hold secret.
func wantNowhere(t *testing.T, database, there, secret string) {
	t.Helper()
	files, err := filepath.Glob(strings.TrimPrefix(database, "sqlite://") + "*")
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		found = found || bytes.Contains(text, []byte(there))
		if bytes.Contains(text, []byte(secret)) {
			t.Errorf("%s holds %s, which is sealed", filepath.Base(name), secret)
		}
	}
	if !found {
		t.Errorf("none of %v holds %s, so they are not the database", files, there)
	}
}

package e2e

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/fiftyhosts/fifty/internal/testenv"
)

// TestStripeClientsOwnRetriesMakeOnePostPerKey: stripe-go and stripe-mock, neither of them changed nor told
// of the gateway between them, over a network that loses one exchange in three.
func TestStripeClientsOwnRetriesMakeOnePostPerKey(t *testing.T) {
	const (
		intents = 20
		calls   = 200
		seed    = 7
		budget  = 90
		retries = 12 // as for whoever needs the answer; the SDK waits 0.5 s before the first, up to 5 s later
	)
	mock := startTool(t, testenv.Tool(t, "stripe-mock"), "-http-addr", "127.0.0.1:0", "-https-addr", "127.0.0.1:0")
	upstream := newCounter(t, "http://"+mock.find(`Listening for HTTP at address: (\S+)`)[1])
	gateway := startProxy(t, upstream.url, sqliteURL(t))
	wire := newRelay(t, gateway.url, seededFaults(seed, budget))

	client := startTool(t, stripeClient(t), "-base", wire.url,
		"-intents", strconv.Itoa(intents), "-calls", strconv.Itoa(calls), "-retries", strconv.Itoa(retries))
	if code := client.exitCode(); code != 0 {
		t.Fatalf("the client ended with %d", code)
	}
	text := client.host.Text()
	wantOneAnswerPerIntent(t, text, intents, calls)

	if posts := upstream.posts.Load(); posts != intents {
		t.Errorf("stripe-mock got %d POSTs, want %d", posts, intents)
	}
	did := wire.counts()
	t.Logf("the network: %v", did)
	for _, f := range []wireFault{loseRequest, dropReply, cutReply, hangUp} {
		if did[f] == 0 {
			t.Errorf("the network never did this: %s", f)
		}
	}
}

// wantOneAnswerPerIntent reads the client's lines: every call succeeded, and all calls of one intent got the
// very same answer, which is that of this intent.
func wantOneAnswerPerIntent(t *testing.T, text string, intents, calls int) {
	t.Helper()
	lines := json.NewDecoder(bytes.NewReader([]byte(text)))
	bodies := map[int64]string{} // by intent
	for n := range calls {
		var c struct {
			Intent, Amount  int64
			ID, Body, Error string
		}
		if err := lines.Decode(&c); err != nil {
			t.Fatalf("line %d of %d: %v", n+1, calls, err)
		}
		first, seen := bodies[c.Intent]
		switch {
		case c.Error != "" || c.ID == "" || c.Amount != c.Intent:
			t.Errorf("a call of intent %d got payment %q of %d, error %s", c.Intent, c.ID, c.Amount, c.Error)
		case !seen:
			bodies[c.Intent] = c.Body
		case first != c.Body:
			t.Errorf("intent %d: one caller got\n%s\nanother\n%s", c.Intent, first, c.Body)
		}
	}
	if len(bodies) != intents {
		t.Errorf("%d intents were answered, want %d", len(bodies), intents)
	}
}

// stripeClient builds the program in stripeclient, which is a module of its own.
func stripeClient(tb testing.TB) (path string) {
	tb.Helper()
	path = filepath.Join(tb.TempDir(), "stripeclient")
	build := exec.CommandContext(tb.Context(), "go", "build", "-o", path, ".")
	build.Dir = filepath.Join(moduleRoot(tb), "internal", "e2e", "stripeclient")
	if out, err := build.CombinedOutput(); err != nil {
		tb.Fatalf("build the client: %v\n%s", err, out)
	}
	return path
}

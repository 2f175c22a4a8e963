package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// host is a fifty that serves.
type host struct {
	*process
	url string
}

// startServe runs `fifty serve` with its sandbox on a database, and waits until it serves.
func startServe(tb testing.TB, database string) *host {
	tb.Helper()
	return ready(start(tb, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--db", database))
}

// startProxy runs `fifty proxy` in front of an upstream.
func startProxy(tb testing.TB, upstream, database string) *host {
	tb.Helper()
	return ready(start(tb, "proxy", "--upstream", upstream, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--db", database))
}

// startGateway runs `fifty serve` in front of an upstream, with a lease of its own.
func startGateway(tb testing.TB, upstream, database string, lease time.Duration) *host {
	tb.Helper()
	config := filepath.Join(tb.TempDir(), "fifty.yaml")
	text := fmt.Sprintf("routes:\n- path: /charges\n  upstream: %s\n  scope: {credential: }\n  lease: %v\n", upstream, lease)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	return ready(start(tb, "serve", "--config", config, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--db", database))
}

// startSandbox runs `fifty sandbox`.
func startSandbox(tb testing.TB, database string) *host {
	tb.Helper()
	return ready(start(tb, "sandbox", "--listen", "127.0.0.1:0", "--db", database))
}

func ready(p *process) *host {
	p.tb.Helper()
	return &host{p, "http://" + p.find(`listening on http://(\S+)`)[1]}
}

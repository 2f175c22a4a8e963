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

// sqliteURL names a database that does not exist yet.
func sqliteURL(tb testing.TB) string {
	tb.Helper()
	return "sqlite://" + filepath.Join(tb.TempDir(), "fifty.db")
}

// onFreePorts are the flags of a gateway on a database.
func onFreePorts(database string) []string {
	return []string{"--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--db", database}
}

// startServes runs `fifty serve`, with its sandbox, n times on one database, all at once. It waits until
// they serve and returns their URLs.
func startServes(tb testing.TB, database string, n int) (urls []string) {
	tb.Helper()
	var starting []*process
	for range n {
		starting = append(starting, start(tb, append([]string{"serve"}, onFreePorts(database)...)...))
	}
	for _, p := range starting {
		urls = append(urls, ready(p).url)
	}
	return urls
}

// startServe runs one.
func startServe(tb testing.TB, database string) *host {
	tb.Helper()
	return ready(start(tb, append([]string{"serve"}, onFreePorts(database)...)...))
}

// startProxy runs `fifty proxy` in front of an upstream.
func startProxy(tb testing.TB, upstream, database string) *host {
	tb.Helper()
	return ready(start(tb, append([]string{"proxy", "--upstream", upstream}, onFreePorts(database)...)...))
}

// startGateway runs `fifty serve` in front of an upstream, with a lease of its own.
func startGateway(tb testing.TB, upstream, database string, lease time.Duration) *host {
	tb.Helper()
	return startRoute(tb, upstream, database, fmt.Sprintf("lease: %v", lease))
}

// startRoute runs `fifty serve` in front of an upstream, with more fields of the route, each "name: value".
func startRoute(tb testing.TB, upstream, database string, fields ...string) *host {
	tb.Helper()
	config := writeConfig(tb, routeConfig(upstream, fields...))
	return ready(start(tb, append([]string{"serve", "--config", config}, onFreePorts(database)...)...))
}

func routeConfig(upstream string, fields ...string) (config string) {
	config = fmt.Sprintf("routes:\n- path: /charges\n  upstream: %s\n  scope: {credential: }\n", upstream)
	for _, f := range fields {
		config += "  " + f + "\n"
	}
	return config
}

func writeConfig(tb testing.TB, text string) (path string) {
	tb.Helper()
	path = filepath.Join(tb.TempDir(), "fifty.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
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

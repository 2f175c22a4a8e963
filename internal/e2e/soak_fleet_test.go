package e2e

import (
	"bytes"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/fiftyhosts/fifty/faults/hosts"
)

// The hosts of a soak, all on one database.
const (
	soakGateways = 3 // fifty serve
	soakServices = 2 // built on the library
)

// fleet is the hosts of a soak. Its members die and come back; what they are is for the test's goroutine, and
// where they are for all.
type fleet struct {
	gateways, services []*member
	superseded         *lineCount // late completions that were refused, by all of them
}

// member is a host of a fleet, at a new address after each restart.
type member struct {
	*process

	mu  sync.Mutex
	url string // "" while it is down
}

func newFleet(tb testing.TB, database, bank string) *fleet {
	tb.Helper()
	f := &fleet{superseded: &lineCount{word: []byte(supersededEvent)}}
	config := writeConfig(tb, fmt.Sprintf(`routes:
- {path: %[1]s, upstream: %[3]s, scope: {credential: }, lease: %[4]v, unknown: hold}
- {path: %[2]s, upstream: %[3]s, scope: {credential: }, lease: %[4]v, unknown: retry, upstream_window: 24h}
`, soakHold, soakRetry, bank, soakLease))
	binary, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	for range soakGateways {
		args := append([]string{"serve", "--config", config}, onFreePorts(database)...)
		f.gateways = append(f.gateways, f.launch(tb, fiftyBinary(tb), args))
	}
	for range soakServices {
		f.services = append(f.services, f.launch(tb, binary, []string{soakHost, database, bank}))
	}
	for _, m := range f.all() {
		m.ready()
	}
	return f
}

func (f *fleet) launch(tb testing.TB, path string, args []string) *member {
	tb.Helper()
	return &member{process: launch(tb, hosts.Config{Path: path, Args: args, Output: f.superseded.writer()})}
}

func (f *fleet) all() []*member {
	return append(f.gateways[:len(f.gateways):len(f.gateways)], f.services...)
}

// serving are the members that serve a path.
func (f *fleet) serving(path string) []*member {
	if path == soakSteps {
		return f.services
	}
	return f.gateways
}

// ready waits until the member serves.
func (m *member) ready() {
	m.tb.Helper()
	m.move(ready(m.process).url)
}

func (m *member) move(url string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.url = url
}

// address is where the member serves, or "" while it is down.
func (m *member) address() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.url
}

// die is kill -9.
func (m *member) die() {
	m.tb.Helper()
	m.move("")
	m.kill()
}

// comeBack starts a member that has died.
func (m *member) comeBack() {
	m.tb.Helper()
	if err := m.host.Restart(); err != nil {
		m.tb.Fatal(err)
	}
	m.ended = false
	m.ready()
}

// lineCount counts the lines that have a word in them, of any number of writers.
type lineCount struct {
	word []byte

	mu sync.Mutex
	n  int
}

func (c *lineCount) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// writer is one that counts its lines. It belongs to one goroutine at a time.
func (c *lineCount) writer() *countedLines { return &countedLines{to: c} }

type countedLines struct {
	to   *lineCount
	rest []byte // of a line that has not ended
}

func (w *countedLines) Write(b []byte) (int, error) {
	w.rest = append(w.rest, b...)
	for {
		line, rest, whole := bytes.Cut(w.rest, []byte("\n"))
		if !whole {
			return len(b), nil
		}
		if bytes.Contains(line, w.to.word) {
			w.to.mu.Lock()
			w.to.n++
			w.to.mu.Unlock()
		}
		w.rest = rest
	}
}

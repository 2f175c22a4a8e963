package postgres_test

import (
	"testing"

	"github.com/fiftyhosts/fifty/faults"
	"github.com/fiftyhosts/fifty/faults/pgwire"
)

// relay stands between a client and the server, and can lose what passes: see package faults.
type relay struct{ *faults.Proxy }

// What arm has happen once, to the request that comes next.
const (
	loseReply  = faults.ReplyLost // the server has answered; the client never hears it, and the connection is gone
	holdTheAsk = faults.Zombie    // the client's connection is gone, its request comes to the server later
)

// newRelay returns a relay and the URL that leads through it.
func newRelay(tb testing.TB, to string) (relay, string) {
	tb.Helper()
	proxy, through, err := pgwire.Start(to, faults.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	r := relay{proxy}
	tb.Cleanup(r.close)
	return r, through
}

func (r relay) close() { _ = r.Close() }

func (r relay) arm(f faults.Fault) {
	// A reply is lost as a whole, and a request is held from its beginning.
	r.Arm(faults.Once(func(m faults.Message) bool { return m.Number > 0 && (m.Last || f == holdTheAsk) }, f))
}

// release lets a held request go on.
func (r relay) release() { r.ReleaseAll() }

package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/store/memory"
)

// sweeping makes a server of which only the sweeps run.
func sweeping(t *testing.T, keys KeyStore) (s *server, g *gate) {
	t.Helper()
	up := startUpstream(t, created)
	g = startGateOn(t, up.URL, keys, nil)
	s = &server{cfg: ServeConfig{SweepEvery: time.Millisecond, Log: slog.New(slog.NewJSONHandler(g.log, nil))}, metrics: g.metrics, backend: &Backend{Keys: keys}}
	s.cfg.Config, _ = ProxyConfig(up.URL, ScopeRule{Kind: ScopeConstant, Constant: "all"})
	return s, g
}

func TestAnswersAreDroppedAndThenForgottenInTheirTime(t *testing.T) {
	at := newClock()
	s, g := sweeping(t, memory.New(memory.Config{Now: at.Now}).Keys())
	stop := s.startSweeping()
	defer stop()
	swept := func() float64 { return g.metric(t, "fifty_swept_total") }
	g.send(t, http.MethodPost, "/charges", "k1", "{}")
	at.advance(RetentionDefault + time.Second)
	eventually(t, "the answer is dropped", func() bool { return swept() == 1 })
	wantProblem(t, g.send(t, http.MethodPost, "/charges", "k1", "{}"), http.StatusGone, "expired")
	at.advance(TombstoneDefault)
	eventually(t, "the key is forgotten", func() bool { return swept() == 2 })
	if a := g.send(t, http.MethodPost, "/charges", "k1", "{}"); a.status != http.StatusCreated || a.replayed() {
		t.Errorf("a key that is forgotten got %+v", a)
	}
}

// brokenSweep is a store whose sweeps fail, or stand still until their context ends.
type brokenSweep struct {
	KeyStore
	stands  bool
	started atomic.Int64
}

func (b *brokenSweep) Sweep(ctx context.Context, _, _ time.Duration, _ int) (int, error) {
	b.started.Add(1)
	if b.stands {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return 3, errors.New("the disk is full")
}

func TestASweepThatFailsIsCountedAndToldAndComesAgain(t *testing.T) {
	broken := &brokenSweep{KeyStore: memory.New(memory.Config{}).Keys()}
	s, g := sweeping(t, broken)
	stop := s.startSweeping()
	eventually(t, "it fails twice", func() bool {
		return g.metric(t, `fifty_events_total{event="idempotency.sweep_failed"}`) >= 2
	})
	stop()
	if lines := g.log.with("idempotency.sweep_failed"); len(lines) < 2 || !strings.Contains(lines[0]["error"].(string), "the disk is full") {
		t.Errorf("the log says %v", lines)
	}
	if n := g.metric(t, "fifty_swept_total"); n < 6 {
		t.Errorf("%v are counted; what was done before the failure counts", n)
	}
}

func TestASweepEndsWithTheProcessAndThatIsNoFailure(t *testing.T) {
	broken := &brokenSweep{KeyStore: memory.New(memory.Config{}).Keys(), stands: true}
	s, g := sweeping(t, broken)
	stop := s.startSweeping()
	eventually(t, "a sweep is at work", func() bool { return broken.started.Load() == 1 })
	stop()
	stop() // twice is as good as once
	if n := g.metric(t, `fifty_events_total{event="idempotency.sweep_failed"}`); n != 0 || len(g.log.with("sweep")) != 0 {
		t.Errorf("%v failures, log %v", n, g.log.with("sweep"))
	}
}

func TestAServeSweepsUntilItEnds(t *testing.T) {
	s := serve(t, ServeConfig{DB: "memory:", SweepEvery: time.Millisecond})
	if !strings.Contains(s.out, "kept         answers 24h0m0s, keys 720h0m0s, for all routes; swept about every 1ms") {
		t.Errorf("it says\n%s", s.out)
	}
	s.stop()
	if err := <-s.result; err != nil {
		t.Error(err)
	}
}

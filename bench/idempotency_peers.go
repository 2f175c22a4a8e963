package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/idempotency/idempotencyhttp"
	"github.com/fiftyhosts/fifty/store/memory"
	"github.com/fiftyhosts/fifty/store/postgres"
)

const (
	peerWorkers = 16
	peerRounds  = 7
	peerSlice   = 400 * time.Millisecond
	// peerKeys is how many completed keys are asked for again, in turn.
	peerKeys = 800
)

// peerCases compare with other modules that do a part of the same work. Most do less of it; the page of the
// figures says what each leaves out.
var peerCases = slices.Concat(peerFiberCases, peerDBOSCases, peerWatermillCases)

// peerMeasure measures with what peers get of the time.
func peerMeasure(ctx context.Context, b *bench, ours, theirs Side) (float64, error) {
	if !b.Rough {
		b.Slice, b.Rounds = peerSlice, peerRounds
	}
	r, err := throughput(ctx, b, peerWorkers, ours, theirs)
	return r.Median, err
}

// keyring hands out keys of 36 characters: each a new one, or those of a fixed set in turn.
type keyring struct {
	prefix string
	again  bool
	next   atomic.Int64
}

func (k *keyring) key() string {
	n := k.next.Add(1)
	if k.again {
		n %= peerKeys
	}
	return fmt.Sprintf("%s-%027d", k.prefix, n)
}

// fill completes each key of the set once.
func (k *keyring) fill(ctx context.Context, op func(ctx context.Context, worker int) error) error {
	failures := make([]error, peerWorkers)
	var all sync.WaitGroup
	for worker := range peerWorkers {
		all.Go(func() {
			for range peerKeys / peerWorkers {
				if failures[worker] = op(ctx, worker); failures[worker] != nil {
					return
				}
			}
		})
	}
	all.Wait()
	return errors.Join(failures...)
}

// refilled is a side that begins each slice with a new store, so that what grows with the calls grows for
// neither. When its keys come again they are completed first.
func refilled(s Side, keys *keyring, renew func() error) Side {
	s.Before = func(ctx context.Context) error {
		if err := renew(); err != nil {
			return err
		}
		if !keys.again {
			return nil
		}
		return keys.fill(ctx, s.Op)
	}
	return s
}

// charged is what the handler of a peer's case answers, as a stored response.
func charged() idempotency.Response {
	return idempotency.Response{
		Status: http.StatusCreated,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   []byte(chargeAnswer),
	}
}

func peerRequest(key string) idempotency.Request {
	return idempotency.Request{Scope: "peer", Key: key, Fingerprint: idempotency.FingerprintOf("POST", "/charges", chargeBody)}
}

// doSide runs Keys.Do; keys is looked up at each call, since a slice may begin with new ones.
func doSide(keys func() *idempotency.Keys, ring *keyring) Side {
	return Side{Name: "Keys.Do", Op: func(ctx context.Context, _ int) error {
		res, err := keys().Do(ctx, peerRequest(ring.key()), func(context.Context) (idempotency.Response, error) { return charged(), nil })
		if err == nil && string(res.Body) != chargeAnswer {
			err = fmt.Errorf("another answer: %s", res.Body)
		}
		return err
	}}
}

// middleware is ours over HTTP, called in this process: no network is in the way of either side.
func middleware(keys *idempotency.Keys) http.Handler {
	return idempotencyhttp.Middleware(keys, idempotencyhttp.Config{
		Scope: func(*http.Request) (string, error) { return "peer", nil },
	})(http.HandlerFunc(charge))
}

// serveOnce sends one charge through a handler of net/http.
func serveOnce(ctx context.Context, h http.Handler, key string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://bench.example/charges", strings.NewReader(chargeBody))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(idempotencyhttp.KeyHeader, key)
	w := &written{header: http.Header{}}
	h.ServeHTTP(w, r)
	if w.status != http.StatusCreated || string(w.body) != chargeAnswer {
		return fmt.Errorf("status %d: %s", w.status, w.body)
	}
	return nil
}

// written is a ResponseWriter that keeps what it gets.
type written struct {
	header http.Header
	status int
	body   []byte
}

func (w *written) Header() http.Header    { return w.header }
func (w *written) WriteHeader(status int) { w.status = status }
func (w *written) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	w.body = append(w.body, p...)
	return len(p), nil
}

func freshMemoryKeys() *idempotency.Keys {
	return idempotency.New(memory.New(memory.Config{}).Keys(), idempotency.Config{})
}

// peerPool is a pool on a database of its own, with as many connections for each side.
func peerPool(ctx context.Context, b *bench) (*pgxpool.Pool, error) {
	url, err := b.Postgres(ctx)
	if err != nil {
		return nil, err
	}
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns, cfg.MinConns = peerWorkers, peerWorkers
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	b.Cleanup(func() error { pool.Close(); return nil })
	return pool, nil
}

// postgresKeys is ours on a database of its own.
func postgresKeys(ctx context.Context, b *bench) (*idempotency.Keys, error) {
	pool, err := peerPool(ctx, b)
	if err != nil {
		return nil, err
	}
	store := postgres.New(pool, postgres.Config{})
	if err := store.Migrate(ctx); err != nil {
		return nil, err
	}
	return idempotency.New(store.Keys(), idempotency.Config{}), nil
}

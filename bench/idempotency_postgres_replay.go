package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/fiftyhosts/fifty/idempotency"
)

// replayKeys is how many answered keys are asked for in turn.
const replayKeys = 2000

var postgresReplayCases = []Case{
	replays("seen", atLeast(0.85), "16 clients ask again for keys that this host saw lately. Ours: Do. "+againstSelect, sameHost, byDo),
	{
		Name: "postgres-replay-seen-p50",
		Goal: atMost(1 / 0.85),
		What: "The same by one client: at most 1/0.85 of its latency.",
		Run: func(ctx context.Context, b *bench) (float64, error) {
			return byLatency(ctx, b, replaySides(sameHost, byDo))
		},
	},
	replays("seen-intx", atLeast(0.85), "16 clients ask again for keys that this host saw lately. Ours: InTx. "+againstSelect, sameHost, byInTx),
	replays("unseen", atLeast(0.45), "16 clients ask again for keys that another host answered. Ours: Do. "+againstSelect, otherHost, byDo),
	replays("unseen-intx", atLeast(0.45), "16 clients ask again for keys that another host answered. Ours: InTx. "+againstSelect, otherHost, byInTx),
	replays("storm", atLeast(0.45), "16 clients ask again, each key once, on a host that has just taken over from the one that answered. Ours: Do. "+againstSelect, nextHost, byDo),
	replays("storm-intx", atLeast(0.45), "The same. Ours: InTx.", nextHost, byInTx),
}

const againstSelect = "Theirs: a SELECT of the answer by its primary key."

// replays is a case of throughput.
func replays(name string, goal Goal, what string, of asked, ask asking) Case {
	return Case{
		Name: "postgres-replay-" + name + "-throughput",
		Goal: goal,
		What: what,
		Run: func(ctx context.Context, b *bench) (float64, error) {
			return byThroughput(ctx, b, replaySides(of, ask))
		},
	}
}

const answerSelect = `select state, fingerprint, status, header, body
from fifty.keys
where scope = $1::text and key = $2::text`

// asking is a way to ask for a key.
type asking func(ctx context.Context, keys *idempotency.TxKeys[pgx.Tx], key string) (idempotency.Result, error)

func byDo(ctx context.Context, keys *idempotency.TxKeys[pgx.Tx], key string) (idempotency.Result, error) {
	return keys.Do(ctx, benchRequest(key), func(context.Context) (idempotency.Response, error) {
		return idempotency.Response{}, fmt.Errorf("key %q has no answer", key)
	})
}

func byInTx(ctx context.Context, keys *idempotency.TxKeys[pgx.Tx], key string) (idempotency.Result, error) {
	return keys.InTx(ctx, benchRequest(key), func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
		_, err := order(ctx, tx) // which must be refused: InTx sends it together with the claim
		return idempotency.Response{}, fmt.Errorf("key %q has no answer: %w", key, err)
	})
}

// unseen forgets what a host has seen, and what it expects: its store has no way to read first. All else that the
// store can do is left.
type unseen struct{ idempotency.TxStore[pgx.Tx] }

func (u unseen) BatchMax() int { return u.TxStore.(idempotency.BatchStore).BatchMax() }

// asked is who is asked: each call gets the keys of the host that it comes to.
type asked func(w *pgWorld) func() *idempotency.TxKeys[pgx.Tx]

// sameHost answered the keys itself.
func sameHost(w *pgWorld) func() *idempotency.TxKeys[pgx.Tx] {
	return func() *idempotency.TxKeys[pgx.Tx] { return w.keys }
}

// otherHost has never seen a key, and never learns that retries are what it gets.
func otherHost(w *pgWorld) func() *idempotency.TxKeys[pgx.Tx] {
	keys := idempotency.NewTx[pgx.Tx](unseen{w.store.Keys()}, idempotency.Config{Owner: handOwner})
	return func() *idempotency.TxKeys[pgx.Tx] { return keys }
}

// nextHost stands in for one that has died: it gets each key once, and then another takes its place.
func nextHost(w *pgWorld) func() *idempotency.TxKeys[pgx.Tx] {
	var (
		mu   sync.Mutex
		keys *idempotency.TxKeys[pgx.Tx]
		left int
	)
	return func() *idempotency.TxKeys[pgx.Tx] {
		mu.Lock()
		defer mu.Unlock()
		if left == 0 {
			keys, left = idempotency.NewTx(w.store.Keys(), idempotency.Config{Owner: handOwner}), replayKeys
		}
		left--
		return keys
	}
}

func replaySides(of asked, ask asking) sides {
	return func(ctx context.Context, b *bench, w *pgWorld) (Side, []Side, error) {
		b.Explain("The SELECT by hand, through pgxpool, its header decoded; both read %d keys in turn:\n%s", replayKeys, answerSelect)
		names := make([]string, replayKeys)
		for i := range names {
			names[i] = w.key()
			if _, err := w.keys.InTx(ctx, benchRequest(names[i]), order); err != nil {
				return Side{}, nil, err
			}
		}
		host := of(w)
		next := make([]int, pgWorkers)
		turn := func(worker int) string {
			next[worker]++
			return names[(next[worker]*pgWorkers+worker)%len(names)]
		}
		ours := func(ctx context.Context, worker int) error {
			res, err := ask(ctx, host(), turn(worker))
			if err == nil && (!res.Replayed || len(res.Body) == 0 || len(res.Header) != 2) {
				err = fmt.Errorf("not a replay: %+v", res)
			}
			return err
		}
		theirs := func(ctx context.Context, worker int) error { return w.selectAnswer(ctx, turn(worker)) }
		return Side{Name: "replay", Op: ours}, []Side{{Name: "SELECT", Op: theirs}}, nil
	}
}

func (w *pgWorld) selectAnswer(ctx context.Context, key string) error {
	var state, status int32
	var fingerprint, header, body []byte
	if err := w.pool.QueryRow(ctx, answerSelect, benchScope, key).Scan(&state, &fingerprint, &status, &header, &body); err != nil {
		return err
	}
	var decoded map[string][]string
	if err := json.Unmarshal(header, &decoded); err != nil {
		return err
	}
	if state != int32(idempotency.Done) || len(body) == 0 || len(decoded) != 2 || !benchPrint.Matches(idempotency.Fingerprint(fingerprint)) {
		return fmt.Errorf("key %q is not answered", key)
	}
	return nil
}

package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/fiftyhosts/fifty/idempotency"
)

// replayKeys is how many answered keys are asked for in turn.
const replayKeys = 2000

var postgresReplayCases = []Case{
	{
		Name: "postgres-replay-seen-throughput",
		Goal: atLeast(0.85),
		What: "16 clients ask again for keys that this host saw lately. Ours: Do. Theirs: a SELECT of the answer by its primary key.",
		Run: func(ctx context.Context, b *bench) (float64, error) {
			return byThroughput(ctx, b, replaySides(true, byDo))
		},
	},
	{
		Name: "postgres-replay-seen-p50",
		Goal: atMost(1 / 0.85),
		What: "The same by one client: at most 1/0.85 of its latency.",
		Run: func(ctx context.Context, b *bench) (float64, error) {
			return byLatency(ctx, b, replaySides(true, byDo))
		},
	},
	{
		Name: "postgres-replay-seen-intx-throughput",
		Goal: atLeast(0.85),
		What: "16 clients ask again for keys that this host saw lately. Ours: InTx. Theirs: a SELECT of the answer by its primary key.",
		Run: func(ctx context.Context, b *bench) (float64, error) {
			return byThroughput(ctx, b, replaySides(true, byInTx))
		},
	},
	{
		Name: "postgres-replay-unseen-throughput",
		Goal: atLeast(0.45),
		What: "16 clients ask again for keys that another host answered. Ours: Do. Theirs: a SELECT of the answer by its primary key.",
		Run: func(ctx context.Context, b *bench) (float64, error) {
			return byThroughput(ctx, b, replaySides(false, byDo))
		},
	},
	{
		Name: "postgres-replay-unseen-intx-throughput",
		Goal: atLeast(0.45),
		What: "16 clients ask again for keys that another host answered. Ours: InTx. Theirs: a SELECT of the answer by its primary key.",
		Run: func(ctx context.Context, b *bench) (float64, error) {
			return byThroughput(ctx, b, replaySides(false, byInTx))
		},
	},
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

// unseen forgets what a host has seen: its store has no way to read first.
type unseen struct{ idempotency.TxStore[pgx.Tx] }

func replaySides(seen bool, ask asking) sides {
	return func(ctx context.Context, b *bench, w *pgWorld) (Side, []Side, error) {
		b.Explain("The SELECT by hand, through pgxpool, its header decoded; both read %d keys in turn:\n%s", replayKeys, answerSelect)
		names := make([]string, replayKeys)
		for i := range names {
			names[i] = w.key()
			if _, err := w.keys.InTx(ctx, benchRequest(names[i]), order); err != nil {
				return Side{}, nil, err
			}
		}
		keys := w.keys
		if !seen {
			keys = idempotency.NewTx[pgx.Tx](unseen{w.store.Keys()}, idempotency.Config{Owner: handOwner})
		}
		next := make([]int, pgWorkers)
		turn := func(worker int) string {
			next[worker]++
			return names[(next[worker]*pgWorkers+worker)%len(names)]
		}
		ours := func(ctx context.Context, worker int) error {
			res, err := ask(ctx, keys, turn(worker))
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

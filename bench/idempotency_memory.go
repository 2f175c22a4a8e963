package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/fiftyhosts/fifty/idempotency"
	memstore "github.com/fiftyhosts/fifty/store/memory"
)

const (
	memoryKeys = 20_000 // that each call of a side puts into a new map
	memoryAsks = 1000   // calls whose allocations are counted
)

var memoryCases = []Case{
	{
		Name: "memory-do",
		Goal: atMost(6),
		What: "20,000 new keys, one after another. Ours: Do of an empty handler over store/memory. Theirs: sync.Map.LoadOrStore, then Store of the same answer.",
		Run:  func(ctx context.Context, b *bench) (float64, error) { return memoryDo(ctx, b, 1) },
	},
	{
		Name: "memory-do-16",
		Goal: atMost(6),
		What: "The same keys by 16 goroutines.",
		Run:  func(ctx context.Context, b *bench) (float64, error) { return memoryDo(ctx, b, 16) },
	},
	{
		Name: "memory-allocations",
		Goal: atMost(8),
		What: "How often Do of an empty handler over store/memory allocates.",
		Run:  memoryAllocations,
	},
}

// memoryAnswer is what both sides keep for each key.
var memoryAnswer = []byte(`{"id":"ch_3MmlLrLkdIwHu7ix0snN0B15","amount":1099,"status":"succeeded"}`)

const memoryExplained = `What each side does with 20,000 keys (UUIDs of version 4 as strings) and an answer of 72 bytes:
Ours: keys := idempotency.New(memory.New(memory.Config{}).Keys(), idempotency.Config{}), then for each key
      keys.Do(ctx, request, func(ctx) (Response, error) { return Response{Status: 201, Body: answer}, nil })
Theirs: var m sync.Map, then for each key m.LoadOrStore(key, []byte(nil)); m.Store(key, answer): no fingerprint, scope,
      lease, token, clock or limit, and it keeps the caller's bytes, where Do keeps a copy.
Each call of a side starts with an empty map, so growing it is in the figure. The value is the ratio of the times.`

// memoryDo compares how long it takes workers goroutines to finish all keys, each key once.
func memoryDo(ctx context.Context, b *bench, workers int) (float64, error) {
	b.Explain(memoryExplained)
	b.Calls = max(b.Calls/40, 10)
	requests := memoryRequests(memoryKeys)
	ours := func(ctx context.Context, _ int) error {
		keys := idempotency.New(memstore.New(memstore.Config{}).Keys(), idempotency.Config{})
		return split(workers, len(requests), func(i int) error {
			res, err := keys.Do(ctx, requests[i], answerFromMemory)
			if err == nil && res.Replayed {
				err = errTwice
			}
			return err
		})
	}
	theirs := func(context.Context, int) error {
		var m sync.Map
		return split(workers, len(requests), func(i int) error {
			key := requests[i].Key
			if _, there := m.LoadOrStore(key, []byte(nil)); there {
				return errTwice
			}
			m.Store(key, memoryAnswer)
			return nil
		})
	}
	r, err := latency(ctx, b, Side{Name: "Do", Op: ours, Batch: memoryKeys}, Side{Name: "sync.Map", Op: theirs, Batch: memoryKeys})
	if err != nil {
		return 0, err
	}
	err = b.profiled(true, 0, func() error {
		for range b.Calls {
			if err := ours(ctx, 0); err != nil {
				return err
			}
		}
		return nil
	})
	return r.Median, err
}

// memoryAllocations counts them.
func memoryAllocations(ctx context.Context, b *bench) (float64, error) {
	keys := idempotency.New(memstore.New(memstore.Config{}).Keys(), idempotency.Config{})
	requests := memoryRequests(memoryAsks + 1) // one call more, to warm up
	var first error
	next := 0
	got := testing.AllocsPerRun(memoryAsks, func() {
		if _, err := keys.Do(ctx, requests[next], answerFromMemory); err != nil && first == nil {
			first = err
		}
		next++
	})
	return got, first
}

var errTwice = errors.New("a key came twice")

func answerFromMemory(context.Context) (idempotency.Response, error) {
	return idempotency.Response{Status: 201, Body: memoryAnswer}, nil
}

func memoryRequests(n int) []idempotency.Request {
	all := make([]idempotency.Request, n)
	for i := range all {
		all[i] = idempotency.Request{Scope: "acme", Key: randomKey(), Fingerprint: idempotency.FingerprintOf("POST", "/charges", i)}
	}
	return all
}

// split lets workers goroutines do n pieces of work, each an equal share of them.
func split(workers, n int, do func(i int) error) error {
	if workers == 1 {
		for i := range n {
			if err := do(i); err != nil {
				return err
			}
		}
		return nil
	}
	errs := make([]error, workers)
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := w; i < n; i += workers {
				if err := do(i); err != nil {
					errs[w] = fmt.Errorf("key %d: %w", i, err)
					return
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

package memory_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/store/memory"
)

// payload is the answer of the benchmarks.
var payload = []byte(`{"id":"ch_3MmlLrLkdIwHu7ix0snN0B15","amount":1099,"status":"succeeded"}`)

// What a key costs beside the map that one process would use by hand: the put that decides, and the answer.
func BenchmarkMemoryDo(b *testing.B) {
	const print = idempotency.Fingerprint("\x01print")
	answer := func(context.Context) (idempotency.Response, error) {
		return idempotency.Response{Status: 201, Body: payload}, nil
	}
	b.Run("Do", func(b *testing.B) {
		b.ReportAllocs()
		keys := idempotency.New(memory.New(memory.Config{}).Keys(), idempotency.Config{})
		var n atomic.Int64
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				req := idempotency.Request{Scope: "acme", Key: "key-" + strconv.FormatInt(n.Add(1), 10), Fingerprint: print}
				if _, err := keys.Do(b.Context(), req, answer); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
	b.Run("sync.Map", func(b *testing.B) {
		b.ReportAllocs()
		var m sync.Map
		var n atomic.Int64
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				key := "key-" + strconv.FormatInt(n.Add(1), 10)
				if _, taken := m.LoadOrStore(key, []byte(nil)); taken {
					b.Fatal("taken")
				}
				m.Store(key, payload)
			}
		})
	})
}

// What one call of Do allocates: the attempt's ID, what the call needs while it lasts, the detached context, the
// store's two replies, the record, and the copy of the answer.
func TestDoOfAnEmptyFunctionAllocatesLittle(t *testing.T) {
	const runs, most = 1000, 8
	keys := idempotency.New(memory.New(memory.Config{}).Keys(), idempotency.Config{})
	requests := make([]idempotency.Request, 0, runs+1)
	for i := range runs + 1 { // one call more, to warm up
		requests = append(requests, idempotency.Request{Scope: "acme", Key: "key-" + strconv.Itoa(i), Fingerprint: "\x01print"})
	}
	next := 0
	got := testing.AllocsPerRun(runs, func() {
		res, err := keys.Do(t.Context(), requests[next], func(context.Context) (idempotency.Response, error) {
			return idempotency.Response{Status: 201, Body: payload}, nil
		})
		if err != nil || res.Replayed {
			t.Fatal(res, err)
		}
		next++
	})
	if got > most {
		t.Errorf("%v allocations, want at most %d", got, most)
	}
}

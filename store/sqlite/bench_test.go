package sqlite_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/store/sqlite"
)

// fill makes n records that are done, each with an answer of so many bytes.
func fill(tb testing.TB, s *sqlite.Store, n, body int) {
	tb.Helper()
	const batch = 1000
	answer := idempotency.Response{Status: 201, Body: make([]byte, body)}
	for from := 0; from < n; from += batch {
		var claims []idempotency.Attempt
		for i := from; i < min(from+batch, n); i++ {
			claims = append(claims, attempt("a1", fmt.Sprint("fill-", i)))
		}
		won, err := s.Keys().Claim(tb.Context(), claims)
		if err != nil {
			tb.Fatal(err)
		}
		var ends []idempotency.Completion
		for _, w := range won {
			ends = append(ends, idempotency.Completion{Claim: claimOf(w.Record), State: idempotency.Done, Response: answer})
		}
		if _, err := s.Keys().Complete(tb.Context(), ends); err != nil {
			tb.Fatal(err)
		}
	}
}

// What the index that sweeps go by costs a claim and its completion. Nothing is flushed, or the disk's time
// would drown it.
func BenchmarkSQLiteClaimAndComplete(b *testing.B) {
	for name, prepare := range map[string]string{"with the index": ``, "without it": `DROP INDEX fifty_keys_due`} {
		b.Run(name, func(b *testing.B) {
			s := open(b, newFile(b), sqlite.Config{}.WithPragma("synchronous(OFF)"))
			if _, err := s.DB().ExecContext(b.Context(), prepare); err != nil {
				b.Fatal(err)
			}
			fill(b, s, 50_000, 200)
			answer, i := idempotency.Response{Status: 201, Body: make([]byte, 200)}, 0
			for b.Loop() {
				i++
				c := win(b, s, attempt("a1", fmt.Sprint(i)))
				if err := complete(b, s, c, idempotency.Done, answer); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Answers of up to some 40 kB are dropped in one transaction, which is what a claim may have to wait for. Larger
// ones take several, and as long again between them.
func BenchmarkSQLiteSweepOf99Answers(b *testing.B) {
	for _, body := range []int{200, 10_000, 1 << 20} {
		b.Run(fmt.Sprint(body, " bytes"), func(b *testing.B) {
			clock := newHostClock()
			s := open(b, newFile(b), sqlite.Config{Now: clock.Now})
			for b.Loop() {
				b.StopTimer()
				fill(b, s, 99, body)
				clock.Add(2 * time.Hour)
				b.StartTimer()
				if n, err := s.Keys().Sweep(b.Context(), time.Hour, 1000*time.Hour, 99); err != nil || n != 99 {
					b.Fatal(n, err)
				}
				b.StopTimer()
				clock.Add(2000 * time.Hour)
				if _, err := s.Keys().Sweep(b.Context(), time.Hour, 1000*time.Hour, 99); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}

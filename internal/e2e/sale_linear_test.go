package e2e

import (
	"crypto/rand"
	"sync"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/faults/history"
	"github.com/fiftyhosts/fifty/faults/redisserver"
	"github.com/fiftyhosts/fifty/internal/testenv"
	"github.com/fiftyhosts/fifty/inventory/inventorytest"
)

func TestStockOnSQLiteIsLinearizableOverProcessesThatAreKilled(t *testing.T) {
	t.Parallel()
	testStockLinearizable(t, func() string { return sqliteURL(t) })
}

func TestStockOnPostgresIsLinearizableOverProcessesThatAreKilled(t *testing.T) {
	t.Parallel()
	testStockLinearizable(t, func() string { return testenv.Postgres(t).Database(t) })
}

func TestStockOnRedisIsLinearizableOverProcessesThatAreKilled(t *testing.T) {
	t.Parallel()
	testStockLinearizable(t, func() string { return redisserver.Shared(t).URL() + "#" + rand.Text() })
}

// testStockLinearizable lets hosts, each a process, reserve, confirm, release and extend holds of the same SKUs,
// some of which expire, kills one of them with kill -9 in the middle and starts it again. Then one order for each
// SKU must explain what all callers were told, with what the killed one was about as unknown. Each round has a seed
// of its own, behind the first.
func testStockLinearizable(t *testing.T, database func() string) {
	t.Helper()
	first, began := seedOf(t), time.Now()
	var total history.Report
	answers := map[string]int{}
	rounds := soakRounds(t)
	var begun []*saleLine
	for n := range rounds {
		begun = append(begun, beginSaleLine(t, first+uint64(n), database()))
		if len(begun) < linearAtOnce && n < rounds-1 {
			continue
		}
		for _, l := range begun {
			h, report := l.finish()
			total = sum(total, report)
			for _, op := range h.Operations {
				if !op.Unknown() {
					answers[op.Input.Do+" "+op.Output.Answer+" "+op.Output.State.String()]++
				}
			}
			if t.Failed() {
				t.Fatalf("the round with seed %d went wrong", l.seed)
			}
		}
		begun = nil
	}
	t.Logf("soak: %s: seed %d, rounds %d, processes %d, killed %d: %v; expired holds seen %d, confirmed too late %d, in %v",
		t.Name(), first, rounds, linearHosts, rounds, total, answers["reserve yes expired"]+answers["extend expired expired"],
		answers["confirm expired lapsed"], time.Since(began).Round(time.Second))
	if total.Unknown == 0 {
		t.Errorf("a kill left no outcome unknown, so nothing was proved about it: %v", total)
	}
	for _, told := range []string{
		"reserve yes held", "reserve yes expired", "reserve sold out refused", "confirm yes confirmed", "release yes released", "extend yes held",
	} {
		if answers[told] == 0 {
			t.Errorf("nobody was told %q, so nothing was proved about it: %v", told, answers)
		}
	}
}

// saleLine is one round.
type saleLine struct {
	*linear
	store *saleStore
}

func beginSaleLine(t *testing.T, seed uint64, database string) *saleLine {
	t.Helper()
	store, err := openSale(t.Context(), database, true)
	if err != nil {
		t.Fatal(err)
	}
	store.close = sync.OnceFunc(store.close)
	t.Cleanup(store.close)
	l := &saleLine{&linear{t: t, seed: seed, database: database, folder: t.TempDir(), program: saleLinear, logs: make([][]string, 1)}, store}
	l.begin()
	return l
}

// finish waits until all have done their work, and checks what they were told.
func (l *saleLine) finish() (inventorytest.History, history.Report) {
	l.t.Helper()
	l.end()
	h, err := inventorytest.Dated(l.t.Context(), merged[inventorytest.Call, inventorytest.Told](l.linear, l.logs[0]), l.store.ledger)
	if err != nil {
		l.t.Fatal(err)
	}
	report := check(l.linear, h, inventorytest.TimedModel(inventorytest.LastAnswer(h), saleSlack))
	if off, err := l.store.ledger.Check(l.t.Context()); err != nil || len(off) > 0 {
		l.t.Errorf("the books are off: %+v, %v", off, err)
	}
	l.store.close()
	return h, report
}

package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/inventory/inventorytest"
	"github.com/fiftyhosts/fifty/store/sqlite"
)

// Each fault breaks one clause of the SQL that is shipped, and one case of the suite must notice it.
func TestSQLiteEachBrokenClauseOfStockIsNoticed(t *testing.T) {
	for _, f := range []struct {
		name, statement, old, replacement string
		noticed                           string
	}{
		{"a lone order takes what is not there", "quick", "AND available >= ?2 ", "", "the last unit is sold, and not one more"},
		{"a lone order does not look for its id", "quick", "h.id = ?4", "FALSE", "an id gets its yes again, with what has become of it, and nothing changes"},
		{"a lone order is not written down as held", "quick", "held = held + ?2", "sold = sold + ?2", "the largest quantities are exact"},
		{"a lone order is written with another time", "hold", "?3, ?4, ?5", "?3, ?4 + 86400, ?5", "a hold expires at the second that the store's clock says"},
		{"a lone order is written as confirmed", "hold", "?2, 1, ?3", "?2, 2, ?3", "what was confirmed is not released, and what was released is not confirmed"},
		{"known ids are not looked for", "known", "h.id = j.value", "h.id = j.value AND FALSE", "an id gets its yes again, with what has become of it, and nothing changes"},
		{"what expires in this second is not due", "buckets", "e.second <= ?2", "e.second < ?2", "a hold expires at the second that the store's clock says"},
		{"nothing is ever due", "buckets", "e.second <= ?2", "FALSE", "units of an expired hold are free for the next order, without a sweep"},
		{"every bucket has what is due in any", "buckets", "AND e.bucket = s.bucket ", "", "a split SKU finds units that expired in any bucket"},
		{"a hold is added without its parts", "add", "(?, ?, ?, ?", "(?, ?, ?, coalesce('[]', ?)", "an order of several SKUs is held as a whole or not at all"},
		{"a hold is added without its time", "add", "(?, ?, ?, ?, ?", "(?, ?, ?, ?, 0 * ?", "an order of several SKUs is held as a whole or not at all"},
		{"a refusal is added without its reason", "add", "(?, ?, ?, ?, ?, ?", "(?, ?, ?, ?, ?, iif(? IS NULL, NULL, NULL)", "a refused id stays refused, also when there is stock again"},
		{"a settlement leaves the state", "change", "j.value ->> 1", "1", "a release gives units back, once"},
		{"a settlement leaves the parts", "change", "parts = j.value -> 2, ", "", "a confirm of a part sells it and gives the rest back"},
		{"an extension leaves the time", "change", "expires = j.value ->> 3, ", "", "an extension moves the expiry, and never back"},
		{"a late confirm leaves no reason", "change", "short = j.value ->> 4,", "", "an expired hold whose units are gone lapses for good"},
		{"a history is not kept", "change", "j.value ->> 5", "NULL", "a hold's history says what happened, oldest first"},
		{"all buckets are written", "level", " AND bucket = ?2", "", "a split SKU sells its last unit, and not one more"},
		{"the refusals are not counted", "level", ", refusals = ?8", "", "the refusals of a SKU are bounded, and at the bound none is forgotten"},
		{"what was freed is not remembered", "level", "freed_to = ?7, ", "", "units of an expired hold are freed once"},
		{"what was freed stays due", "free", "second <= ?3", "second < ?3", "units of an expired hold are freed once"},
		{"what is to expire is freed", "free", " AND second <= ?3", "", "a hold that expires does not take the units of another with it"},
		{"two holds of a second count once", "move in", "units + excluded.units", "excluded.units", "what was confirmed is not released, and what was released is not confirmed"},
		{"what was settled still expires", "move out", "units + ?4", "units", "a hold that expires does not take the units of another with it"},
		{"any delivery is known", "delivered", "WHERE id = ?1", "", "a delivery makes a SKU that is new, and adds to one that is there"},
		{"availability does not look at the time", "levels", "e.second <= max", "FALSE AND e.second <= max", "units of an expired hold are free for the next order, without a sweep"},
		{"availability takes seconds for microseconds", "levels", " / 1000000", "", "a hold expires at the second that the store's clock says"},
		{"what was sold is not folded", "fold", "sold_folded + ?2", "sold_folded", "a sweep forgets what is over, and the levels stay"},
		{"what was delivered is not folded", "fold", "delivered_folded + ?3", "delivered_folded", "a delivery that was swept away is still in the levels"},
		{"refusals that were swept still count", "fold", "refusals - ?4", "refusals", "a sweep makes room for refusals, and only for those that it forgets"},
		{"a sweep forgets young deliveries", "old deliveries", "at <= ?1", "TRUE", "a sweep forgets nothing that is younger than it keeps"},
		{"parts stay where their bucket was", "repart", "(value ->> 1) % ?2", "value ->> 1", "holds of two split SKUs move with their own"},
		{"parts of other SKUs move too", "repart", "CASE value ->> 0 WHEN ?1 THEN (value ->> 1) % ?2 ELSE value ->> 1 END", "(value ->> 1) % ?2", "holds of two split SKUs move with their own"},
		{"what expires stays in its bucket", "unexpire", "WHERE sku = ?1", "WHERE FALSE AND sku = ?1", "holds that were split expire, and are extended, like others"},
		{"the audit takes freed holds for held", "audit held", " AND h.expires > s.freed_to", "", "the books add up after each step of a hold"},
	} {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			stores, features := stockSuite(t, sqlite.Shipped().Edit(t, f.statement, f.old, f.replacement))
			noticed(t, f.noticed, inventorytest.Catch(t, stores.stock, features, f.noticed))
		})
	}
}

// stockOf opens a file with ten units of "sku".
func stockOf(t *testing.T, cfg sqlite.Config) (*sqlite.Store, sqlite.Stock) {
	t.Helper()
	s := open(t, newFile(t), cfg)
	if err := s.Stock().Supply(t.Context(), inventory.Delivery{ID: "first", Items: inventory.Items{"sku": 10}}); err != nil {
		t.Fatal(err)
	}
	return s, s.Stock()
}

func order(id string, units int64) inventory.Ask {
	return inventory.Ask{Act: inventory.Reserve, ID: id, Items: inventory.Items{"sku": units}, TTL: time.Hour, RefusalsMax: 100}
}

// ask asks one thing, and must get an answer.
func ask(t *testing.T, k sqlite.Stock, a inventory.Ask) inventory.Answer {
	t.Helper()
	call := k.Settle
	if a.Act == inventory.Reserve {
		call = k.Reserve
	}
	got, err := call(t.Context(), []inventory.Ask{a})
	if err != nil {
		t.Fatal(err)
	}
	return got[0]
}

// The law is in the tables: whoever writes to them by hand can't break it.
func TestSQLiteNobodyCanBreakTheLawOfStockByHand(t *testing.T) {
	s, k := stockOf(t, sqlite.Config{})
	ask(t, k, order("a", 3))
	for _, broken := range []string{
		`UPDATE fifty_stock SET available = available - 1`,
		`UPDATE fifty_stock SET available = -1, held = held + available + 1`,
		`UPDATE fifty_stock SET held = -1, available = available + held + 1`,
		`UPDATE fifty_stock SET sold = -1, available = available + 1`,
		`UPDATE fifty_stock SET supply = supply + 1`,
		`UPDATE fifty_stock SET refusals = -1`,
		`UPDATE fifty_stock SET bucket = 1`,
		`UPDATE fifty_expiring SET units = -1`,
		`UPDATE fifty_holds SET state = 6`,
		`INSERT INTO fifty_holds SELECT * FROM fifty_holds`,
		`INSERT INTO fifty_deliveries SELECT * FROM fifty_deliveries`,
	} {
		if _, err := s.DB().ExecContext(t.Context(), broken); err == nil {
			t.Errorf("%s: it was done", broken)
		}
	}
	if faults, err := k.Check(t.Context()); err != nil || len(faults) > 0 {
		t.Errorf("%v, %v", faults, err)
	}
}

func TestSQLiteCheckNamesWhatIsOff(t *testing.T) {
	for what, broken := range map[string]string{
		"held":     `UPDATE fifty_stock SET held = held + 1, available = available - 1`,
		"sold":     `UPDATE fifty_stock SET sold = sold + 1, available = available - 1`,
		"supply":   `UPDATE fifty_stock SET supply = supply + 1, available = available + 1`,
		"expiring": `UPDATE fifty_expiring SET units = units + 1`,
		"refusals": `UPDATE fifty_stock SET refusals = refusals + 1`,
	} {
		s, k := stockOf(t, sqlite.Config{})
		ask(t, k, order("a", 3))
		ask(t, k, order("b", 100))
		if _, err := s.DB().ExecContext(t.Context(), broken); err != nil {
			t.Fatal(err)
		}
		faults, err := k.Check(t.Context())
		if err != nil || len(faults) == 0 || faults[0].What != what && faults[len(faults)-1].What != what {
			t.Errorf("%s: got %+v, %v", what, faults, err)
		}
	}
}

// What was settled is never settled again, even if a decision was made on what is no longer so. In a transaction
// that holds the write lock only the transaction itself can change it, and that is what happens here.
func TestSQLiteASettlementIsConditionalOnTheHoldBeingHeld(t *testing.T) {
	settle := func(broken sqlite.Statements) error {
		var tx *sql.Tx
		cfg := sqlite.Config{}.WithStatements(broken).WithHook(func(ctx context.Context, point string) {
			if point == "settletx.change" {
				if _, err := tx.ExecContext(ctx, `UPDATE fifty_holds SET state = 2`); err != nil {
					t.Error(err)
				}
			}
		})
		s, k := stockOf(t, cfg)
		ask(t, k, order("a", 3))
		var err error
		if tx, err = s.DB().BeginTx(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		_, err = k.SettleTx(t.Context(), tx, inventory.Ask{Act: inventory.Release, ID: "a"})
		return err
	}
	if err := settle(sqlite.Shipped()); err == nil {
		t.Error("what was confirmed meanwhile was released")
	}
	if err := settle(sqlite.Shipped().Edit(t, "change", " AND h.state = 1", "")); err != nil {
		t.Errorf("without the condition: %v; it is another one that stops it", err)
	}
}

func TestSQLiteABatchFailsAsAWholeAndMayBeAskedAgain(t *testing.T) {
	_, k := stockOf(t, sqlite.Config{}.WithStatements(sqlite.Shipped()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	batch := []inventory.Ask{order("a", 1), order("b", 1)}
	if _, err := k.Reserve(ctx, batch); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	got, err := k.Reserve(t.Context(), batch)
	if err != nil || got[0].Hold.Replayed || got[1].Hold.Replayed {
		t.Errorf("got %v, %v", got, err)
	}
}

// A host clock that is set back revives nothing that was seen to have expired, also in another process.
func TestSQLiteAClockThatIsSetBackRevivesNoHold(t *testing.T) {
	c := newHostClock()
	path := newFile(t)
	s := open(t, path, sqlite.Config{Now: c.Now})
	k := s.Stock()
	if err := k.Supply(t.Context(), inventory.Delivery{ID: "first", Items: inventory.Items{"sku": 2}}); err != nil {
		t.Fatal(err)
	}
	a := order("a", 2)
	a.TTL = time.Minute
	ask(t, k, a)
	c.Add(2 * time.Minute)
	if got := ask(t, k, order("b", 1)); got.Err != nil {
		t.Fatal(got.Err)
	}
	c.Add(-time.Hour)
	again := open(t, path, sqlite.Config{Now: c.Now}).Stock()
	for _, k := range []sqlite.Stock{k, again} {
		if got := ask(t, k, inventory.Ask{Act: inventory.Extend, ID: "a", TTL: time.Hour}); !errors.Is(got.Err, inventory.ErrHoldExpired) {
			t.Errorf("extending it: %v", got.Err)
		}
	}
	if got := ask(t, again, inventory.Ask{Act: inventory.Confirm, ID: "a"}); !errors.Is(got.Err, inventory.ErrHoldExpired) {
		t.Errorf("confirming it: %v", got.Err)
	}
	if faults, err := again.Check(t.Context()); err != nil || len(faults) > 0 {
		t.Errorf("%v, %v", faults, err)
	}
}

package postgres

import (
	"strings"
	"time"
)

// BreakStock returns a store like s on the same database, with the SQL of its stock changed as change says.
func (s *Store[Tx]) BreakStock(change func(sql *StockStatements)) *Store[Tx] {
	broken := *s
	broken.stock = newStockState(s.cfg.Schema)
	sql := StockStatements(*s.stock.sql)
	change(&sql)
	changed := stockStatements(sql)
	broken.stock.sql = &changed
	return &broken
}

// StockStatements is all SQL of a store's stock, for a test to change.
type StockStatements stockStatements

// SetStockLockMax changes how long a transaction waits for a row of the stock.
func (s *Store[Tx]) SetStockLockMax(d time.Duration) { s.stock.lockMax = d }

// all is what a test can change.
func (sql *StockStatements) all() []*statement {
	return []*statement{
		&sql.lock, &sql.levels, &sql.holds,
		&sql.reserveOne, &sql.freshOne, &sql.reserveMany, &sql.freshMany, &sql.reserveNew, &sql.freshNew, &sql.reserveOneTx,
		&sql.reserveNone, &sql.reserveEnter, &sql.reserveLock, &sql.reserveAll, &sql.reserveSeveral,
		&sql.insertHolds, &sql.updateHolds, &sql.insertBuckets, &sql.updateBuckets, &sql.freed, &sql.fewer, &sql.more,
		&sql.delivery, &sql.insertDelivery, &sql.availability, &sql.history,
		&sql.splitBuckets, &sql.splitExpiring, &sql.splitHolds,
		&sql.dueBuckets, &sql.lockFree, &sql.sweepOld, &sql.sweepHolds, &sql.sweepDeliveries,
	}
}

// Replace changes the texts of the statements called name, and says whether old was in one of them.
func (sql *StockStatements) Replace(name, old, replacement string) (found bool) {
	for _, st := range sql.all() {
		if st.name == name && strings.Contains(st.text, old) {
			st.text = strings.Replace(st.text, old, replacement, 1)
			found = true
		}
	}
	return found
}

// StockTexts are the statements of the stock called name.
func (s *Store[Tx]) StockTexts(name string) (texts []string) {
	sql := StockStatements(*s.stock.sql)
	for _, st := range sql.all() {
		if st.name == name {
			texts = append(texts, st.text)
		}
	}
	return texts
}

// SawKnown makes the store expect known ids, or at least ask for them.
func (s *Store[Tx]) SawKnown(expect bool) {
	s.stock.layout.knownSeen()
	if !expect {
		s.stock.layout.again.Store(0)
	}
}

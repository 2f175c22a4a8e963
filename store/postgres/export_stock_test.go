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
		&sql.lock, &sql.levels, &sql.holds, &sql.reserveOne, &sql.reserveOneTx, &sql.reserveMany, &sql.reserveNone, &sql.reserveLock, &sql.reserveAll, &sql.reserveSeveral,
		&sql.insertHolds, &sql.updateHolds, &sql.insertBuckets, &sql.updateBuckets, &sql.freed, &sql.fewer, &sql.more,
		&sql.delivery, &sql.insertDelivery, &sql.availability, &sql.history,
		&sql.splitBuckets, &sql.splitExpiring, &sql.splitHolds,
		&sql.dueBuckets, &sql.lockFree, &sql.sweepOld, &sql.sweepHolds, &sql.sweepDeliveries,
	}
}

// Replace changes the text of the statement called name, and says whether old was in it.
func (sql *StockStatements) Replace(name, old, replacement string) bool {
	for _, st := range sql.all() {
		if st.name == name && strings.Contains(st.text, old) {
			st.text = strings.Replace(st.text, old, replacement, 1)
			return true
		}
	}
	return false
}

// StockText is the statement of the stock called name.
func (s *Store[Tx]) StockText(name string) string {
	sql := StockStatements(*s.stock.sql)
	for _, st := range sql.all() {
		if st.name == name {
			return st.text
		}
	}
	return ""
}

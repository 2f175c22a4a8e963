package sqlite

import "strings"

// stockStatements is all the SQL of stock that decides something.
type stockStatements struct {
	quick, hold                  statement
	known, buckets               statement
	add, change                  statement
	make, level                  statement
	free, moveIn, moveOut, empty statement
	delivered, deliver           statement
	levels, history              statement
	oldHolds, forgetHolds, fold  statement
	oldDeliveries, forgetDeliver statement
	overdue                      statement
	unsplit, unexpire, expiring  statement
	repart                       statement
	auditLevels, auditHeld       statement
	auditSold, auditDelivered    statement
}

// Lists are JSON, ?1. json_each stands first, and CROSS JOIN keeps it there: its few members are looked up one
// by one, and no table is read through.
var shippedStock = stockStatements{
	// Each condition is one of those under which there is nothing to decide: a SKU that is not split, enough, an
	// id that nobody has used, nothing that has expired, and a clock that is behind neither the file's nor what
	// was freed already.
	quick: statement{"quick", `UPDATE fifty_stock SET available = available - ?2, held = held + ?2
		WHERE sku = ?1 AND bucket = 0 AND buckets = 1 AND available >= ?2 AND freed_to < ?3
		AND NOT EXISTS (SELECT 1 FROM fifty_holds h WHERE h.id = ?4)
		AND NOT EXISTS (SELECT 1 FROM fifty_expiring e WHERE e.sku = ?1 AND e.bucket = 0 AND e.second <= ?6)
		AND ?5 >= ` + clockMark},
	hold: statement{"hold", `INSERT INTO fifty_holds (id, items, state, parts, expires, reserved, changed)
		VALUES (?1, ?2, 1, ?3, ?4, ?5, ?5)`},

	known: statement{"known", `SELECT h.id, h.items, h.state, h.parts, h.expires, h.short, h.log, h.reserved
		FROM json_each(?1) j CROSS JOIN fifty_holds h ON h.id = j.value`},

	// What is due is read by the time that the transaction goes by. All buckets of a SKU come along.
	buckets: statement{"buckets", `SELECT s.sku, s.bucket, s.buckets, s.supply, s.available, s.held, s.sold, s.freed_to, s.refusals,
		coalesce((SELECT sum(e.units) FROM fifty_expiring e
			WHERE e.sku = s.sku AND e.bucket = s.bucket AND e.second <= ?2), 0)
		FROM json_each(?1) j CROSS JOIN fifty_stock s ON s.sku = j.value`},

	// A plain insert: an id that is there already is an error, and the whole transaction is undone. Its one row stands
	// for many, see severalRows.
	add: statement{"add", `INSERT INTO fifty_holds (id, items, state, parts, expires, short, log, reserved, changed)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`},

	// Only what is held changes. What was settled is never settled again.
	change: statement{"change", `UPDATE fifty_holds AS h SET
		state = j.value ->> 1, parts = j.value -> 2, expires = j.value ->> 3, short = j.value ->> 4,
		log = j.value ->> 5, changed = ?2
		FROM json_each(?1) j WHERE h.id = j.value ->> 0 AND h.state = 1`},

	make: statement{"make", `INSERT INTO fifty_stock
		(sku, bucket, buckets, supply, available, held, sold, freed_to, refusals) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)`},

	// Written over what the same transaction has read, behind the file's write lock.
	level: statement{"level", `UPDATE fifty_stock SET
		supply = ?3, available = ?4, held = ?5, sold = ?6, freed_to = ?7, refusals = ?8 WHERE sku = ?1 AND bucket = ?2`},

	free: statement{"free", `DELETE FROM fifty_expiring WHERE sku = ?1 AND bucket = ?2 AND second <= ?3`},

	// Two, since a row that is to be inserted is checked before it is found to be there.
	moveIn: statement{"move in", `INSERT INTO fifty_expiring (sku, bucket, second, units) VALUES (?1, ?2, ?3, ?4)
		ON CONFLICT (sku, bucket, second) DO UPDATE SET units = units + excluded.units`},
	moveOut: statement{"move out", `UPDATE fifty_expiring SET units = units + ?4
		WHERE sku = ?1 AND bucket = ?2 AND second = ?3 RETURNING units`},
	empty: statement{"empty", `DELETE FROM fifty_expiring WHERE sku = ?1 AND bucket = ?2 AND second = ?3 AND units = 0`},

	delivered: statement{"delivered", `SELECT items, away FROM fifty_deliveries WHERE id = ?1`},
	deliver:   statement{"deliver", `INSERT INTO fifty_deliveries (id, items, away, at) VALUES (?1, ?2, ?3, ?4)`},

	// One statement, so all levels are of one moment. What has expired counts as available.
	levels: statement{"levels", `SELECT s.sku, sum(s.supply), sum(s.available), sum(s.held), sum(s.sold),
		sum(coalesce((SELECT sum(e.units) FROM fifty_expiring e
			WHERE e.sku = s.sku AND e.bucket = s.bucket AND e.second <= max(?2, ` + clockMark + `) / 1000000), 0))
		FROM json_each(?1) j CROSS JOIN fifty_stock s ON s.sku = j.value GROUP BY s.sku`},

	history: statement{"history", `SELECT id, items, state, parts, expires, short, log, reserved, ` + clockMark + `
		FROM fifty_holds WHERE id = ?1`},

	// A sweep goes through the table from its beginning. What was reserved later than ?2 is not yet its concern.
	oldHolds: statement{"old holds", `SELECT h.id, h.items, h.state, h.parts, h.expires, h.short, h.log, h.reserved, h.changed, h.rowid
		FROM fifty_holds h WHERE h.rowid > ?1 ORDER BY h.rowid LIMIT ?2`},
	forgetHolds: statement{"forget holds", `DELETE FROM fifty_holds WHERE rowid IN (SELECT value FROM json_each(?1))`},
	fold: statement{"fold", `UPDATE fifty_stock SET
		sold_folded = sold_folded + ?2, delivered_folded = delivered_folded + ?3, refusals = refusals - ?4
		WHERE sku = ?1 AND bucket = 0`},
	oldDeliveries: statement{"old deliveries", `SELECT rowid, items, away FROM fifty_deliveries
		WHERE at <= ?1 ORDER BY rowid LIMIT ?2`},
	forgetDeliver: statement{"forget deliveries", `DELETE FROM fifty_deliveries WHERE rowid IN (SELECT value FROM json_each(?1))`},

	overdue: statement{"overdue", `SELECT DISTINCT sku FROM fifty_expiring WHERE second <= ?1 LIMIT ?2`},

	expiring: statement{"expiring", `SELECT bucket, second, units FROM fifty_expiring WHERE sku = ?1`},
	unexpire: statement{"unexpire", `DELETE FROM fifty_expiring WHERE sku = ?1`},
	unsplit: statement{"unsplit", `DELETE FROM fifty_stock WHERE sku = ?1
		RETURNING delivered_folded, sold_folded`},

	// The parts of what is held move with their buckets. What was sold is counted by SKU.
	repart: statement{"repart", `UPDATE fifty_holds SET parts = (
			SELECT json_group_array(json_array(value ->> 0,
				CASE value ->> 0 WHEN ?1 THEN (value ->> 1) % ?2 ELSE value ->> 1 END, value ->> 2) ORDER BY key)
			FROM json_each(parts))
		WHERE state = 1 AND EXISTS (SELECT 1 FROM json_each(parts) WHERE value ->> 0 = ?1)`},

	auditLevels: statement{"audit levels", `SELECT s.sku, s.bucket, s.supply, s.available, s.held, s.sold, s.refusals,
		s.delivered_folded, s.sold_folded,
		coalesce((SELECT sum(e.units) FROM fifty_expiring e WHERE e.sku = s.sku AND e.bucket = s.bucket), 0)
		FROM fifty_stock s ORDER BY s.sku, s.bucket`},

	// A hold counts as held until the second in which it expires has been freed in the bucket of its part.
	auditHeld: statement{"audit held", `SELECT p.value ->> 0, p.value ->> 1, sum(p.value ->> 2)
		FROM fifty_holds h CROSS JOIN json_each(h.parts) p
		CROSS JOIN fifty_stock s ON s.sku = p.value ->> 0 AND s.bucket = p.value ->> 1
		WHERE h.state = 1 AND h.expires > s.freed_to GROUP BY 1, 2`},
	auditSold: statement{"audit sold", `SELECT sku, sum(sold), sum(refused) FROM (
			SELECT p.value ->> 0 AS sku, p.value ->> 2 AS sold, 0 AS refused
				FROM fifty_holds h CROSS JOIN json_each(h.parts) p WHERE h.state = 2
			UNION ALL SELECT short ->> 0, 0, 1 FROM fifty_holds WHERE state = 4
		) GROUP BY sku`},
	auditDelivered: statement{"audit delivered", `SELECT i.key, sum(CASE away WHEN 1 THEN -i.value ELSE i.value END)
		FROM fifty_deliveries d CROSS JOIN json_each(d.items) i GROUP BY i.key`},
}

// rowsMax is the most rows in one statement.
const rowsMax = 64

// severalRows returns an insert of one row, and the same of 2, 4 and more rows, up to rowsMax: a batch is written by
// a few of them, which a connection keeps prepared. Its arguments must have no numbers: the driver asks for the name of
// each, and SQLite goes through all that have one.
func (st statement) severalRows() (all []statement) {
	begin, row, _ := strings.Cut(st.text, "VALUES ")
	for n := 1; n <= rowsMax; n *= 2 {
		all = append(all, statement{st.name, begin + "VALUES " + strings.Repeat(row+", ", n-1) + row})
	}
	return all
}

// reused are worth keeping prepared on each connection.
func (s *stockStatements) reused() []statement {
	return []statement{
		s.quick, s.hold, s.known, s.buckets, s.change, s.level, s.free, s.moveIn, s.moveOut, s.empty, s.delivered, s.deliver, s.levels,
	}
}

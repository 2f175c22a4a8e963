package sqlite

import (
	"slices"
	"strings"
)

// statement is one SQL statement and the name by which tests know it.
type statement struct{ name, text string }

// of puts the name of a savepoint into a statement about it.
func (st statement) of(savepoint string) statement {
	st.text = strings.Replace(st.text, "{name}", savepoint, 1)
	return st
}

// statements is all the SQL that decides something. It is a value, so that a test can break its own copy.
type statements struct {
	lock, marks, advance     statement
	insert, look, take       statement
	renew, complete, find    statement
	step, unstep             statement
	due, bury, forget, raise statement
	list, listScope          statement
	decide, audit, audited   statement
	erasable, erase          statement
	keepSecret, readSecret   statement
	savepoint, undo, release statement
	stock                    stockStatements
}

// columns are those of a record, in the order in which scan reads them. The steps are in one column, so that
// a record and its steps are always of one moment.
const columns = `fingerprint, state, token, attempt, owner, resume, expires, created,
	status, header, body, not_replayable,
	(SELECT json_group_array(json_array(s.name, s.sent, hex(s.result)) ORDER BY s.id)
		FROM fifty_steps s WHERE s.scope = k.scope AND s.key = k.key)`

const clockMark = `(SELECT value FROM fifty_marks WHERE name = 'clock')`

// listed begins a statement that lists records. filtered ends it: what ?3 to ?6 select. The time is ?4, or
// the file's if that is later.
const (
	listed = `SELECT ` + columns + `, ` + clockMark + `, scope, key FROM fifty_keys k WHERE `

	filtered = ` AND (?3 = 0 OR state = 3 OR (state = 1 AND expires <= max(?4, ` + clockMark + `)))
		AND max(max(?4, ` + clockMark + `) - created, 0) >= ?5
		ORDER BY scope, key LIMIT ?6`
)

var shipped = statements{
	// Changes nothing and takes the file's write lock: in a transaction that began deferred, whoever holds
	// a snapshot that is no longer the newest is refused here, before anything is decided.
	lock: statement{"lock", `DELETE FROM fifty_marks WHERE name = ''`},

	marks: statement{"marks", `SELECT
		` + clockMark + `,
		(SELECT value FROM fifty_marks WHERE name = 'keys.token')`},

	// The time is above the mark that the same transaction has read, so the mark only rises.
	advance: statement{"advance", `UPDATE fifty_marks SET value = ?1 WHERE name = 'clock'`},

	// A key that is there already is an answer, not an error: DO NOTHING leaves the record to be read.
	insert: statement{"insert", `INSERT INTO fifty_keys
		(scope, key, fingerprint, state, token, attempt, owner, resume, expires, created, changed, made)
		VALUES (?1, ?2, ?3, 1, ?4, ?5, ?6, ?7, ?8, ?9, ?9, ?10)
		ON CONFLICT (scope, key) DO NOTHING`},

	look: statement{"look", `SELECT ` + columns + ` FROM fifty_keys k WHERE scope = ?1 AND key = ?2`},

	// The conditions on token, attempt and state say that the record is still the one that was read. A
	// claim in flight must still be expired, by the time that this transaction goes by.
	take: statement{"take", `UPDATE fifty_keys SET
		fingerprint = ?3, state = 1, token = token + 1, attempt = ?4, owner = ?5, resume = ?6, expires = ?7,
		status = 0, header = NULL, body = NULL, not_replayable = 0, changed = ?8, made = ?12
		WHERE scope = ?1 AND key = ?2 AND token = ?9 AND attempt = ?10 AND state = ?11
		AND (state <> 1 OR expires <= ?8)`},

	// expires > now: a renewal never revives.
	renew: statement{"renew", `UPDATE fifty_keys SET expires = ?5, changed = ?6
		WHERE scope = ?1 AND key = ?2 AND token = ?3 AND attempt = ?4 AND state = 1 AND expires > ?6`},

	// Conditional on the owner and not on the expiry: a late result that nobody superseded counts. States
	// 1 and 3 are the undecided ones; what was decided is never decided again. A claim that is let go
	// stays in state 1 and has expired.
	complete: statement{"complete", `UPDATE fifty_keys SET
		state = ?5, status = ?6, header = ?7, body = ?8, not_replayable = ?9, changed = ?10,
		expires = CASE ?5 WHEN 1 THEN min(expires, ?10) ELSE expires END
		WHERE scope = ?1 AND key = ?2 AND token = ?3 AND attempt = ?4 AND state IN (1, 3)`},

	// One statement, so the record and the mark are of one moment.
	find: statement{"find", `SELECT ` + columns + `, ` + clockMark + ` FROM fifty_keys k WHERE scope = ?1 AND key = ?2`},

	// The owner's row is read and the step is written in one statement: no row, no step. Like a completion
	// it does not ask for the expiry. A result stays: what comes without one behind it was held up on its way.
	step: statement{"step", `INSERT INTO fifty_steps (scope, key, name, sent, result)
		SELECT scope, key, ?5, ?6, ?7 FROM fifty_keys
		WHERE scope = ?1 AND key = ?2 AND token = ?3 AND attempt = ?4 AND state = 1
		ON CONFLICT (scope, key, name) DO UPDATE SET
			sent = CASE WHEN excluded.result IS NULL AND fifty_steps.result IS NOT NULL THEN fifty_steps.sent ELSE excluded.sent END,
			result = coalesce(excluded.result, fifty_steps.result)`},
	unstep: statement{"unstep", `DELETE FROM fifty_steps WHERE scope = ?1 AND key = ?2`},

	// What a sweep drops next, how many bytes, and whether there are steps to forget, which is seldom. What the
	// index holds is said once more, or SQLite does not use it. changed stays: the tombstone's time counts from
	// when the work was done. ?1 is a JSON array of rows that the same transaction has read as due.
	due: statement{"due", `SELECT rowid, scope, key, ` + size + `, ` + hasSteps + ` FROM fifty_keys k
		WHERE state = 2 AND changed <= ?1 AND state IN (2, 4, 5) ORDER BY changed LIMIT ?2`},
	bury: statement{"bury", `UPDATE fifty_keys SET
		state = 5, status = 0, header = NULL, body = NULL, not_replayable = 0
		WHERE rowid IN (SELECT value FROM json_each(?1))`},

	// made < and not <=: a tombstone outlives the window of its time-ordered key by a moment.
	forget: statement{"forget", `DELETE FROM fifty_keys
		WHERE rowid IN (SELECT rowid FROM fifty_keys
			WHERE state = ?1 AND changed <= ?2 AND made < ?3 AND state IN (2, 4, 5) ORDER BY changed LIMIT ?4)
		RETURNING scope, key, token`},

	raise: statement{"raise", `UPDATE fifty_marks SET value = max(value, ?1) WHERE name = 'keys.token'`},

	// Two, since a condition that may be absent would keep SQLite from looking in the right place.
	list:      statement{"list", listed + `(scope, key) > (?1, ?2)` + filtered},
	listScope: statement{"list", listed + `scope = ?1 AND key > ?2` + filtered},

	// Only what is unknown, or in flight and expired. Neither token nor attempt are the owner's after it.
	decide: statement{"decide", `UPDATE fifty_keys SET
		state = ?5, token = token + 1, attempt = '', status = ?6, header = ?7, body = ?8, not_replayable = ?9,
		changed = ?4
		WHERE scope = ?1 AND key = ?2 AND (?3 = 0 OR token = ?3)
		AND (state = 3 OR (state = 1 AND expires <= ?4))`},

	audit: statement{"audit", `INSERT INTO fifty_audit
		(scope, key, at, decided_by, note, from_state, to_state, token) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)`},

	audited: statement{"audited", `SELECT at, decided_by, note, from_state, to_state, token
		FROM fifty_audit WHERE scope = ?1 AND key = ?2 ORDER BY id`},

	// A look without the write lock, at most so many keys behind ?2; erase then decides.
	erasable: statement{"erasable", `SELECT key, ` + size + ` FROM fifty_keys k
		WHERE scope = ?1 AND key > ?2 AND state = 2 AND ` + hasAnswer + ` ORDER BY key LIMIT ?3`},
	erase: statement{"erase", `UPDATE fifty_keys AS k SET header = NULL, body = NULL, not_replayable = 1
		WHERE scope = ?1 AND key = ?2 AND state = 2 AND ` + hasAnswer},

	keepSecret: statement{"keep", `INSERT INTO fifty_secrets (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING`},
	readSecret: statement{"read", `SELECT value FROM fifty_secrets WHERE name = ?1`},

	savepoint: statement{"savepoint", `SAVEPOINT {name}`},
	undo:      statement{"undo", `ROLLBACK TO {name}`},
	release:   statement{"release", `RELEASE {name}`},

	stock: shippedStock,
}

// size is how many bytes of answer and steps a record has, nearly.
const size = `coalesce(length(body), 0) + coalesce((SELECT sum(length(s.result))
	FROM fifty_steps s WHERE s.scope = k.scope AND s.key = k.key), 0)`

// hasAnswer: an answer that was too large was not kept, but the steps that led to it may have been.
const hasAnswer = `(not_replayable = 0
	OR ` + hasSteps + `)`

const hasSteps = `EXISTS (SELECT 1 FROM fifty_steps s WHERE s.scope = k.scope AND s.key = k.key)`

// reused returns the texts that are worth keeping prepared on each connection: those of more as well.
func (s *statements) reused(more []statement) map[string]bool {
	texts := map[string]bool{}
	for _, st := range append(slices.Concat(s.stock.reused(), more),
		s.lock, s.marks, s.advance, s.insert, s.look, s.take, s.renew, s.complete, s.find, s.step, s.unstep, s.bury, s.erase,
	) {
		texts[st.text] = true
	}
	return texts
}

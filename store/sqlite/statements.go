package sqlite

import "strings"

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
	keepSecret, readSecret   statement
	savepoint, undo, release statement
}

// columns are those of a record, in the order in which scanRecord reads them.
const columns = `fingerprint, state, token, attempt, owner, resume, expires, status, header, body, not_replayable`

var shipped = statements{
	// Changes nothing and takes the file's write lock: in a transaction that began deferred, whoever holds
	// a snapshot that is no longer the newest is refused here, before anything is decided.
	lock: statement{"lock", `DELETE FROM fifty_marks WHERE name = ''`},

	marks: statement{"marks", `SELECT
		(SELECT value FROM fifty_marks WHERE name = 'clock'),
		(SELECT value FROM fifty_marks WHERE name = 'keys.token')`},

	// The time is above the mark that the same transaction has read, so the mark only rises.
	advance: statement{"advance", `UPDATE fifty_marks SET value = ?1 WHERE name = 'clock'`},

	// A key that is there already is an answer, not an error: DO NOTHING leaves the record to be read.
	insert: statement{"insert", `INSERT INTO fifty_keys
		(scope, key, fingerprint, state, token, attempt, owner, resume, expires, created, changed)
		VALUES (?1, ?2, ?3, 1, ?4, ?5, ?6, ?7, ?8, ?9, ?9)
		ON CONFLICT (scope, key) DO NOTHING`},

	look: statement{"look", `SELECT ` + columns + ` FROM fifty_keys WHERE scope = ?1 AND key = ?2`},

	// The conditions on token, attempt and state say that the record is still the one that was read. A
	// claim in flight must still be expired, by the time that this transaction goes by.
	take: statement{"take", `UPDATE fifty_keys SET
		fingerprint = ?3, state = 1, token = token + 1, attempt = ?4, owner = ?5, resume = ?6, expires = ?7,
		status = 0, header = NULL, body = NULL, not_replayable = 0, changed = ?8
		WHERE scope = ?1 AND key = ?2 AND token = ?9 AND attempt = ?10 AND state = ?11
		AND (state <> 1 OR expires <= ?8)`},

	// expires > now: a renewal never revives.
	renew: statement{"renew", `UPDATE fifty_keys SET expires = ?5, changed = ?6
		WHERE scope = ?1 AND key = ?2 AND token = ?3 AND attempt = ?4 AND state = 1 AND expires > ?6`},

	// Conditional on the owner and not on the expiry: a late result that nobody superseded counts. States
	// 1 and 3 are the undecided ones; what was decided is never decided again.
	complete: statement{"complete", `UPDATE fifty_keys SET
		state = ?5, status = ?6, header = ?7, body = ?8, not_replayable = ?9, changed = ?10
		WHERE scope = ?1 AND key = ?2 AND token = ?3 AND attempt = ?4 AND state IN (1, 3)`},

	// One statement, so the record and the mark are of one moment.
	find: statement{"find", `SELECT ` + columns + `, (SELECT value FROM fifty_marks WHERE name = 'clock')
		FROM fifty_keys WHERE scope = ?1 AND key = ?2`},

	keepSecret: statement{"keep", `INSERT INTO fifty_secrets (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING`},
	readSecret: statement{"read", `SELECT value FROM fifty_secrets WHERE name = ?1`},

	savepoint: statement{"savepoint", `SAVEPOINT {name}`},
	undo:      statement{"undo", `ROLLBACK TO {name}`},
	release:   statement{"release", `RELEASE {name}`},
}

// reused returns the texts that are worth keeping prepared on each connection.
func (s *statements) reused() map[string]bool {
	texts := map[string]bool{}
	for _, st := range []statement{
		s.lock, s.marks, s.advance, s.insert, s.look, s.take, s.renew, s.complete, s.find,
	} {
		texts[st.text] = true
	}
	return texts
}

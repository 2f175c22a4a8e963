package postgres

import (
	"context"
	"fmt"
	"strings"
)

// SetHook makes fn see every round trip before it is sent.
func (s *Store[Tx]) SetHook(fn func(ctx context.Context, point string)) { s.hook.before = fn }

// Break returns a store like s on the same database, with the SQL changed as break says.
func (s *Store[Tx]) Break(change func(sql *Statements)) *Store[Tx] {
	broken := *s
	sql := Statements(*s.statements)
	change(&sql)
	changed := statements(sql)
	broken.statements = &changed
	return &broken
}

// Statements is all SQL of a store, for a test to change.
type Statements statements

// LockNumber is the number of a key's lock as the program makes it.
func (s *Store[Tx]) LockNumber(scope, key string) int64 { return s.lockNumber(scope, key) }

// LockNumberSQL is the same of the columns scope and key, as a sweep makes it.
func LockNumberSQL(schema string) string { return strings.ReplaceAll(lockNumberSQL, "{name}", schema) }

// MigrationsUpTo are the statements that make the tables of an earlier version.
func MigrationsUpTo(version int) []string {
	sql := statementsFor("fifty")
	all := []string{sql.migrationsSchema.text, sql.migrationsCreate.text}
	for _, m := range migrations()[:version] {
		all = append(all, m.in("fifty"), fmt.Sprintf("insert into fifty.migrations values (%d, '%s', %d)", m.version, m.name, m.oldest))
	}
	return all
}

// Newest is the version of the tables that this program knows.
func Newest() int { return len(migrations()) }

// Text is the statement called name.
func (s *Store[Tx]) Text(name string) string {
	sql := Statements(*s.statements)
	for _, st := range sql.all() {
		if st.name == name {
			return st.text
		}
	}
	return ""
}

// all is what a test can change.
func (sql *Statements) all() []*statement {
	return []*statement{
		&sql.claimInsert, &sql.claimLook, &sql.claimTake, &sql.claimTxInsert, &sql.claimTxLook, &sql.claimTxTake,
		&sql.claimInsertMany, &sql.claimLookMany, &sql.renewMany, &sql.completeMany, &sql.findMany,
		&sql.renew, &sql.complete, &sql.find, &sql.answerFind, &sql.saveStep, &sql.tidyEnter, &sql.sweepEnter, &sql.sweep, &sql.sweepAround, &sql.list, &sql.audit, &sql.erase,
		&sql.resolveLock, &sql.resolve, &sql.enterKey, &sql.enterLook, &sql.guardLock, &sql.guardNew, &sql.answer, &sql.answerOver,
		&sql.claimSavepoint, &sql.claimUndo, &sql.claimRelease, &sql.undo,
	}
}

// Replace changes the text of the statement called name, and says whether old was in it.
func (sql *Statements) Replace(name, old, replacement string) bool {
	for _, st := range sql.all() {
		if st.name == name && strings.Contains(st.text, old) {
			st.text = strings.Replace(st.text, old, replacement, 1)
			return true
		}
	}
	return false
}

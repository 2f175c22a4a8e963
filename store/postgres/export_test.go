package postgres

import "context"

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

// Newest is the version of the tables that this program knows.
func Newest() int { return len(migrations()) }

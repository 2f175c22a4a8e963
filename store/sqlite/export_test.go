package sqlite

import (
	"context"
	"strings"
	"testing"
)

// Statements is the SQL that decides, for tests that break a copy of it.
type Statements = statements

// Shipped returns a copy of the SQL that a Store uses.
func Shipped() Statements { return shipped }

// WithHook makes a Store call hook before each of its statements.
func (c Config) WithHook(hook func(ctx context.Context, point string)) Config {
	c.before = hook
	return c
}

// WithStatements makes a Store use other SQL.
func (c Config) WithStatements(s Statements) Config {
	c.sql = s
	return c
}

// WithPragma sets a pragma on each connection of a Store.
func (c Config) WithPragma(pragma string) Config {
	c.pragmas = append(c.pragmas, pragma)
	return c
}

// Waiting is how many callers wait for their turn at the writer.
func (s *Store) Waiting() int { return int(s.turn.waiting.Load()) }

// Edit returns a copy in which old, a part of the statement's text that is there once, is replaced. It is
// how a test breaks the SQL that is shipped.
func (s Statements) Edit(tb testing.TB, name, old, replacement string) Statements {
	tb.Helper()
	st := map[string]*statement{
		"lock": &s.lock, "marks": &s.marks, "advance": &s.advance,
		"insert": &s.insert, "look": &s.look, "take": &s.take,
		"renew": &s.renew, "complete": &s.complete, "find": &s.find,
		"keep": &s.keepSecret, "read": &s.readSecret,
		"savepoint": &s.savepoint, "undo": &s.undo, "release": &s.release,
	}[name]
	if st == nil || strings.Count(st.text, old) != 1 {
		tb.Fatalf("statement %q does not have %q once", name, old)
	}
	st.text = strings.Replace(st.text, old, replacement, 1)
	return s
}

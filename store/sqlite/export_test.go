package sqlite

import (
	"context"
	"strings"
	"testing"
	"time"
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

// Edit returns a copy in which old, a part of the statement's text that is there once, is replaced. It is
// how a test breaks the SQL that is shipped.
func (s Statements) Edit(tb testing.TB, name, old, replacement string) Statements {
	tb.Helper()
	st := map[string]*statement{
		"lock": &s.lock, "marks": &s.marks, "advance": &s.advance,
		"insert": &s.insert, "look": &s.look, "take": &s.take,
		"renew": &s.renew, "complete": &s.complete, "find": &s.find,
		"keep": &s.keepSecret, "read": &s.readSecret,
		"step": &s.step, "unstep": &s.unstep,
		"due": &s.due, "bury": &s.bury, "forget": &s.forget, "raise": &s.raise,
		"list": &s.list, "listScope": &s.listScope,
		"decide": &s.decide, "audit": &s.audit, "audited": &s.audited,
		"erasable": &s.erasable, "erase": &s.erase,
		"savepoint": &s.savepoint, "undo": &s.undo, "release": &s.release,
	}[name]
	if st == nil {
		st = s.stock.named(name)
	}
	if st == nil || strings.Count(st.text, old) != 1 {
		tb.Fatalf("statement %q does not have %q once", name, old)
	}
	st.text = strings.Replace(st.text, old, replacement, 1)
	return s
}

// Text returns the text of one of the statements that a sweep looks with.
func (s Statements) Text(name string) string {
	return map[string]string{"due": s.due.text, "forget": s.forget.text}[name]
}

// Sweeping is one call of Sweep, a transaction at a time.
type Sweeping struct{ run sweeping }

// Sweeping begins one.
func (k Keys) Sweeping(retention, tombstone time.Duration) *Sweeping {
	return &Sweeping{sweeping{keys: k, retention: micros(retention), tombstone: micros(tombstone)}}
}

// Next is one transaction. It returns how many records it worked on.
func (s *Sweeping) Next(ctx context.Context, limit int) (int, error) { return s.run.next(ctx, limit) }

// Gap is how long the file is then left alone, in shares of the time that the transaction took.
func (s *Sweeping) Gap() float64 { return float64(s.run.gap()) / float64(s.run.took) }

package sqlite

import "context"

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

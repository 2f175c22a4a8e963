package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/txn"
)

// ErrNested says that a call that needs the file's writer was made, with the function's context, from
// within a transaction of the same Store, which holds it: the call would wait for itself. Nothing changed.
// Use the transaction at hand (DoTx), or call after it.
var ErrNested = errors.New("sqlite: called within a transaction of this store, which holds its only writer")

// ErrUndone says that SQLite has rolled the transaction back by itself, because of an earlier error in it
// (a statement that was interrupted, a full disk). Every later statement and the commit get it: else they
// would take effect outside of any transaction. Nothing of the transaction was committed.
var ErrUndone = errors.New("sqlite: the transaction was rolled back by an earlier error in it")

// code returns SQLite's extended result code, or SQLITE_OK if err is not SQLite's.
func code(err error) int {
	if e, ok := errors.AsType[*driver.Error](err); ok {
		return e.Code()
	}
	return lib.SQLITE_OK
}

// primary returns the result code without its detail.
func primary(err error) int { return code(err) & 0xff }

// classify says what an error of this store means, whatever it was wrapped in; see txn.Store. A busy or
// locked file is Retryable, and so is a snapshot that another's commit has overtaken: nothing was
// committed. Only a COMMIT is ever Unknown.
func classify(err error) txn.Class {
	if errors.Is(err, fifty.ErrUnknownOutcome) {
		return txn.Unknown
	}
	switch primary(err) {
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_PROTOCOL:
		return txn.Retryable
	default:
		return txn.Permanent
	}
}

// committing adds to an error of COMMIT what it leaves behind. SQLite writes the transaction's pages to the log,
// the last of them marked as the commit, flushes, and only then lets others see it. A full disk fails
// before that mark is whole. An I/O error may come after it: nobody sees the commit, but should the process
// die before another transaction has overwritten it, the next one to open the file will find it.
func committing(err error) error {
	if settled(err) {
		return fmt.Errorf("sqlite: commit: %w", err)
	}
	return fmt.Errorf("sqlite: commit: %w: %w", fifty.ErrUnknownOutcome, err)
}

// settled says that the error of a COMMIT proves that nothing was committed.
func settled(err error) bool {
	if errors.Is(err, ErrUndone) {
		return true
	}
	return settledCode(primary(err))
}

func settledCode(primary int) bool {
	switch primary {
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_PROTOCOL, // somebody else's lock
		lib.SQLITE_FULL, lib.SQLITE_READONLY,
		lib.SQLITE_CONSTRAINT, // a deferred foreign key
		lib.SQLITE_ERROR,      // there was no transaction
		lib.SQLITE_INTERRUPT, lib.SQLITE_ABORT:
		return true
	default:
		return false
	}
}

// explain adds what to do to the errors that have one cause.
func explain(op string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("sqlite: %s: %w", op, err)
	}
	if code(err) == lib.SQLITE_BUSY_SNAPSHOT {
		return fmt.Errorf("sqlite: %s: the transaction read before it wrote, and another has written since; run it again, or begin it IMMEDIATE: %w", op, err)
	}
	switch primary(err) {
	case lib.SQLITE_ERROR:
		if tablesMissing(err.Error()) {
			return fmt.Errorf("sqlite: %s: the tables of this version are not there; call Migrate first: %w", op, err)
		}
		return fmt.Errorf("sqlite: %s: %w", op, err)
	case lib.SQLITE_BUSY:
		return fmt.Errorf("sqlite: %s: another process held the file's write lock for longer than Config.BusyTimeout; nothing changed, try again: %w", op, err)
	case lib.SQLITE_FULL:
		return fmt.Errorf("sqlite: %s: no space is left for the file; nothing changed: %w", op, err)
	case lib.SQLITE_READONLY, lib.SQLITE_PERM:
		return fmt.Errorf("sqlite: %s: the file can't be written; it, its folder, and the files -wal and -shm beside it must be this user's to write: %w", op, err)
	case lib.SQLITE_CANTOPEN:
		return fmt.Errorf("sqlite: %s: the file can't be opened; it, its folder, and the files -wal and -shm beside it must be this user's to read and write: %w", op, err)
	case lib.SQLITE_NOTADB:
		return fmt.Errorf("sqlite: %s: the file is not an SQLite database: %w", op, err)
	case lib.SQLITE_CORRUPT:
		return fmt.Errorf("sqlite: %s: the database is damaged; restore it from a backup: %w", op, err)
	default:
		return fmt.Errorf("sqlite: %s: %w", op, err)
	}
}

// tablesMissing says that a table of ours, or a column of one, is not there.
func tablesMissing(message string) bool {
	for _, text := range []string{"no such table: fifty_", "table fifty_keys has no column", "no such column: made"} {
		if strings.Contains(message, text) {
			return true
		}
	}
	return false
}

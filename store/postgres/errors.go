package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/txn"
)

// ErrEnded says that a function ended the transaction that it was given, by a COMMIT or ROLLBACK of its
// own. What it had done until then may be committed, without the answer that belongs to it.
var ErrEnded = errors.New("postgres: the function ended the transaction, which is not its to end")

// ErrReadOnly says that the database takes no writes: it is a standby, or its transactions are read-only by
// default. Nothing was changed, and no function did anything. See Store.Check.
var ErrReadOnly = errors.New("the database takes no writes; connect to the primary (target_session_attrs=read-write) or turn default_transaction_read_only off")

// ErrSchemaTooOld says that the tables, or a part of them, are not there yet. Nothing was changed.
var ErrSchemaTooOld = errors.New("the tables are missing or older than this program; call Migrate")

// SQLSTATEs that this package tells apart.
const (
	readOnly             = "25006"
	noSchema             = "3F000"
	noTable              = "42P01"
	noColumn             = "42703"
	guardFailed          = "22P02" // text that is no number, see guardLockSQL
	floorRose            = "22012" // division by zero, see claimInsertSQL
	notWhole             = "22012" // the same, see reserveNewSQL
	floorUnset           = "23502" // a token that is null, see floorSQL
	uniqueViolation      = "23505"
	serializationFailure = "40001"
	statementUnknown     = "40003"
	deadlockDetected     = "40P01"
	tooManyConnections   = "53300"
	adminShutdown        = "57P01"
	crashShutdown        = "57P02"
	cannotConnectNow     = "57P03"
	cannotEstablish      = "08001"
	connectionRejected   = "08004"
)

// storeError is an error of one of this package's statements. Where it happened decides what it means: a
// connection that is lost before COMMIT was sent has committed nothing.
type storeError struct {
	point string
	class txn.Class
	err   error
}

func (e *storeError) Error() string {
	text := "postgres: " + e.point + ": "
	if e.class == txn.Unknown {
		text += fifty.ErrUnknownOutcome.Error() + ": "
	}
	if setup := e.setup(); setup != nil {
		text += setup.Error() + ": "
	}
	return text + e.err.Error()
}

// Unwrap returns the driver's error, and fifty.ErrUnknownOutcome where the outcome is open.
func (e *storeError) Unwrap() []error {
	all := []error{e.err}
	if e.class == txn.Unknown {
		all = append(all, fifty.ErrUnknownOutcome)
	}
	if setup := e.setup(); setup != nil {
		all = append(all, setup)
	}
	return all
}

// setup is the error that says what is wrong with the database as a whole, if that is it.
func (e *storeError) setup() error {
	switch {
	case isState(e.err, readOnly):
		return ErrReadOnly
	case isState(e.err, noSchema, noTable, noColumn, floorUnset):
		return ErrSchemaTooOld
	default:
		return nil
	}
}

// phase is where in a transaction an error came up.
type phase int

const (
	connecting phase = iota // nothing was sent
	within                  // COMMIT was not sent
	committing              // COMMIT was sent, or a statement that commits by itself
)

// fail makes a storeError of an error of the driver; ctx is that of the call.
func fail(ctx context.Context, point string, p phase, err error) error {
	return &storeError{point: point, class: classIn(ctx, p, err), err: err}
}

func classIn(ctx context.Context, p phase, err error) txn.Class {
	if state, ok := sqlState(err); ok {
		switch class := classOf(state); {
		case class == txn.Unknown && p != committing:
			return txn.Retryable // lost before anything could be committed
		case state == floorRose:
			return txn.Retryable // rolled back, as by a serialization failure
		default:
			return class
		}
	}
	lost := txn.Retryable
	if ctx.Err() != nil {
		lost = txn.Permanent // the caller's time is over
	}
	switch {
	case p == connecting, nothingSent(err):
		return lost
	case p == committing && !errors.Is(err, pgx.ErrTxCommitRollback):
		return txn.Unknown
	case connectionLost(err):
		return lost
	default:
		return txn.Permanent
	}
}

// classOf is what the server's own word means.
func classOf(state string) txn.Class {
	switch state {
	case serializationFailure, deadlockDetected, tooManyConnections, cannotConnectNow, cannotEstablish:
		return txn.Retryable
	case statementUnknown, adminShutdown, crashShutdown:
		return txn.Unknown
	case connectionRejected:
		return txn.Permanent
	}
	if strings.HasPrefix(state, "08") { // the connection between here and the server, or a pooler on the way
		return txn.Unknown
	}
	// Also 55P03, a lock time-out: the caller has set one in order to be told, not to wait again.
	return txn.Permanent
}

// classify is Classify of Txns and Keys.
func classify(err error) txn.Class {
	if err == nil {
		return txn.Permanent
	}
	if e, ok := errors.AsType[*storeError](err); ok {
		return e.class
	}
	if errors.Is(err, fifty.ErrUnknownOutcome) {
		return txn.Unknown
	}
	if state, ok := sqlState(err); ok {
		return classOf(state)
	}
	return txn.Permanent
}

// sqlState is the server's code, under any driver that tells it.
func sqlState(err error) (string, bool) {
	var coded interface{ SQLState() string }
	if errors.As(err, &coded) {
		return coded.SQLState(), true
	}
	return "", false
}

func isState(err error, states ...string) bool {
	got, ok := sqlState(err)
	for _, state := range states {
		if ok && got == state {
			return true
		}
	}
	return false
}

// isLostRace says that a statement was rolled back because of a neighbour, and may run again.
func isLostRace(err error) bool {
	return isState(err, serializationFailure, deadlockDetected, floorRose)
}

// lostWithin marks an error that a function got because its transaction's connection was lost: nothing was
// committed. Any other error, and one whose meaning is known already, is left as it is.
func lostWithin(ctx context.Context, err error) error {
	_, known := errors.AsType[*storeError](err)
	if known || errors.Is(err, fifty.ErrUnknownOutcome) || !connectionLost(err) {
		return err
	}
	return fail(ctx, "transaction", within, err)
}

// nothingSent says that the statement never left, or that there was no connection to send it on. Only pgx
// tells, so with another driver a failure to connect counts as unknown, which is safe.
func nothingSent(err error) bool {
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	return pgconn.SafeToRetry(err)
}

// connectionLost says that err is one of a broken connection.
func connectionLost(err error) bool {
	if state, ok := sqlState(err); ok {
		return classOf(state) == txn.Unknown
	}
	for _, lost := range []error{
		io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, pgconn.ErrConnClosed, driver.ErrBadConn, sql.ErrConnDone,
	} {
		if errors.Is(err, lost) {
			return true
		}
	}
	var netErr net.Error
	return errors.As(err, &netErr)
}

package redis

import (
	"errors"
	"net"
	"strings"

	"github.com/redis/rueidis"

	"github.com/fiftyhosts/fifty"
)

// What is wrong with Redis as a whole. Nothing was done.
var (
	// ErrReadOnly: this Redis is a replica, or became one in a failover. Connect to the primary.
	ErrReadOnly = errors.New("this Redis takes no writes; connect to the primary")

	// ErrOutOfMemory: Redis has no room. Give it more, or let Sweep run.
	ErrOutOfMemory = errors.New("Redis is out of memory")

	// ErrBroken: something else has changed the stock's keys, so that they don't add up. What needs them is
	// refused until they are repaired: Ledger.Check says what is off.
	ErrBroken = errors.New("the stock in Redis is not whole; look at it with Ledger.Check")

	// ErrTooMany: there are more records than Config.CheckMax.
	ErrTooMany = errors.New("too many records for one script; ask a replica, with a higher Config.CheckMax")
)

// brokenMark is how a script says that it stopped before it wrote.
const brokenMark = "FIFTYBROKEN"

// refusals are the first words of errors with which Redis refuses a script before it runs, or before its first
// write. NOPERM is none: it may come in the middle.
var refusals = map[string]error{
	"NOSCRIPT": nil, "LOADING": nil, "MASTERDOWN": nil, "CLUSTERDOWN": nil, "MOVED": nil, "ASK": nil,
	"TRYAGAIN": nil, "CROSSSLOT": nil, "NOAUTH": nil, "WRONGPASS": nil, "BUSY": nil, "MISCONF": nil,
	"NOREPLICAS": nil, "READONLY": ErrReadOnly, "OOM": ErrOutOfMemory,
}

// storeError is an error of a script.
type storeError struct {
	script  string
	is      error // ErrReadOnly and such, or nil
	unknown bool
	err     error
}

func (e *storeError) Error() string {
	text := "redis: " + e.script + ": "
	if e.unknown {
		text += fifty.ErrUnknownOutcome.Error() + ": "
	}
	if e.is != nil {
		text += e.is.Error() + ": "
	}
	return text + e.err.Error()
}

// Unwrap returns the cause, what it is, and fifty.ErrUnknownOutcome where the outcome is open.
func (e *storeError) Unwrap() []error {
	all := []error{e.err}
	if e.unknown {
		all = append(all, fifty.ErrUnknownOutcome)
	}
	if e.is != nil {
		all = append(all, e.is)
	}
	return all
}

// fail makes a storeError. unsent says that nothing was sent.
func fail(script string, err error, unsent bool) error {
	e := &storeError{script: script, err: err, unknown: !unsent}
	if said, ok := rueidis.IsRedisErr(err); ok {
		text := said.Error()
		word, _, _ := strings.Cut(text, " ")
		if is, refused := refusals[word]; refused {
			e.is, e.unknown = is, false
		}
		if strings.Contains(text, brokenMark) {
			e.is, e.unknown = ErrBroken, false
		}
		// Inside a script, Redis 6 puts these behind a sentence of its own.
		if strings.Contains(text, "-OOM ") {
			e.is, e.unknown = ErrOutOfMemory, false
		}
		if strings.Contains(text, "-READONLY ") {
			e.is, e.unknown = ErrReadOnly, false
		}
		return e
	}
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		e.unknown = false // there was no connection to send it on
	}
	return e
}

// unknown marks an error after which something else may have been done.
func unknown(err error) error {
	if e, ok := errors.AsType[*storeError](err); ok && !e.unknown {
		marked := *e
		marked.unknown = true
		return &marked
	}
	return err
}

// garbled is an answer that no script gives.
func garbled(script, what string) error {
	return &storeError{script: script, is: ErrBroken, unknown: true, err: errors.New("an answer that can't be read: " + what)}
}

package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
)

// ends are several claims that their owners renew or complete.
type ends[Tx any] struct {
	keys   Keys[Tx]
	claims []idempotency.Claim
	once   []int // the first of each key: these are done by one statement
	again  []int // the others, in the order in which they came
	left   []int // those that the statement did not change

	// The columns of a claim, of those in once.
	scopes, names, attempts []string
	tokens                  []int64
}

func (k Keys[Tx]) ends(claims []idempotency.Claim) *ends[Tx] {
	e := &ends[Tx]{keys: k, claims: claims}
	seen := make(map[keyID]bool, len(claims))
	for i, c := range claims {
		id := keyID{c.Scope, c.Key}
		if seen[id] {
			e.again = append(e.again, i)
			continue
		}
		seen[id] = true
		e.once = append(e.once, i)
		e.scopes, e.names = append(e.scopes, c.Scope), append(e.names, c.Key)
		e.tokens, e.attempts = append(e.tokens, c.Token), append(e.attempts, c.Attempt)
	}
	return e
}

// change runs a statement that returns the keys of those in once that it has changed.
func (e *ends[Tx]) change(ctx context.Context, change *call) error {
	var id keyID
	changed := make(map[keyID]bool, len(e.once))
	change.into(&id.scope, &id.key)
	change.each = func() error { changed[id] = true; return nil }
	if err := e.keys.store.run(ctx, change); err != nil {
		return err
	}
	if len(changed) == len(e.once) {
		return nil
	}
	for _, i := range e.once {
		if !changed[keyID{e.claims[i].Scope, e.claims[i].Key}] {
			e.left = append(e.left, i)
		}
	}
	return nil
}

// rest gives those that the statement left, and those of a key that came before, their answers: by what is there
// now, and one by one. When that fails, it failed for these alone.
func (e *ends[Tx]) rest(ctx context.Context, errs []error, judge func(row record, i int) error, single func(i int) error) {
	if len(e.left) > 0 {
		rows, err := e.keys.findMany(ctx, e.claims, e.left)
		for at, i := range e.left {
			if errs[i] = err; err == nil {
				errs[i] = judge(rows[at], i)
			}
		}
	}
	for n, i := range e.again {
		if errs[i] = idempotency.ErrAlone; n < singlesMax {
			errs[i] = single(i)
		}
	}
}

// heldUp says that the claim is its owner's and undecided: so the statement passed it over, for its row was locked.
func heldUp(row record, c idempotency.Claim) bool {
	state := idempotency.State(row.state)
	return row.isOf(c) && (state == idempotency.InFlight || state == idempotency.Unknown)
}

// renewMany moves expiries by one statement. Those that it left are looked at by a second one.
func (k Keys[Tx]) renewMany(ctx context.Context, all []idempotency.Claim, lease time.Duration) ([]error, error) {
	e := k.ends(all)
	err := e.change(ctx, k.store.statements.renewMany.with(e.scopes, e.names, e.tokens, e.attempts, lease.Microseconds()))
	if err != nil {
		return nil, err
	}
	errs := make([]error, len(all))
	e.rest(ctx, errs, func(row record, i int) error {
		if lost := notRenewed(row, all[i]); lost != nil {
			return lost
		}
		return idempotency.ErrAlone
	}, func(i int) error {
		lost, err := k.renew(ctx, all[i], lease)
		if lost != nil {
			return lost
		}
		return err
	})
	return errs, nil
}

// completeMany ends claims by one statement. Those that it left are looked at by a second one.
func (k Keys[Tx]) completeMany(ctx context.Context, all []idempotency.Completion) ([]error, error) {
	claims := make([]idempotency.Claim, len(all))
	for i, c := range all {
		claims[i] = c.Claim
	}
	e := k.ends(claims)
	n := len(e.once)
	states, statuses, notReplayables := make([]int64, n), make([]int64, n), make([]bool, n)
	headers, bodies := make([][]byte, n), make([][]byte, n)
	for at, i := range e.once {
		header, err := encodeHeader(all[i].Response.Header)
		if err := errors.Join(err, checkStatus(all[i].Response)); err != nil {
			return nil, err
		}
		states[at], statuses[at], notReplayables[at] = int64(all[i].State), int64(all[i].Response.Status), all[i].Response.NotReplayable
		headers[at], bodies[at] = header, all[i].Response.Body
	}
	complete := k.store.statements.completeMany.
		with(e.scopes, e.names, e.tokens, e.attempts, states, statuses, headers, bodies, notReplayables)
	if err := e.change(ctx, complete); err != nil {
		return nil, err
	}
	errs := make([]error, len(all))
	e.rest(ctx, errs, func(row record, i int) error {
		if heldUp(row, all[i].Claim) {
			return idempotency.ErrAlone
		}
		if lost := notCompleted(row, all[i]); lost != nil {
			return lost
		}
		return nil
	}, func(i int) error { return k.complete(ctx, all[i]) })
	return errs, nil
}

// findMany reads the records of some of the claims, in order.
func (k Keys[Tx]) findMany(ctx context.Context, claims []idempotency.Claim, which []int) ([]record, error) {
	scopes, names := make([]string, len(which)), make([]string, len(which))
	for at, i := range which {
		scopes[at], names[at] = claims[i].Scope, claims[i].Key
	}
	var place int64
	var row record
	rows := make([]record, len(which))
	find := k.store.statements.findMany.with(scopes, names).into(append([]any{&place}, row.columns()...)...)
	find.each = func() error {
		rows[place-1], row = row, record{}
		return nil
	}
	err := k.store.run(ctx, find)
	return rows, err
}

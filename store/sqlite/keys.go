package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/txn"
)

// Keys keeps the records of idempotency keys in table fifty_keys. It is safe for concurrent use.
//
// Each call of Claim, Renew and Complete is one transaction, whatever the number of its members: an error
// of the call means that nothing changed for any of them, except one that is a fifty.ErrUnknownOutcome.
// SaveStep and Resolve are one too; Sweep and Erase are several short ones.
type Keys struct{ store *Store }

// Keys returns the store's idempotency keys.
func (s *Store) Keys() Keys { return Keys{s} }

var _ idempotency.TxStore[*sql.Tx] = Keys{}

// looksMax bounds how often one attempt looks at a record that changes under its eyes. Within a
// transaction that holds the write lock nothing does.
const looksMax = 3

// Claim decides for each attempt; see idempotency.Store. It waits for the writer, but not for an InTx of this
// Store whose function runs for the same key: that key is in flight.
func (k Keys) Claim(ctx context.Context, attempts []idempotency.Attempt) ([]idempotency.Claimed, error) {
	answers := make([]idempotency.Claimed, len(attempts))
	var open []int // those that are not answered yet
	for i, a := range attempts {
		if k.store.underway.running(keyID{a.Request.Scope, a.Request.Key}) {
			answers[i] = busy(a)
		} else {
			open = append(open, i)
		}
	}
	if len(open) == 0 {
		return answers, nil
	}
	err := k.store.write(ctx, "claim", func(ctx context.Context, tx *sql.Tx) error {
		t, err := k.store.instant(ctx, tx, "claim")
		if err != nil {
			return err
		}
		for _, i := range open {
			if answers[i], err = t.claim(ctx, attempts[i]); err != nil {
				return err
			}
		}
		return t.keep(ctx)
	})
	if err != nil {
		return nil, err
	}
	return answers, nil
}

// Renew moves expiries; see idempotency.Store.
func (k Keys) Renew(ctx context.Context, claims []idempotency.Claim, lease time.Duration) ([]error, error) {
	lost := make([]error, len(claims))
	err := k.store.write(ctx, "renew", func(ctx context.Context, tx *sql.Tx) error {
		t, err := k.store.instant(ctx, tx, "renew")
		if err != nil {
			return err
		}
		for i, c := range claims {
			if lost[i], err = t.renew(ctx, c, lease); err != nil {
				return err
			}
		}
		return t.keep(ctx)
	})
	if err != nil {
		return nil, err
	}
	return lost, nil
}

// Complete ends claims; see idempotency.Store.
func (k Keys) Complete(ctx context.Context, completions []idempotency.Completion) ([]error, error) {
	lost := make([]error, len(completions))
	err := k.store.write(ctx, "complete", func(ctx context.Context, tx *sql.Tx) error {
		t, err := k.store.instant(ctx, tx, "complete")
		if err != nil {
			return err
		}
		for i, c := range completions {
			if lost[i], err = t.complete(ctx, c); err != nil {
				return err
			}
		}
		return t.keep(ctx)
	})
	if err != nil {
		return nil, err
	}
	return lost, nil
}

// Find returns a record; see idempotency.Store. It waits for no writer, with one exception: the first time
// that a claim is seen to have expired, that time is written down, so that it stays expired for everybody.
// (Not from within a transaction of this Store, which holds the writer.)
func (k Keys) Find(ctx context.Context, scope, key string) (idempotency.Record, error) {
	s := k.store
	s.point(ctx, "find.find")
	var mark int64
	found, err := scan(row{s.readers.QueryRowContext(ctx, s.sql.find.text, scope, key), "find"}, scope, key, &mark)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return idempotency.Record{}, fmt.Errorf("sqlite: find: %w", idempotency.ErrNotFound)
	case err != nil:
		return idempotency.Record{}, err
	}
	rec := found.record(s.clock.now(mark))
	if !rec.Expired() || mark >= found.expires || s.nested(ctx) {
		return rec, nil
	}
	err = s.write(ctx, "find", func(ctx context.Context, tx *sql.Tx) error {
		t, err := s.instant(ctx, tx, "find")
		if err != nil {
			return err
		}
		found, there, err := t.look(ctx, idempotency.Request{Scope: scope, Key: key})
		if err != nil {
			return err
		}
		if !there {
			return fmt.Errorf("sqlite: find: %w", idempotency.ErrNotFound)
		}
		rec = found.record(t.now)
		return t.keep(ctx)
	})
	if err != nil {
		return idempotency.Record{}, err
	}
	return rec, nil
}

// Classify says what an error means; see Txns.Classify.
func (k Keys) Classify(err error) txn.Class { return classify(err) }

// instant is a session at one time of the file's clock: all that it decides goes by that time. The time is
// read after the transaction has begun, so it is not older than what earlier transactions decided by.
type instant struct {
	session
	now   int64
	mark  int64 // as it stands in the file
	floor int64 // tokens up to here may have been used by keys whose rows are gone
	used  int64 // the latest time that an expiry or a window was set or judged by; zero when there was none
	seen  int64 // of that, what one was judged by
}

func (s *Store) instant(ctx context.Context, tx *sql.Tx, op string) (*instant, error) {
	t := &instant{session: s.session(tx, op)}
	if err := t.row(ctx, s.sql.marks).Scan(&t.mark, &t.floor); err != nil {
		return nil, err
	}
	t.now = s.clock.now(t.mark)
	return t, nil
}

// keep writes the time down if something was decided by it. No later transaction goes by an earlier time, in
// whatever process, whatever becomes of the host's clock.
func (t *instant) keep(ctx context.Context) error {
	if t.used <= t.mark {
		return nil
	}
	_, err := t.exec(ctx, t.store.sql.advance, t.used)
	return err
}

// claim decides for one attempt.
func (t *instant) claim(ctx context.Context, a idempotency.Attempt) (idempotency.Claimed, error) {
	fresh := claimedBy(a, t.floor+1, t.now)
	refused := a.CheckWindow(time.UnixMicro(t.now))
	for range looksMax {
		if refused == nil {
			// Linearization point: the insert into the unique index. One of all the attempts at this key puts
			// its row there; for the others nothing changes, and they read what is there.
			n, err := t.exec(ctx, t.store.sql.insert, a.Request.Scope, a.Request.Key, []byte(a.Request.Fingerprint),
				fresh.Token, a.ID, a.Owner, a.Resume, fresh.expires, t.now, madeMicros(a))
			if err != nil {
				return idempotency.Claimed{}, err
			}
			if n == 1 {
				t.used = t.now
				return idempotency.Claimed{Won: true, Record: fresh.record(t.now)}, nil
			}
		}
		found, there, err := t.look(ctx, a.Request)
		if err != nil {
			return idempotency.Claimed{}, err
		}
		if !there && refused != nil {
			return idempotency.Claimed{Err: t.refuse(a, refused)}, nil
		}
		if !there {
			continue
		}
		rec := found.record(t.now)
		switch idempotency.Judge(rec, a) {
		case idempotency.Answer:
			return idempotency.Claimed{Record: rec}, nil
		case idempotency.Mine:
			return idempotency.Claimed{Won: true, Record: rec}, nil
		}
		if rec.State == idempotency.Free && refused != nil {
			return idempotency.Claimed{Record: rec, Err: t.refuse(a, refused)}, nil
		}
		taken, err := t.take(ctx, a, found)
		if err != nil || taken.Won {
			return taken, err
		}
	}
	return idempotency.Claimed{}, fmt.Errorf("sqlite: claim: the record of key %q kept changing; nothing changed, try again", a.Request.Key)
}

// refuse returns why a key outside of its window is refused. One that is too old stays too old, whatever
// becomes of the host's clock: whoever was told so may have gone on under another key.
func (t *instant) refuse(a idempotency.Attempt, why error) error {
	if errors.Is(why, idempotency.ErrExpired) {
		ended := madeMicros(a) + micros(a.Window) + 1
		t.see(min(ended, t.now)) // and no later, so that refusing it again writes nothing
	}
	return why
}

// take writes the attempt over the record that it was judged by, unless that has changed.
func (t *instant) take(ctx context.Context, a idempotency.Attempt, found stored) (idempotency.Claimed, error) {
	next := claimedBy(a, found.Token+1, t.now)
	next.Steps, next.created = found.Steps, found.created
	// Linearization point: the update, on the condition that the record is the one that was read. Of two
	// that take a key over, the second finds another token.
	n, err := t.exec(ctx, t.store.sql.take, a.Request.Scope, a.Request.Key, []byte(a.Request.Fingerprint),
		a.ID, a.Owner, a.Resume, next.expires, t.now, found.Token, found.Attempt, found.State, madeMicros(a))
	if err != nil || n == 0 {
		return idempotency.Claimed{}, err
	}
	t.used = t.now
	return idempotency.Claimed{Won: true, Record: next.record(t.now)}, nil
}

// look reads the record of a key. When it is seen to have expired, that was a decision.
func (t *instant) look(ctx context.Context, r idempotency.Request) (found stored, there bool, err error) {
	found, err = scan(t.row(ctx, t.store.sql.look, r.Scope, r.Key), r.Scope, r.Key)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return stored{}, false, nil
	case err != nil:
		return stored{}, false, err
	}
	if found.record(t.now).Expired() {
		t.see(found.expires) // and no later, so that seeing it again writes nothing
	}
	return found, true, nil
}

// see notes a time that something was judged by.
func (t *instant) see(at int64) {
	t.seen = max(t.seen, at)
	t.used = max(t.used, t.seen)
}

// owned reads the record of a claim, if the key is still the claim's.
func (t *instant) owned(ctx context.Context, c idempotency.Claim) (stored, bool, error) {
	found, there, err := t.look(ctx, idempotency.Request{Scope: c.Scope, Key: c.Key})
	return found, there && found.Token == c.Token && found.Attempt == c.Attempt, err
}

// renew moves one expiry. lost says why it could not.
func (t *instant) renew(ctx context.Context, c idempotency.Claim, lease time.Duration) (lost, err error) {
	// Linearization point: the update, given only to a claim that has not expired.
	n, err := t.exec(ctx, t.store.sql.renew, c.Scope, c.Key, c.Token, c.Attempt, t.now+micros(lease), t.now)
	if err != nil {
		return nil, err
	}
	if n == 1 {
		t.used = t.now
		return nil, nil
	}
	found, own, err := t.owned(ctx, c)
	if err != nil {
		return nil, err
	}
	undecided := found.State == idempotency.InFlight || found.State == idempotency.Unknown
	return &idempotency.LostError{Claim: c, Superseded: !own || !undecided}, nil
}

// complete ends one claim. lost says that it could not.
func (t *instant) complete(ctx context.Context, c idempotency.Completion) (lost, err error) {
	header, err := encodeHeader(c.Response.Header)
	if err != nil {
		return nil, fmt.Errorf("sqlite: %s: header: %w", t.op, err)
	}
	// Linearization point: the update, given only to the owner of a key that nobody has decided.
	n, err := t.exec(ctx, t.store.sql.complete, c.Claim.Scope, c.Claim.Key, c.Claim.Token, c.Claim.Attempt,
		c.State, c.Response.Status, header, c.Response.Body, c.Response.NotReplayable, t.now)
	if err != nil {
		return nil, err
	}
	if n == 1 {
		if c.State == idempotency.InFlight { // let go: it has expired by this time
			t.see(t.now)
		}
		return nil, nil
	}
	found, own, err := t.owned(ctx, c.Claim)
	if err != nil || (own && found.State == c.State) { // said before; its reply was lost
		return nil, err
	}
	return &idempotency.LostError{Claim: c.Claim, Superseded: true}, nil
}

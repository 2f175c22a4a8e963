package sqlite

import (
	"context"
	"database/sql"
	"encoding/hex"
	"hash/fnv"
	"sync"

	"github.com/fiftyhosts/fifty/idempotency"
)

type keyID struct{ scope, key string }

// underway is the keys that transactions of this process are at work on. It only saves the wait: a
// duplicate that it knows is told at once, and one that it doesn't is stopped by the unique index.
type underway struct {
	mu   sync.Mutex
	keys map[keyID]bool // true once its claim is won and its function runs
}

func newUnderway() *underway { return &underway{keys: map[keyID]bool{}} }

// enter says whether the key was free. leave must then be called at the end.
func (u *underway) enter(id keyID) (leave func(), ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, there := u.keys[id]; there {
		return nil, false
	}
	u.keys[id] = false
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.keys, id)
	}, true
}

// runs notes that the function of a key that was entered runs.
func (u *underway) runs(id keyID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.keys[id] = true
}

// running says that the function of a key runs.
func (u *underway) running(id keyID) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.keys[id]
}

// busy is what an attempt is told when a transaction is at work on its key. Nobody knows yet what that will
// leave, not even the fingerprint.
func busy(a idempotency.Attempt) idempotency.Claimed {
	return idempotency.Claimed{Record: idempotency.Record{
		Request: a.Request, State: idempotency.InFlight, ExpiresIn: a.Lease,
	}}
}

// InTx claims, works and answers in one transaction; see idempotency.TxStore.
//
// A duplicate of a call that this Store has under way is told at once that the key is in flight, and so is a Claim.
// One in another process, through another Store, or in a transaction of its own (ClaimTx), waits for that transaction to end: up to Config.BusyTimeout,
// then its error is Retryable. While fn runs it holds the file's only writer, so every other write of every
// process waits for it: keep fn short, do nothing slow in it, and give ctx a deadline. When ctx ends, the
// transaction is rolled back and the writer is free, even if fn runs on.
//
// fn's context knows of the transaction: calls of this Store that would write get ErrNested.
func (k Keys) InTx(
	ctx context.Context, a idempotency.Attempt,
	fn func(ctx context.Context, tx *sql.Tx) (idempotency.Response, error),
) (idempotency.Claimed, error) {
	k.store.point(ctx, "intx.enter")
	id := keyID{a.Request.Scope, a.Request.Key}
	leave, ok := k.store.underway.enter(id)
	if !ok {
		return busy(a), nil
	}
	defer leave()
	var claimed idempotency.Claimed
	err := k.store.write(ctx, "intx", func(ctx context.Context, tx *sql.Tx) error {
		t, err := k.store.instant(ctx, tx, "intx")
		if err != nil {
			return err
		}
		if claimed, err = t.claim(ctx, a); err != nil {
			return err
		}
		t.used = t.seen // no lease of this claim outlives the transaction
		if err := t.keep(ctx); err != nil || !claimed.Won {
			return err
		}
		k.store.underway.runs(id)
		r, err := fn(ctx, tx)
		if err != nil {
			return err
		}
		claimed.Record.State, claimed.Record.ExpiresIn, claimed.Record.Response = idempotency.Done, 0, r
		return t.end(ctx, idempotency.Completion{Claim: claimOf(claimed.Record), State: idempotency.Done, Response: r})
	})
	if err != nil {
		return idempotency.Claimed{}, err
	}
	return claimed, nil
}

func claimOf(r idempotency.Record) idempotency.Claim {
	return idempotency.Claim{Scope: r.Request.Scope, Key: r.Request.Key, Token: r.Token, Attempt: r.Attempt}
}

// end completes a claim of the same transaction.
func (t *instant) end(ctx context.Context, c idempotency.Completion) error {
	lost, err := t.complete(ctx, c)
	if err != nil {
		return err
	}
	return lost
}

// ClaimTx claims within tx; see idempotency.TxStore. tx is best one of DB or Transact. One that began
// deferred may find that another has written since its first read: the error is then Retryable, with the
// whole of tx. From the claim on tx holds the file's only writer, and duplicates wait for its end as
// InTx says of other processes.
func (k Keys) ClaimTx(ctx context.Context, tx *sql.Tx, a idempotency.Attempt) (idempotency.Claimed, error) {
	s := k.store
	x := s.session(tx, "claimtx")
	if _, err := x.exec(ctx, s.sql.lock); err != nil {
		return idempotency.Claimed{}, err
	}
	t, err := s.instant(ctx, tx, "claimtx")
	if err != nil {
		return idempotency.Claimed{}, err
	}
	claimed, err := t.claim(ctx, a)
	if err != nil {
		return idempotency.Claimed{}, err
	}
	if err := t.keep(ctx); err != nil {
		return idempotency.Claimed{}, err
	}
	if claimed.Won {
		if _, err := t.exec(ctx, s.sql.savepoint.of(savepointOf(claimOf(claimed.Record)))); err != nil {
			return idempotency.Claimed{}, err
		}
	}
	return claimed, nil
}

// CompleteTx ends a claim within tx; see idempotency.TxStore.
func (k Keys) CompleteTx(ctx context.Context, tx *sql.Tx, c idempotency.Completion) error {
	s := k.store
	t, err := s.instant(ctx, tx, "completetx")
	if err != nil {
		return err
	}
	behind := savepointOf(c.Claim)
	if c.Undo {
		if _, own, err := t.owned(ctx, c.Claim); err != nil {
			return err
		} else if !own {
			return &idempotency.LostError{Claim: c.Claim, Superseded: true}
		}
		if _, err := t.exec(ctx, s.sql.undo.of(behind)); err != nil {
			return err
		}
	}
	if err := t.end(ctx, c); err != nil {
		return err
	}
	if err := t.keep(ctx); err != nil {
		return err
	}
	_, err = t.exec(ctx, s.sql.release.of(behind))
	return err
}

// savepointOf names the savepoint behind a claim. Each claim has its own, so that one that was left open by
// an error is never taken for another's.
func savepointOf(c idempotency.Claim) string {
	sum := fnv.New128a()
	for _, part := range []string{c.Scope, c.Key, c.Attempt} {
		sum.Write([]byte(part))
		sum.Write([]byte{0})
	}
	return "fifty_claim_" + hex.EncodeToString(sum.Sum(nil))
}

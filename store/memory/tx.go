package memory

import (
	"context"
	"errors"
	"time"

	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/txn"
)

// ErrTxDone says that the transaction has ended; nothing changed.
var ErrTxDone = errors.New("memory: the transaction has ended")

// Tx is a transaction. It is made by Txns.Transact or by InTx, and like a *sql.Tx it is not for concurrent
// use.
type Tx struct {
	store *Store
	done  bool
	ended chan struct{}  // closed at the end, for those who wait to learn what became of a key
	log   []change       // in order; undone from its end
	held  map[keyID]bool // the keys that this transaction claimed
}

// change is one thing that a commit does: a record to write, stock that was decided, or a function of the
// caller's.
type change struct {
	key   keyID
	rec   *stored
	claim bool // the change that took the key
	fn    func()
	stock *inventory.Changes
	at    time.Time // of stock
}

// OnCommit adds fn to what the commit does. All changes of a transaction become visible together: fn runs
// in the commit with the store locked, so it must be short and must not use the store. A rollback forgets it.
func (tx *Tx) OnCommit(fn func()) { tx.log = append(tx.log, change{fn: fn}) }

func (s *Store) begin() *Tx {
	return &Tx{store: s, ended: make(chan struct{}), held: map[keyID]bool{}}
}

func (tx *Tx) commit() {
	s := tx.store
	s.mu.Lock()
	defer s.mu.Unlock()
	// Linearization point: under the mutex every change of the transaction appears at once; whoever asks
	// for one of its keys before sees it taken, and after sees its answer.
	for _, c := range tx.log {
		switch {
		case c.fn != nil:
			c.fn()
		case c.stock == nil:
			e := s.keys[c.key]
			e.rec = *c.rec
			s.ended(e)
		}
	}
	s.stock.commit(tx.log)
	tx.end()
}

func (tx *Tx) rollback() {
	tx.store.mu.Lock()
	defer tx.store.mu.Unlock()
	tx.end()
}

// end lets go of the keys. The store is locked.
func (tx *Tx) end() {
	for id := range tx.held {
		tx.release(id)
	}
	tx.store.stock.end(tx)
	tx.log, tx.done = nil, true
	close(tx.ended)
}

// lockSettled locks the store at a moment when no transaction is at work on any of n keys, so that what is
// there is what stands. It is the row lock of the other stores.
func (s *Store) lockSettled(ctx context.Context, n int, id func(i int) keyID) error {
	for {
		s.mu.Lock()
		busy := s.busy(n, id)
		if busy == nil {
			return nil
		}
		s.waiting++
		s.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
		}
		s.mu.Lock()
		s.waiting--
		s.mu.Unlock()
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// busy returns what is closed when the first transaction that is at work on one of the keys has ended.
func (s *Store) busy(n int, id func(i int) keyID) <-chan struct{} {
	if s.taken == 0 {
		return nil
	}
	for i := range n {
		if e := s.keys[id(i)]; e != nil && e.tx != nil {
			return e.tx.ended
		}
	}
	return nil
}

// release lets go of one key. The store is locked.
func (tx *Tx) release(id keyID) {
	delete(tx.held, id)
	e := tx.store.keys[id]
	e.tx = nil
	tx.store.taken--
	if !e.recorded() {
		delete(tx.store.keys, id)
	}
}

// undo forgets all changes from the one numbered mark on, claims included.
func (tx *Tx) undo(mark int) {
	tx.store.mu.Lock()
	defer tx.store.mu.Unlock()
	undone := tx.log[mark:]
	tx.log = tx.log[:mark]
	for _, c := range undone {
		if c.claim && tx.held[c.key] && tx.last(c.key) == nil { // no earlier claim of it is left
			tx.release(c.key)
		}
	}
}

// Txns opens transactions. It is safe for concurrent use.
type Txns struct{ store *Store }

// Txns returns the store's transactions.
func (s *Store) Txns() Txns { return Txns{s} }

var _ txn.Store[*Tx] = Txns{}

// Transact runs fn in one transaction; see txn.Store. All isolation levels are the same here: transactions
// see each other's keys as taken, and nothing else of each other.
func (t Txns) Transact(ctx context.Context, _ txn.Options, fn func(ctx context.Context, tx *Tx) error) error {
	if err := t.store.step(ctx, "begin"); err != nil {
		return err
	}
	tx := t.store.begin()
	defer func() {
		if !tx.done { // an error or a panic
			tx.rollback()
		}
	}()
	if err := fn(ctx, tx); err != nil {
		return err
	}
	if err := t.store.step(ctx, "commit"); err != nil {
		return err
	}
	tx.commit()
	return nil
}

// Savepoint runs fn within tx; see txn.Store.
func (t Txns) Savepoint(ctx context.Context, tx *Tx, fn func(ctx context.Context) error) error {
	if tx.done {
		return ErrTxDone
	}
	mark, kept := len(tx.log), false
	defer func() {
		if !kept && !tx.done {
			tx.undo(mark)
		}
	}()
	if err := fn(ctx); err != nil {
		return err
	}
	kept = true
	return nil
}

// Classify says that every error is permanent but for an ErrDeadlock: there are no other lost races that a
// repeat would win, and no replies to lose.
func (t Txns) Classify(err error) txn.Class {
	if errors.Is(err, ErrDeadlock) {
		return txn.Retryable
	}
	return txn.Permanent
}

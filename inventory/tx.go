package inventory

import (
	"context"
	"time"

	"github.com/fiftyhosts/fifty"
)

// TxStock is a Stock over a store with transactions of type Tx. It has the methods of Stock too. It is safe
// for concurrent use; a transaction is not.
type TxStock[Tx any] struct {
	*Stock
	store TxStore[Tx]
}

// NewTx makes a TxStock over a store. It panics when cfg is not valid: see Config.Validate.
func NewTx[Tx any](store TxStore[Tx], cfg Config) *TxStock[Tx] {
	return &TxStock[Tx]{Stock: New(store, cfg), store: store}
}

// ReserveTx is Reserve within a transaction of yours, so that the order's row and its hold are committed
// together or not at all. A refusal goes with your transaction too: it stays only if you commit. The SKUs'
// rows are locked until your transaction ends, so keep what follows short, and call nobody outside in it.
//
// Nothing is tried again here: after a serialization failure or a deadlock run your whole transaction again,
// with the same id. Transactions that take several holds should take them in one order.
func (s *TxStock[Tx]) ReserveTx(ctx context.Context, tx Tx, id string, items Items, ttl time.Duration) (Hold, error) {
	if err := items.Validate(); err != nil {
		return Hold{}, err
	}
	if err := s.validTTL(ttl); err != nil {
		return Hold{}, err
	}
	return s.doTx(ctx, tx, Ask{Act: Reserve, ID: id, Items: items, TTL: ttl, RefusalsMax: s.cfg.RefusalsMax}, s.store.ReserveTx)
}

// ConfirmTx is Confirm within a transaction of yours. See ReserveTx.
func (s *TxStock[Tx]) ConfirmTx(ctx context.Context, tx Tx, id string) (Hold, error) {
	return s.doTx(ctx, tx, Ask{Act: Confirm, ID: id}, s.store.SettleTx)
}

// ReleaseTx is Release within a transaction of yours. See ReserveTx.
func (s *TxStock[Tx]) ReleaseTx(ctx context.Context, tx Tx, id string) (Hold, error) {
	return s.doTx(ctx, tx, Ask{Act: Release, ID: id}, s.store.SettleTx)
}

func (s *TxStock[Tx]) doTx(ctx context.Context, tx Tx, a Ask, act func(context.Context, Tx, Ask) (Answer, error)) (Hold, error) {
	if err := validateName("id", a.ID); err != nil {
		return Hold{}, err
	}
	answer, err := act(ctx, tx, a)
	if err == nil {
		err = answer.Err
	}
	return answer.Hold, err
}

// Ledger reads the books of a stock. It is safe for concurrent use.
type Ledger struct{ store LedgerStore }

// NewLedger makes a Ledger over a store.
func NewLedger(store LedgerStore) *Ledger {
	if store == nil {
		panic(&fifty.InvalidError{Field: "store", Problem: "is nil"})
	}
	return &Ledger{store: store}
}

// History returns what happened to a hold, oldest first, or ErrNotFound: never asked for, or swept away.
func (l *Ledger) History(ctx context.Context, id string) ([]Entry, error) {
	if err := validateName("id", id); err != nil {
		return nil, err
	}
	return l.store.History(ctx, id)
}

// Check audits the stock: it adds up every SKU's deliveries and holds and compares them with its levels. An
// empty list says that available + held + sold = supply everywhere and that each of them is what the ledger
// says. It reads one snapshot and takes no locks, but it reads everything.
func (l *Ledger) Check(ctx context.Context) ([]Fault, error) { return l.store.Check(ctx) }

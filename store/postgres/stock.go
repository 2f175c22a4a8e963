package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/txn"
)

// ErrLockTimeout says that a row of the stock was locked for too long by another transaction: one of a caller's
// that was not ended, say. Nothing was done. Ask again with the same id.
var ErrLockTimeout = errors.New("a row of the stock stays locked; nothing was done, ask again with the same id")

// stockLockMax is how long a transaction of ours waits for a row of the stock.
const stockLockMax = 5 * time.Second

// Stock is the stock of a store, for inventory.New and inventory.NewTx. It is safe for concurrent use.
type Stock[Tx any] struct {
	store *Store[Tx]
	*stockState
}

// stockState is what all Stocks of a Store share.
type stockState struct {
	sql     *stockStatements
	layout  *layout
	lockMax time.Duration
}

func newStockState(schema string) *stockState {
	return &stockState{sql: stockStatementsFor(schema), layout: newLayout(), lockMax: stockLockMax}
}

// Stock returns the store's stock.
func (s *Store[Tx]) Stock() Stock[Tx] { return Stock[Tx]{s, s.stock} }

var (
	_ inventory.TxStore[pgx.Tx]  = Stock[pgx.Tx]{}
	_ inventory.TxStore[*sql.Tx] = Stock[*sql.Tx]{}
	_ inventory.LedgerStore      = Stock[pgx.Tx]{}
	_ inventory.SplitStore       = Stock[pgx.Tx]{}
)

// Reserve decides the asks; see inventory.Store. What is simple is decided in one message, and the rest by a
// Batch. An id that is asked for twice is asked for the second time behind the first.
func (s Stock[Tx]) Reserve(ctx context.Context, asks []inventory.Ask) ([]inventory.Answer, error) {
	d := &deciding{asks: asks, answers: make([]inventory.Answer, len(asks)), open: indexes(len(asks))}
	if err := s.reserveQuickly(ctx, d); err != nil {
		return nil, err
	}
	if err := s.decide(ctx, d); err != nil {
		return nil, err
	}
	return d.answers, nil
}

// Settle decides the asks; see inventory.Store.
func (s Stock[Tx]) Settle(ctx context.Context, asks []inventory.Ask) ([]inventory.Answer, error) {
	d := &deciding{asks: asks, answers: make([]inventory.Answer, len(asks)), open: indexes(len(asks))}
	if err := s.decide(ctx, d); err != nil {
		return nil, err
	}
	return d.answers, nil
}

// deciding are asks on the way to their answers.
type deciding struct {
	asks    []inventory.Ask
	answers []inventory.Answer
	open    []int    // indexes of those that have no answer yet, in order
	whole   []string // SKUs of which all buckets are wanted
}

func indexes(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// failed is the error of the whole call when some of it may be committed.
func (d *deciding) failed(err error) error {
	if len(d.open) == len(d.asks) || errors.Is(err, fifty.ErrUnknownOutcome) {
		return err
	}
	return &storeError{point: "the rest of a batch", class: txn.Unknown, err: err}
}

// decide decides what is open by a Batch. What needs more buckets than were locked is left for the next round,
// which is a new transaction, so that all locks are taken in one order.
func (s Stock[Tx]) decide(ctx context.Context, d *deciding) error {
	var err error
	for range raceTries {
		if len(d.open) == 0 {
			return nil
		}
		if err = s.round(ctx, d); err != nil && !isLookAgain(err) {
			return d.failed(lockTimeout(err))
		}
	}
	if len(d.open) == 0 {
		return nil
	}
	if err == nil {
		err = changing("stock")
	}
	return d.failed(err)
}

// isLookAgain says that a neighbour was quicker: all was rolled back, and is decided anew.
func isLookAgain(err error) bool {
	return isLostRace(err) || isState(err, uniqueViolation) || errors.Is(err, errLookAgain)
}

// lockTimeout names a lock that was not to be had.
func lockTimeout(err error) error {
	if isState(err, lockNotAvailable) {
		return fmt.Errorf("%w: %w", ErrLockTimeout, err)
	}
	return err
}

// round decides what is open in one transaction of two round trips: the locks and the look, the writes and
// COMMIT.
func (s Stock[Tx]) round(ctx context.Context, d *deciding) error {
	look := s.look(d)
	opts := txn.Options{Isolation: txn.ReadCommitted} // a look must see what the locks waited for
	tx, err := s.store.engine.begin(ctx, opts, append([]*call{s.enter()}, look.calls()...)...)
	if err != nil {
		return err
	}
	defer tx.rollback(ctx) // for a panic, too: a Batch panics rather than break the law
	seen := look.seen()
	if s.layout.learn(look.counts, seen.buckets) {
		return errLookAgain // with other buckets locked
	}
	b := inventory.NewBatch(seen.now, seen.buckets, seen.holds)
	decided := d.decideOn(b, seen.holds)
	changes := b.Changes()
	writes, err := s.writes(changes, seen.now)
	if err != nil {
		return err
	}
	// Linearization point: the COMMIT. All that it decided was read behind the locks that it ends.
	if err := tx.commit(ctx, writes...); err != nil {
		return err
	}
	decided.settle(d)
	s.layout.shorter(decided.short, changes.Buckets)
	if len(seen.holds) > 0 && d.asks[0].Act == inventory.Reserve {
		s.layout.knownSeen()
	}
	return nil
}

// decided is what a round came to, before it is committed.
type decided struct {
	answers map[int]inventory.Answer
	open    []int
	whole   []string
	short   map[string]int64 // units that were wanted, by SKU
}

// decideOn decides what it can, in order: behind an ask that is left, those wait that have its id or a SKU of it.
func (d *deciding) decideOn(b *inventory.Batch, holds []inventory.Record) *decided {
	done := &decided{answers: make(map[int]inventory.Answer, len(d.open)), whole: d.whole, short: map[string]int64{}}
	left := leftBehind{}
	for _, i := range d.open {
		a := d.asks[i]
		for sku, q := range a.Items {
			done.short[sku] += q
		}
		items := itemsOf(a, holds)
		if left.has(a.ID, items) {
			done.open = append(done.open, i)
			continue
		}
		answer, more := b.Decide(a)
		if len(more) == 0 {
			done.answers[i] = answer
			continue
		}
		left.add(a.ID, items)
		done.open = append(done.open, i)
		done.whole = append(done.whole, more...)
	}
	slices.Sort(done.whole)
	done.whole = slices.Compact(done.whole)
	return done
}

// itemsOf are the SKUs that an ask is about.
func itemsOf(a inventory.Ask, holds []inventory.Record) inventory.Items {
	if a.Act == inventory.Reserve {
		return a.Items
	}
	for _, r := range holds {
		if r.ID == a.ID {
			return r.Items
		}
	}
	return nil
}

// leftBehind are the ids and SKUs of asks that are left for later.
type leftBehind struct{ ids, skus map[string]bool }

func (l *leftBehind) add(id string, items inventory.Items) {
	if l.ids == nil {
		l.ids, l.skus = map[string]bool{}, map[string]bool{}
	}
	l.ids[id] = true
	for sku := range items {
		l.skus[sku] = true
	}
}

func (l *leftBehind) has(id string, items inventory.Items) bool {
	if len(l.ids) == 0 {
		return false
	}
	if l.ids[id] {
		return true
	}
	for sku := range items {
		if l.skus[sku] {
			return true
		}
	}
	return false
}

// settle gives the answers out.
func (done *decided) settle(d *deciding) {
	for i, answer := range done.answers {
		d.answers[i] = answer
	}
	d.open, d.whole = done.open, done.whole
}

// enter sets the limits of a transaction of ours.
func (s Stock[Tx]) enter() *call {
	var settings int64
	return s.sql.enter.with(s.lockTimeout(), s.store.cfg.idleMax()).into(&settings)
}

// lockTimeout is lockMax as the server's settings want it: milliseconds.
func (st *stockState) lockTimeout() string { return strconv.FormatInt(st.lockMax.Milliseconds(), 10) }

package inventory

import (
	"context"
	"hash/fnv"
	"time"
)

// Level is how much there is of a SKU. Available, Held and Sold add up to Supply, and none is negative.
type Level struct {
	SKU                           string
	Supply, Available, Held, Sold int64
}

// BucketID names one bucket of a SKU. A SKU that is not split has one, number 0.
type BucketID struct {
	SKU    string
	Number int
}

// Bucket is one row of stock: a whole SKU, or a part of a split one. It is what a store locks.
type Bucket struct {
	BucketID
	Count                         int // of the SKU's buckets
	Supply, Available, Held, Sold int64
	FreedTo                       int64 // units of holds that expire in this second, or before, are not in Held
	Due                           int64 // units in Held of holds that have expired since, by the store's clock
	Refusals                      int64 // remembered ones that name the SKU; counted in bucket 0
}

// Home is the bucket that an id is served from first, of count.
func Home(id string, count int) int {
	if count <= 1 {
		return 0
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	return int(h.Sum32() % uint32(count)) //nolint:gosec // count is at most BucketsMax
}

// Act is what an Ask wants.
type Act int

// The acts.
const (
	Reserve Act = iota + 1
	Confirm
	Release
	Extend
)

func (a Act) String() string {
	switch a {
	case Reserve:
		return "reserve"
	case Confirm:
		return "confirm"
	case Release:
		return "release"
	case Extend:
		return "extend"
	default:
		return "invalid"
	}
}

// Ask is one thing that is asked of a hold.
type Ask struct {
	Act   Act
	ID    string
	Items Items         // of Reserve; of Confirm: the part that is wanted, nil for all
	TTL   time.Duration // of Reserve and Extend

	RefusalsMax int64 // of Reserve: how many refusals of a SKU are remembered before new ones get ErrBusy
}

// Answer is what became of an Ask. Err is one of this package's errors.
type Answer struct {
	Hold Hold
	Err  error
}

// Delivery is new stock, or stock that is taken away.
type Delivery struct {
	ID      string
	Items   Items // all positive
	Away    bool  // taken away, from what is available
	Buckets int   // for a SKU that is new: into how many it is split
}

// Store keeps the stock. Implementations are safe for concurrent use, by any number of processes.
//
// The asks of one call are decided in order, one answer each, in one transaction or in several; each ask is
// decided as a whole. An error of a call is one of the store, and may leave open what became of all its asks;
// it then wraps fifty.ErrUnknownOutcome. Every call may be made again with the same arguments: an ask is known
// by its ID. Expiry is decided by the store's clock, behind the locks: see Batch, which decides everything.
type Store interface {
	// Supply adds or takes away stock, once for the delivery's ID. It answers with the error of Batch.Supply.
	Supply(ctx context.Context, d Delivery) error

	// Reserve decides asks of the act Reserve.
	Reserve(ctx context.Context, asks []Ask) ([]Answer, error)

	// Settle decides asks of the other acts.
	Settle(ctx context.Context, asks []Ask) ([]Answer, error)

	// Availability returns the level of each SKU, in order. Units of expired holds count as available,
	// whether or not somebody has freed them. It takes no locks. An unknown SKU is an *UnknownSKUError.
	Availability(ctx context.Context, skus []string) ([]Level, error)

	// Sweep frees expired holds and removes what was settled, refused or delivered longer than keep ago, at
	// most limit records, folding what it removes into the ledger's snapshot. It returns how many it removed.
	Sweep(ctx context.Context, keep time.Duration, limit int) (removed int, err error)
}

// TxStore is a Store that can join a transaction of the caller's.
type TxStore[Tx any] interface {
	Store

	// ReserveTx and SettleTx decide one ask within tx: it counts when tx commits. The SKU's row is locked
	// until then.
	ReserveTx(ctx context.Context, tx Tx, a Ask) (Answer, error)
	SettleTx(ctx context.Context, tx Tx, a Ask) (Answer, error)
}

// LedgerStore is a Store whose books can be read.
type LedgerStore interface {
	// History returns what happened to a hold, oldest first; ErrNotFound when there is no record of it.
	History(ctx context.Context, id string) ([]Entry, error)

	// Check adds up the ledger of every SKU, in one snapshot, and returns what is off, at most FaultsMax.
	Check(ctx context.Context) ([]Fault, error)
}

// FaultsMax is the most that one Check names.
const FaultsMax = 1000

// Fault is one thing that does not add up.
type Fault struct {
	SKU     string
	Bucket  int    // -1: of all its buckets together
	What    string // which sum: "held", say
	Level   int64  // what the stock says
	Records int64  // what the ledger adds up to
}

// SplitStore is a Store that can change into how many buckets a SKU is split.
type SplitStore interface {
	// Split moves a SKU's stock into count buckets, under the locks of all. Nothing is lost or sold twice
	// meanwhile, since every ask looks at the count that it locked.
	Split(ctx context.Context, sku string, count int) error
}

// BucketsMax is the most buckets of a SKU.
const BucketsMax = 256

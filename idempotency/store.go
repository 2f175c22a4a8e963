package idempotency

import (
	"context"
	"time"

	"github.com/fiftyhosts/fifty/txn"
)

// State is what a record says of its key. The numbers are stored, so they never change.
type State int

// The states of a record.
const (
	InFlight  State = 1 // claimed; the work may be running
	Done      State = 2 // the answer is there
	Unknown   State = 3 // the owner says that it doesn't know whether the work happened
	Free      State = 4 // claimed once, and the owner says that nothing happened: open for a new claim
	Tombstone State = 5 // done, and the answer is no longer kept
)

func (s State) String() string {
	switch s {
	case InFlight:
		return "in flight"
	case Done:
		return "done"
	case Unknown:
		return "unknown"
	case Free:
		return "free"
	case Tombstone:
		return "tombstone"
	default:
		return "invalid"
	}
}

// Store keeps the records. Implementations are safe for concurrent use, by any number of processes.
//
// An error of a call may leave its outcome open; it then wraps fifty.ErrUnknownOutcome. Every call may be
// made again with the same arguments: a claim is known by its attempt's ID, a completion by its claim.
type Store interface {
	// Claim decides for each attempt whether it owns its key: one answer per attempt, in order. The insert
	// decides, never a look before it. What it does with a record that is there already is for Judge to
	// say. Expiries are decided by the store's clock.
	Claim(ctx context.Context, attempts []Attempt) ([]Claimed, error)

	// Renew moves the expiry of each claim to lease from now, by the store's clock: one answer per claim.
	// It never revives: a claim that expired, was completed or was superseded gets a *LostError.
	Renew(ctx context.Context, claims []Claim, lease time.Duration) ([]error, error)

	// Complete ends each claim: one answer per completion. It is conditional on the claim's token and
	// attempt, not on the expiry: a late result that nobody superseded still counts. A completion that is
	// there already counts as success; one whose key has another owner gets a *LostError.
	Complete(ctx context.Context, completions []Completion) ([]error, error)

	// SaveStep writes what is known of one step of a claim's work, over what was known before. A step without
	// a result never replaces one that has a result: such a call is a repeat that was held up on its way, and
	// it succeeds without changing anything. SaveStep has the condition of Complete: a claim in flight whose
	// token and attempt match, expired or not. Otherwise it returns a *LostError. The steps stay with the key
	// through takeovers until it is swept.
	SaveStep(ctx context.Context, c Claim, step StepRecord) error

	// Find returns the record of a key, or ErrNotFound. It reads where writes are decided, never a replica.
	Find(ctx context.Context, scope, key string) (Record, error)

	// Sweep turns records that were done at least retention ago into tombstones, without answer and steps,
	// and removes free ones of that age and tombstones that were done at least tombstone ago; but one whose
	// key was made later counts from then (Attempt.Made). It works on at most limit records in one short
	// transaction and returns how many; it skips what others hold. A key that is claimed anew after its
	// record was removed gets a higher token than it ever had.
	Sweep(ctx context.Context, retention, tombstone time.Duration, limit int) (removed int, err error)
}

// BatchStore is a Store for which a call of several members costs hardly more than one of a single member. Keys
// then sends together what its callers ask for at the same time.
//
// An error of a call with several members says that nothing happened for any of them, unless it is a
// fifty.ErrUnknownOutcome. Each may have an error of its own, in Claimed.Err or among those that Renew and Complete
// return: ErrAlone, or any that a call for it alone could have failed with. Two members may be of one key; they are
// decided as if they came one after the other. Calls of several hosts with the same keys never deadlock.
type BatchStore interface {
	Store

	// BatchMax is the most members that a call should have. Below 2, nothing is sent together.
	BatchMax() int
}

// TxStore is a Store that can also work within a transaction. Tx is the transaction's type.
type TxStore[Tx any] interface {
	Store

	// InTx claims the key, runs fn and commits its Response as the answer, in one transaction. When fn
	// returns an error all is rolled back, the key is as it was, and that error is returned. When another
	// owns the key or has finished, fn is not run and Claimed says what is there; it says so at once where
	// the store can, instead of waiting for the other's commit. The caller passes a Response that is
	// already cut to what is kept.
	//
	// For an attempt that was not Seen a store may let fn begin before it knows, and claim with fn's first
	// statement. Where the key is not the attempt's, that statement and all later ones fail with an
	// ErrUnclaimed before they do anything, and whatever fn returns is dropped: Claimed is as if fn had not
	// run. An error of the claim itself is then an ErrUnclaimed too.
	InTx(ctx context.Context, a Attempt, fn func(ctx context.Context, tx Tx) (Response, error)) (Claimed, error)

	// ClaimTx claims within tx. When it is won, a savepoint stands behind the claim.
	ClaimTx(ctx context.Context, tx Tx, a Attempt) (Claimed, error)

	// CompleteTx ends a claim that ClaimTx won in the same tx. With Undo it first goes back to the savepoint.
	CompleteTx(ctx context.Context, tx Tx, c Completion) error

	// Classify says whether an error of the store is worth another attempt.
	Classify(err error) txn.Class
}

// Attempt is one arrival that asks for its key. The same ID gets the same claim, so an attempt whose
// reply was lost is sent again as it is.
type Attempt struct {
	ID      string        // unique; made anew after it has owned a key
	Request Request       // valid
	Owner   string        // host and process, for operators
	Lease   time.Duration // how long the claim holds without renewal; positive
	Resume  bool          // the work is made of steps: it may be taken over after an expiry
	Made    time.Time     // what a time-ordered key carries, by some client's clock; zero for any other
	Window  time.Duration // the oldest such key that is accepted: see CheckWindow
	Seen    bool          // a hint: the process saw the key lately, so it probably has a record
}

// Claim identifies an attempt's hold on a key. Both must match for a renewal or a completion: the token
// grows with every new owner, and the attempt tells two owners apart even if a token came twice.
type Claim struct {
	Scope, Key string
	Token      int64
	Attempt    string
}

// Claimed answers an attempt. Won means that the attempt owns the key now, with Record.Token; otherwise
// Record is what is there. Err is this attempt's own error; nothing changed for it then, unless it is a
// fifty.ErrUnknownOutcome.
type Claimed struct {
	Won    bool
	Record Record
	Err    error
}

// Completion ends a claim in Done, Free or Unknown; only Done has a Response. InFlight lets the claim go: it
// expires at once, so that the next arrival that may resume it does.
type Completion struct {
	Claim    Claim
	State    State
	Response Response
	Undo     bool // CompleteTx only: undo what was done in the transaction since the claim
}

// Record is what the store knows of a key.
type Record struct {
	Request   Request
	State     State
	Token     int64  // fencing token: grows with every owner of the key
	Attempt   string // of the owner
	Owner     string
	Resume    bool          // the owner's Attempt.Resume
	Age       time.Duration // since the key was first claimed, by the store's clock
	ExpiresIn time.Duration // of a claim in flight, by the store's clock; zero or less means expired
	Steps     []StepRecord  // in the order in which they were first saved
	Response  Response      // of a Done record
}

// StepRecord is what is known of one step.
type StepRecord struct {
	Name   string
	Sent   bool   // it may have been dispatched
	Result []byte // JSON; empty while the step is not known to be done
}

func (r StepRecord) done() bool { return len(r.Result) > 0 }

// Expired says that the record is a claim whose owner no longer holds it. Zero time left is expired.
func (r Record) Expired() bool { return r.State == InFlight && r.ExpiresIn <= 0 }

// seen is the state that people see: a claim whose owner vanished, and which nobody may take over, is unknown.
func (r Record) seen() State {
	if r.Expired() && !r.Resume {
		return Unknown
	}
	return r.State
}

func (r Record) claim() Claim {
	return Claim{Scope: r.Request.Scope, Key: r.Request.Key, Token: r.Token, Attempt: r.Attempt}
}

package idempotency

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/internal/wall"
)

// Defaults of Config, and its bounds.
const (
	leaseDefault       = 30 * time.Second
	leaseMin           = 10 * time.Millisecond
	workMaxDefault     = 5 * time.Minute
	storeMaxDefault    = 10 * time.Second
	retentionDefault   = 24 * time.Hour
	tombstoneDefault   = 30 * 24 * time.Hour
	waitMaxDefault     = 10 * time.Second
	waitersMaxDefault  = 1000
	responseMaxDefault = 1 << 20
	retryAfter         = time.Second
)

// Config is that of New. The zero value works.
type Config struct {
	// Lease is how long a claim holds without a heartbeat; one is sent at a third of it. When an owner
	// vanishes, its key is in flight for so long and unresolved from then on. At least 10 ms; time is
	// counted by the store's clock. Defaults to 30 s.
	Lease time.Duration

	// WorkMax bounds the function's context. It is not the client's: a client that hangs up does not stop
	// the work. Past it the heartbeat stops too. Defaults to 5 min.
	WorkMax time.Duration

	// StoreMax is how long a claim or a completion is tried again while the store fails. Defaults to 10 s.
	StoreMax time.Duration

	// Wait makes a duplicate wait for the answer of the first arrival instead of getting ErrInFlight at once.
	// One that waits holds its goroutine, and over HTTP its connection. It is woken when the first arrival is
	// at work in this process; otherwise it asks the store up to some times a second.
	Wait bool

	// WaitMax is how long a duplicate waits before it gets ErrInFlight after all. Defaults to 10 s.
	WaitMax time.Duration

	// WaitersMax is how many wait at once; further ones get ErrInFlight. Defaults to 1,000.
	WaitersMax int

	// Retention is how long an answer is kept after its work was done. A later duplicate gets ErrExpired.
	// Nothing is dropped unless Sweep runs. Defaults to 24 h.
	Retention time.Duration

	// Tombstone is how long a key is remembered after its work was done. After it an opaque key is new: the
	// work runs again. A time-ordered key (a UUIDv7 or a ULID) that is older is refused for ever, so it is
	// safe against the latest retry. At least Retention. Defaults to 30 days.
	Tombstone time.Duration

	// ResponseMax is the largest body, in bytes, that is kept. The work of a larger one is recorded as
	// done, and duplicates get ErrNotReplayable. Defaults to 1 MiB.
	ResponseMax int

	// Seal seals what is kept of answers and steps. Defaults to none: kept in the clear.
	Seal *Ring

	// Rebuild makes the answer for a duplicate of a request whose Response had a Reference; kept has its
	// Status and Reference. It only reads. Without it such a duplicate gets ErrNotReplayable.
	Rebuild func(ctx context.Context, req Request, kept Response) (Response, error)

	// AnyFingerprint answers a used key whatever the fingerprint, instead of with ErrMismatch. A client that
	// uses one key for two intents then loses the second without a sign. Defaults to false.
	AnyFingerprint bool

	// PerAttempt looks for clients that make a new key for each attempt; each sign is an event,
	// idempotency.key_per_attempt, whose last attribute "first" says that this caller was not named before.
	// Defaults to none: it costs some memory.
	PerAttempt *PerAttempt

	// Owner names this process to operators. Defaults to the host's name and the process id.
	Owner string

	// Observer sees the events named in the package's doc. Defaults to none.
	Observer fifty.Observer
}

func (c Config) withDefaults() Config {
	if c.Lease == 0 {
		c.Lease = leaseDefault
	}
	if c.WorkMax == 0 {
		c.WorkMax = workMaxDefault
	}
	if c.StoreMax == 0 {
		c.StoreMax = storeMaxDefault
	}
	if c.Retention == 0 {
		c.Retention = retentionDefault
	}
	if c.Tombstone == 0 {
		c.Tombstone = max(tombstoneDefault, c.Retention)
	}
	if c.WaitMax == 0 {
		c.WaitMax = waitMaxDefault
	}
	if c.WaitersMax == 0 {
		c.WaitersMax = waitersMaxDefault
	}
	if c.ResponseMax == 0 {
		c.ResponseMax = responseMaxDefault
	}
	if c.Owner == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown-host"
		}
		c.Owner = fmt.Sprintf("%s/%d", host, os.Getpid())
	}
	return c
}

// Validate returns a *fifty.InvalidError that names the first field that is wrong, or nil.
func (c Config) Validate() error {
	switch {
	case c.Lease != 0 && c.Lease < leaseMin:
		return &fifty.InvalidError{Field: "Config.Lease", Problem: fmt.Sprintf("is %v; the least is %v", c.Lease, leaseMin)}
	case c.WorkMax < 0:
		return &fifty.InvalidError{Field: "Config.WorkMax", Problem: "is negative; leave it zero for the default"}
	case c.StoreMax < 0:
		return &fifty.InvalidError{Field: "Config.StoreMax", Problem: "is negative; leave it zero for the default"}
	case c.Retention < 0:
		return &fifty.InvalidError{Field: "Config.Retention", Problem: "is negative; leave it zero for the default"}
	case c.Tombstone != 0 && c.Tombstone < c.withDefaults().Retention:
		return &fifty.InvalidError{Field: "Config.Tombstone", Problem: "is shorter than Retention; a key is remembered at least as long as its answer"}
	case c.WaitMax < 0:
		return &fifty.InvalidError{Field: "Config.WaitMax", Problem: "is negative; leave it zero for the default"}
	case c.WaitersMax < 0:
		return &fifty.InvalidError{Field: "Config.WaitersMax", Problem: "is negative; leave it zero for the default"}
	case c.ResponseMax < 0:
		return &fifty.InvalidError{Field: "Config.ResponseMax", Problem: "is negative; leave it zero for the default"}
	}
	return nil
}

// Keys runs functions once per key. It is safe for concurrent use, and any number of processes may share
// one store.
type Keys struct {
	store      Store
	cfg        Config
	together   *together
	abandoning chan struct{} // a place for each clean-up of a lost claim
	abandoned  sync.Map      // the IDs of the attempts that are cleaned up
	flights    flights
	firsts     firsts
	lately     *lately // nil when the store's claims are as cheap as a read
}

// New makes a Keys over a store. It panics when cfg is not valid: see Config.Validate.
func New(store Store, cfg Config) *Keys {
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	if store == nil {
		panic(&fifty.InvalidError{Field: "store", Problem: "is nil"})
	}
	cfg = cfg.withDefaults()
	return &Keys{
		store: store, cfg: cfg, together: newTogether(store, cfg),
		abandoning: make(chan struct{}, abandonMax), lately: latelyOf(store),
	}
}

// Do runs fn for the first arrival of req and gives every arrival the same answer. fn never starts twice
// for one key, so it may act anywhere: charge a card, send a message.
//
// fn runs on the caller's goroutine. Its context keeps ctx's values but not its cancellation: a client that
// hangs up does not stop the work. It ends after Config.WorkMax, or with cause ErrLost when the key was
// decided without this owner. TokenFrom gives it the claim's fencing token. What it returns decides:
//
//   - a Response is the answer, stored before Do returns it;
//   - Refuse(r): the same, for a refusal;
//   - NotDone(err): nothing happened; the key is free and Do returns err;
//   - any other error, a panic or a runtime.Goexit: the work may have happened. The key is left unresolved,
//     fn never runs again for it, and Do returns an *UnresolvedError around the error.
//
// Without running fn, Do returns the stored answer (Replayed is set), ErrInFlight, ErrMismatch,
// ErrUnresolved, ErrNotReplayable, ErrExpired, ErrUnavailable (nothing was run; ask again) or a
// *fifty.InvalidError. When fn succeeded and its answer could not be stored, Do withholds it and returns an
// error that is a fifty.ErrUnknownOutcome: ask again with the same key.
//
// An owner whose process dies leaves the key in flight until its lease runs out, then unresolved.
//
// Over a BatchStore, what the calls of Do at the same time ask of the store travels together, in one statement and
// one commit. A call that is alone waits for nobody and costs what it did. Each has its own outcome: a key that
// can't be written fails alone, a caller whose ctx ends takes nobody along, and when the reply to many is lost each
// asks again by itself. The context of what many send carries no caller's values.
func (k *Keys) Do(ctx context.Context, req Request, fn func(ctx context.Context) (Response, error)) (Result, error) {
	return k.do(ctx, k.attempt(req), func(o *owner) (Response, error) { return fn(&o.run) })
}

// do claims the attempt's key and runs fn as its owner, or answers for the record that is there.
func (k *Keys) do(ctx context.Context, a Attempt, fn func(o *owner) (Response, error)) (Result, error) {
	if err := a.Request.Validate(); err != nil {
		return Result{}, err
	}
	k.spot(ctx, a.Request)
	seen := k.saw(a.Request)
	if rec, ok := k.answered(ctx, a.Request, seen); ok {
		return k.duplicate(ctx, a.Request, rec)
	}
	o := &owner{keys: k, asking: asking{attempts: [1]Attempt{a}}}
	req := &o.asking.attempts[0].Request
	claimed, err := k.await(ctx, *req, func(ctx context.Context) (*Claimed, error) {
		asking := &o.asking
		if asking.first.used { // it waits and asks again; a store may still be reading what it was given before
			asking = newAsking(a)
		}
		claimed, err := k.claim(ctx, asking)
		o.sent = asking.sent(k) // the lease is not older than this
		return claimed, err
	})
	if err != nil {
		return Result{}, err
	}
	k.learn(seen, !claimed.Won && claimed.Record.State == Done)
	if !claimed.Won {
		return k.duplicate(ctx, *req, claimed.Record)
	}
	o.rec = &claimed.Record
	if k.cfg.Wait {
		k.flights.start(&o.flight, *req)
		defer k.flights.end(&o.flight, *req)
	}
	k.observe(ctx, "idempotency.claimed", *req, o.sent, nil)
	return k.work(ctx, o, fn)
}

// Find returns the record of a key, or ErrNotFound. A claim whose owner vanished, and which nobody may
// take over, reads as Unknown.
func (k *Keys) Find(ctx context.Context, scope, key string) (Record, error) {
	if err := ValidateScope(scope); err != nil {
		return Record{}, err
	}
	if err := ValidateKey(key); err != nil {
		return Record{}, err
	}
	rec, err := k.store.Find(ctx, scope, key)
	if err != nil {
		return Record{}, err
	}
	rec.State = rec.seen()
	return rec, nil
}

// Replay is what a duplicate of rec's request gets, without asking for the key: the kept answer, opened or
// rebuilt, with Replayed set, or one of the errors of Do. A key that is free, or whose work may be resumed, is
// an ErrInFlight. rec is one that Find returned.
func (k *Keys) Replay(ctx context.Context, rec Record) (Result, error) {
	return k.answer(ctx, rec.Request, rec)
}

// anyFingerprint is of a version that can't be compared, so it matches all.
const anyFingerprint Fingerprint = "\x00any"

// named is req with the fingerprint that counts.
func (k *Keys) named(req Request) Request {
	if k.cfg.AnyFingerprint {
		req.Fingerprint = anyFingerprint
	}
	return req
}

func (k *Keys) attempt(req Request) Attempt {
	req = k.named(req)
	a := Attempt{ID: rand.Text(), Request: req, Owner: k.cfg.Owner, Lease: k.cfg.Lease}
	if at, ok := Made(req.Key); ok {
		a.Made, a.Window = at, k.cfg.Tombstone
	}
	return a
}

// duplicate turns the record of a key that is not this attempt's into what its caller gets.
func (k *Keys) duplicate(ctx context.Context, req Request, rec Record) (Result, error) {
	res, err := k.answer(ctx, req, rec)
	name := "idempotency.replayed"
	switch {
	case err == nil, errors.Is(err, ErrNotReplayable):
	case errors.Is(err, ErrInFlight):
		name = "idempotency.in_flight"
	case errors.Is(err, ErrMismatch):
		name = "idempotency.mismatch"
	case errors.Is(err, ErrUnresolved):
		name = "idempotency.unresolved"
	case errors.Is(err, ErrExpired):
		name = "idempotency.expired"
	default:
		name = "idempotency.replay_failed"
	}
	k.observe(ctx, name, req, time.Time{}, err)
	return res, err
}

// answer is what the caller of a request gets for a record that is not its own.
func (k *Keys) answer(ctx context.Context, req Request, rec Record) (Result, error) {
	res, err := judged(req, rec)
	if err != nil {
		return res, err
	}
	res.Response, err = k.replay(ctx, req, res.Response)
	return res, err
}

// judged is what a record says to a request that doesn't own its key.
func judged(req Request, rec Record) (Result, error) {
	// A key that is free, or just being taken over, belongs to whoever comes next: ask again.
	if rec.State != Free && !req.Fingerprint.Matches(rec.Request.Fingerprint) {
		return Result{}, &MismatchError{Scope: req.Scope, Key: req.Key}
	}
	switch {
	case rec.State == Done && rec.Response.NotReplayable:
		return Result{Response: rec.Response, Replayed: true}, ErrNotReplayable
	case rec.State == Done:
		return Result{Response: rec.Response, Replayed: true}, nil
	case rec.State == Tombstone:
		return Result{}, ErrExpired
	case rec.seen() == Unknown:
		return Result{}, &UnresolvedError{Request: req}
	default:
		return Result{}, &InFlightError{Key: req.Key, RetryAfter: retryAfter}
	}
}

// spot looks for the sign of a key per attempt.
func (k *Keys) spot(ctx context.Context, req Request) {
	if k.cfg.PerAttempt == nil || k.cfg.Observer == nil {
		return
	}
	if sign, first := k.cfg.PerAttempt.See(req); sign {
		k.cfg.Observer.Observe(ctx, fifty.Event{Name: "idempotency.key_per_attempt", Attrs: []slog.Attr{
			slog.String("scope", req.Scope), slog.String("key", req.Key), slog.Bool("first", first),
		}})
	}
}

func (k *Keys) observe(ctx context.Context, name string, req Request, began time.Time, err error) {
	if k.cfg.Observer == nil {
		return
	}
	e := fifty.Event{Name: name, Err: err, Attrs: []slog.Attr{slog.String("scope", req.Scope), slog.String("key", req.Key)}}
	if !began.IsZero() {
		e.Took = wall.Since(began)
	}
	k.cfg.Observer.Observe(ctx, e)
}

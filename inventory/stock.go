package inventory

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/internal/wall"
	"github.com/fiftyhosts/fifty/retry"
)

// Defaults of Config, and its bounds.
const (
	ttlMin             = time.Second
	holdMaxDefault     = 24 * time.Hour
	storeMaxDefault    = 10 * time.Second
	keepDefault        = 30 * 24 * time.Hour
	refusalsMaxDefault = 1_000_000
	queueMaxDefault    = 10_000
	batchMaxDefault    = 256
)

// storeTriesMax bounds how often one ask goes to a store that fails. StoreMax ends it before that, usually.
const storeTriesMax = 1000

// Config is that of New. The zero value works.
type Config struct {
	// Strategy says how callers share a hot SKU. Defaults to Combined.
	Strategy Strategy

	// HoldMax is the longest that a hold may last from the moment it is reserved or extended; the least is a
	// second. Defaults to 24 h.
	HoldMax time.Duration

	// StoreMax is how long an ask is tried again while the store fails. Defaults to 10 s.
	StoreMax time.Duration

	// Keep is how long a hold that was confirmed, released, refused or has lapsed is remembered, and a
	// delivery: an id that comes again later is new. Longer than the latest retry, replays by hand included.
	// Nothing is forgotten unless Sweep runs. Defaults to 30 days.
	Keep time.Duration

	// RefusalsMax is how many refusals of a SKU are remembered. At the bound further asks that would be
	// refused get ErrBusy instead: an old refusal is never forgotten early. Defaults to 1,000,000.
	RefusalsMax int64

	// BatchMax is the most asks that share a transaction under Combined. Defaults to 256.
	BatchMax int

	// QueueMax is the most asks that wait in this process under Combined; further ones get ErrBusy. Defaults
	// to 10,000.
	QueueMax int

	// Observer sees the events named in the package's doc. Defaults to none.
	Observer fifty.Observer
}

func (c Config) withDefaults() Config {
	if c.HoldMax == 0 {
		c.HoldMax = holdMaxDefault
	}
	if c.StoreMax == 0 {
		c.StoreMax = storeMaxDefault
	}
	if c.Keep == 0 {
		c.Keep = keepDefault
	}
	if c.RefusalsMax == 0 {
		c.RefusalsMax = refusalsMaxDefault
	}
	if c.BatchMax == 0 {
		c.BatchMax = batchMaxDefault
	}
	if c.QueueMax == 0 {
		c.QueueMax = queueMaxDefault
	}
	return c
}

// Validate returns a *fifty.InvalidError that names the first field that is wrong, or nil.
func (c Config) Validate() error {
	negative := "is negative; leave it zero for the default"
	switch {
	case c.Strategy.buckets < 0 || c.Strategy.buckets > BucketsMax:
		return &fifty.InvalidError{Field: "Config.Strategy", Problem: fmt.Sprintf("has %d buckets; there may be 1 to %d", c.Strategy.buckets, BucketsMax)}
	case c.HoldMax != 0 && c.HoldMax < ttlMin:
		return &fifty.InvalidError{Field: "Config.HoldMax", Problem: fmt.Sprintf("is %v; the least is %v", c.HoldMax, ttlMin)}
	case c.StoreMax < 0:
		return &fifty.InvalidError{Field: "Config.StoreMax", Problem: negative}
	case c.Keep < 0:
		return &fifty.InvalidError{Field: "Config.Keep", Problem: negative}
	case c.RefusalsMax < 0:
		return &fifty.InvalidError{Field: "Config.RefusalsMax", Problem: negative}
	case c.BatchMax < 0:
		return &fifty.InvalidError{Field: "Config.BatchMax", Problem: negative}
	case c.QueueMax < 0:
		return &fifty.InvalidError{Field: "Config.QueueMax", Problem: negative}
	}
	return nil
}

// Strategy is how callers share a hot SKU. All are exact, synchronous and durable; see the package's page for
// what each costs. Any Strategy works on any SKU: a split one stays split until Split says otherwise.
type Strategy struct {
	alone   bool
	buckets int
}

// The strategies. The zero Strategy is Combined.
var (
	// Combined gathers the asks of this process's callers: one lock of the hot row and one commit for all
	// that came while the last batch was on its way. Nobody waits for a batch to fill.
	Combined = Strategy{}

	// Row is a transaction for each ask: callers queue for the row.
	Row = Strategy{alone: true}
)

// Buckets splits each SKU that is new to the store into count rows, so that as many callers are served at
// once, each in a transaction of its own. Levels then take a sum, and the last units all the locks.
func Buckets(count int) Strategy { return Strategy{alone: true, buckets: count} }

// Stock is the stock of a store. It is safe for concurrent use, and any number of processes may share one
// store.
type Stock struct {
	store           Store
	cfg             Config
	reserve, settle func(ctx context.Context, a Ask) (Answer, error) // one ask, alone or with others
}

// New makes a Stock over a store. It panics when cfg is not valid: see Config.Validate.
func New(store Store, cfg Config) *Stock {
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	if store == nil {
		panic(&fifty.InvalidError{Field: "store", Problem: "is nil"})
	}
	s := &Stock{store: store, cfg: cfg.withDefaults()}
	s.reserve, s.settle = s.lane("reserve", store.Reserve), s.lane("settle", store.Settle)
	return s
}

// Supply adds stock; a SKU that is new begins with it. id is that of the delivery: the same id again changes
// nothing more, and is an ErrMismatch with other items. An error of the store leaves open whether it counted
// only if it is a fifty.ErrUnknownOutcome: ask again with the same id.
func (s *Stock) Supply(ctx context.Context, id string, items Items) error {
	return s.deliver(ctx, Delivery{ID: id, Items: items, Buckets: s.cfg.Strategy.buckets})
}

// Withdraw takes stock away from what is available, as Supply adds it. A *SoldOutError says that there is not
// so much available; nothing is recorded then.
func (s *Stock) Withdraw(ctx context.Context, id string, items Items) error {
	return s.deliver(ctx, Delivery{ID: id, Items: items, Away: true})
}

func (s *Stock) deliver(ctx context.Context, d Delivery) error {
	if err := validateName("id", d.ID); err != nil {
		return err
	}
	if err := d.Items.Validate(); err != nil {
		return err
	}
	return s.insist(ctx, func(ctx context.Context) error { return s.store.Supply(ctx, d) })
}

// Availability returns the level of each SKU, in order. Units of expired holds count as available. It is a
// look: what it says may be gone when it returns. An unknown SKU is an *UnknownSKUError.
func (s *Stock) Availability(ctx context.Context, skus ...string) ([]Level, error) {
	for _, sku := range skus {
		if err := validateName("skus", sku); err != nil {
			return nil, err
		}
	}
	return s.store.Availability(ctx, skus)
}

// Reserve sets items aside for ttl: all of them or none. id is the order's: made by the client, once per
// intent, and sent again with every retry.
//
//   - A Hold without an error is the yes. The same id gets it again, with Replayed set; its State says what
//     has become of it since, Expired included.
//   - A *SoldOutError is the no. It stays, also when there is stock again: a new attempt to buy is a new id.
//   - A *MismatchError: the id was used with other items.
//   - An *UnknownSKUError, ErrBusy, an ErrUnavailable or a *fifty.InvalidError: nothing happened.
//   - A fifty.ErrUnknownOutcome: it may have happened. Ask again with the same id.
//
// The hold expires at the end of the second in which ttl is over, by the store's clock. ctx governs the wait
// for a turn and the first statement; an ask that was sent is not called back.
func (s *Stock) Reserve(ctx context.Context, id string, items Items, ttl time.Duration) (Hold, error) {
	if err := items.Validate(); err != nil {
		return Hold{}, err
	}
	if err := s.validTTL(ttl); err != nil {
		return Hold{}, err
	}
	return s.do(ctx, Ask{Act: Reserve, ID: id, Items: items, TTL: ttl, RefusalsMax: s.cfg.RefusalsMax})
}

// Confirm sells what the hold has. Asked again it says the same, with Replayed set. A hold that has expired
// is confirmed all the same if its units are still there; otherwise the error is a *HoldExpiredError, for
// good: refund what was paid. A hold that was released or refused is a *StateError, an unknown one
// ErrNotFound. The other errors are those of Reserve.
func (s *Stock) Confirm(ctx context.Context, id string) (Hold, error) {
	return s.do(ctx, Ask{Act: Confirm, ID: id})
}

// ConfirmPart sells a part of what the hold has and gives the rest back. The same part again is a replay;
// another one is a *MismatchError. Otherwise it is Confirm.
func (s *Stock) ConfirmPart(ctx context.Context, id string, items Items) (Hold, error) {
	if err := items.Validate(); err != nil {
		return Hold{}, err
	}
	return s.do(ctx, Ask{Act: Confirm, ID: id, Items: items})
}

// Release gives a hold's units back. Asked again it says the same, with Replayed set; units are never given
// back twice, and a hold that has expired can't be confirmed any more afterwards. A hold that was confirmed or
// refused is a *StateError.
func (s *Stock) Release(ctx context.Context, id string) (Hold, error) {
	return s.do(ctx, Ask{Act: Release, ID: id})
}

// Extend makes a hold last for ttl from now, if it would not last longer anyway. It never revives one that
// has expired: that is a *HoldExpiredError. A hold in any other state is a *StateError.
func (s *Stock) Extend(ctx context.Context, id string, ttl time.Duration) (Hold, error) {
	if err := s.validTTL(ttl); err != nil {
		return Hold{}, err
	}
	return s.do(ctx, Ask{Act: Extend, ID: id, TTL: ttl})
}

func (s *Stock) validTTL(ttl time.Duration) error {
	if ttl < ttlMin || ttl > s.cfg.HoldMax {
		return &fifty.InvalidError{Field: "ttl", Problem: fmt.Sprintf("is %v; it is from %v to Config.HoldMax, %v", ttl, ttlMin, s.cfg.HoldMax)}
	}
	return nil
}

// do asks until there is an answer. An ask may be made again as often as one likes: its id is known.
func (s *Stock) do(ctx context.Context, a Ask) (Hold, error) {
	if err := validateName("id", a.ID); err != nil {
		return Hold{}, err
	}
	var began time.Time
	if s.cfg.Observer != nil {
		began = wall.Now()
	}
	var answer Answer
	err := s.insist(ctx, func(ctx context.Context) (err error) {
		if a.Act == Reserve {
			answer, err = s.reserve(ctx, a)
		} else {
			answer, err = s.settle(ctx, a)
		}
		return err
	})
	if err == nil {
		err = answer.Err
	}
	s.observe(ctx, a, answer, began, err)
	return answer.Hold, err
}

// insist calls the store until it answers, for StoreMax. What may have happened in one try stays unknown when
// the later ones fail too.
func (s *Stock) insist(ctx context.Context, call func(ctx context.Context) error) error {
	var unknown error
	policy := retry.Policy{AttemptsMax: storeTriesMax, ElapsedMax: s.cfg.StoreMax, Idempotent: true, Retryable: retryable}
	err := retry.Do(ctx, policy, func(ctx context.Context) error {
		err := call(ctx)
		if errors.Is(err, fifty.ErrUnknownOutcome) {
			unknown = err
		}
		return err
	})
	switch {
	case unknown != nil && (errors.Is(err, ErrBusy) || errors.Is(err, context.Canceled)):
		return errors.Join(unknown, err) // nothing was done by this try; that one may have
	case err == nil || !retryable(err):
		return err
	case errors.Is(err, fifty.ErrUnknownOutcome):
		return err
	case unknown != nil:
		return errors.Join(unknown, err)
	default:
		return &UnavailableError{Cause: err}
	}
}

// retryable says whether an error is one of the store, and not an answer.
func retryable(err error) bool {
	for _, answer := range []error{fifty.ErrInvalid, fifty.ErrUnsupported, ErrSoldOut, ErrMismatch, ErrUnknownSKU, ErrBusy, context.Canceled} {
		if errors.Is(err, answer) {
			return false
		}
	}
	return true
}

// Sweep tidies: it frees expired holds, and removes what was settled or refused longer than Config.Keep ago.
// It returns how many it removed, may run on any number of hosts at once, and is needed for space, not for
// correctness. See fifty.Sweep.
func (s *Stock) Sweep(ctx context.Context) (removed int, err error) {
	for range sweepBatchesMax {
		n, err := s.store.Sweep(ctx, s.cfg.Keep, sweepBatch)
		removed += n
		if err != nil {
			s.emit(ctx, fifty.Event{Name: "inventory.sweep_failed", Err: err})
			return removed, err
		}
		if n < sweepBatch {
			break
		}
	}
	return removed, nil
}

var _ fifty.Sweeper = (*Stock)(nil)

// Bounds of one Sweep.
const (
	sweepBatch      = 1000
	sweepBatchesMax = 10_000
)

func (s *Stock) observe(ctx context.Context, a Ask, answer Answer, began time.Time, err error) {
	if s.cfg.Observer == nil {
		return
	}
	name := "inventory." + eventOf(a, answer, err)
	s.emit(ctx, fifty.Event{Name: name, Took: wall.Since(began), Err: err, Attrs: []slog.Attr{slog.String("id", a.ID)}})
}

func (s *Stock) emit(ctx context.Context, e fifty.Event) {
	if s.cfg.Observer != nil {
		s.cfg.Observer.Observe(ctx, e)
	}
}

func eventOf(a Ask, answer Answer, err error) string {
	switch {
	case errors.Is(err, ErrSoldOut):
		return "sold_out"
	case errors.Is(err, ErrHoldExpired):
		return "hold_expired"
	case errors.Is(err, ErrMismatch):
		return "mismatch"
	case errors.Is(err, ErrBusy):
		return "busy"
	case err != nil:
		return "failed"
	case answer.Hold.Replayed:
		return "replayed"
	}
	switch a.Act {
	case Reserve:
		return "reserved"
	case Confirm:
		return "confirmed"
	case Release:
		return "released"
	default:
		return "extended"
	}
}

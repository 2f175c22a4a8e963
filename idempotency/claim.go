package idempotency

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/internal/wall"
	"github.com/fiftyhosts/fifty/retry"
)

// How one conversation with the store is tried again while it fails, within StoreMax: soon at first, for a
// blip, and then about twice a second, for a restart that takes its time.
const (
	storeBase     = 20 * time.Millisecond
	storeCap      = time.Second
	storeTriesMax = 1000
)

// lateMax bounds how often a claim is given back because its reply outlasted its lease.
const lateMax = 5

// abandonMax bounds the clean-ups of lost claims that run at once.
const abandonMax = 64

func (k *Keys) storePolicy(clock retry.Clock) retry.Policy {
	return retry.Policy{
		Clock:       clock,
		Base:        storeBase,
		Cap:         min(storeCap, k.cfg.StoreMax/5),
		ElapsedMax:  k.cfg.StoreMax,
		AttemptsMax: storeTriesMax,
		Idempotent:  true, // a claim is known by its attempt, a completion by its claim
		Retryable:   func(err error) bool { return !isLost(err) && !refused(err) },
	}
}

// claim asks the store for the key. The error is ErrExpired, a *fifty.InvalidError, or an *UnavailableError;
// nothing was run.
func (k *Keys) claim(ctx context.Context, asking *asking) (*Claimed, error) {
	for range lateMax {
		a := &asking.attempts[0]
		claimed, err := k.ask(ctx, asking)
		if err != nil || claimed.Won || !k.neverBegan(&claimed.Record, a) {
			return claimed, err
		}
		// The key reads as one whose owner vanished, but its owner is here, and has not begun. It gives the
		// claim back and asks as somebody new.
		free := Completion{Claim: claimed.Record.claim(), State: Free}
		_, err = k.complete(ctx, &ending{completions: [1]Completion{free}})
		if err != nil && !isLost(err) {
			k.abandonSoon(ctx, *a)
			return nil, &UnavailableError{Cause: err}
		}
		next := *a
		next.ID = rand.Text()
		asking = newAsking(next) // a store may still be reading what it was given before
	}
	return nil, &UnavailableError{Cause: errLate}
}

// asking is an attempt on its way to the store, and the time-out of the first try, in one piece of memory. What
// a store was given is never changed.
type asking struct {
	attempts [1]Attempt
	first    trial
}

func newAsking(a Attempt) *asking { return &asking{attempts: [1]Attempt{a}} }

// sent is when the first try went out, or a little before, by this host's clock.
func (a *asking) sent(k *Keys) time.Time { return a.first.until.Add(wall.Skew() - k.cfg.StoreMax/2) }

// trial is the time-out of the first try of a conversation with the store, and the clock of all its tries: the
// reading with which the conversation begins is also the beginning of the first try.
type trial struct{ limited }

// Now tells the retries the time.
func (t *trial) Now() time.Time {
	now := wall.Runtime()
	if !t.used {
		t.until = now
	}
	return now
}

// Sleep waits between two tries.
func (t *trial) Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// next begins the time-out of the next try under ctx: the first one in t itself, each further one anew, for the
// store may still look at the one before.
func (t *trial) next(ctx context.Context, most time.Duration) *limited {
	if t.used {
		l := new(limited)
		l.begin(ctx, wall.Runtime().Add(most))
		return l
	}
	t.used = true
	t.begin(ctx, t.until.Add(most))
	return &t.limited
}

// neverBegan says that the record is a claim of this process whose function never started: a's own, if its
// replies were lost for longer than the lease, or one that an earlier call had to give up.
func (k *Keys) neverBegan(rec *Record, a *Attempt) bool {
	if rec.State != InFlight {
		return false
	}
	_, abandoned := k.abandoned.Load(rec.Attempt)
	return abandoned || (rec.Attempt == a.ID && rec.Expired())
}

// errLate says that the store's replies take longer than the lease.
var errLate = errors.New("every claim had expired when its reply arrived; Config.Lease is too short for this store")

// ask sends one attempt's claim, again and again until there is a reply: a claim whose reply was lost is
// recognised as ours.
func (k *Keys) ask(ctx context.Context, asking *asking) (claimed *Claimed, err error) {
	err = retry.Do(ctx, k.storePolicy(&asking.first), func(ctx context.Context) error {
		limit := asking.first.next(ctx, k.cfg.StoreMax/2)
		defer limit.end()
		var err error
		if claimed, err = k.together.claim(limit, asking); err != nil {
			return err
		}
		return claimed.Err
	})
	if err == nil {
		return claimed, nil
	}
	if refused(err) {
		return nil, err
	}
	if errors.Is(err, fifty.ErrUnknownOutcome) {
		k.abandonSoon(ctx, asking.attempts[0])
	}
	return nil, &UnavailableError{Cause: err}
}

// refused says that the store was asked and said no to the attempt, for good.
func refused(err error) bool { return errors.Is(err, ErrExpired) || errors.Is(err, fifty.ErrInvalid) }

// abandonSoon frees, in the background, a claim that may have landed without a reply. Left alone it would
// read as an owner that vanished, although nothing ever started. When the store is down for many at once,
// only the first abandonMax are looked after; the others' keys wait for an operator, which is safe.
func (k *Keys) abandonSoon(ctx context.Context, a Attempt) {
	select {
	case k.abandoning <- struct{}{}:
		k.abandoned.Store(a.ID, nil)
		go func() {
			defer func() { <-k.abandoning }()
			k.abandon(context.WithoutCancel(ctx), a)
			// A call that read the record before it was freed may still be about to ask.
			time.AfterFunc(k.cfg.StoreMax, func() { k.abandoned.Delete(a.ID) })
		}()
	default:
	}
}

// abandon frees the claim of an attempt that never started its function. It gives up after a lease.
func (k *Keys) abandon(ctx context.Context, a Attempt) {
	p := k.storePolicy(nil)
	p.Base, p.Cap, p.ElapsedMax = k.cfg.Lease/30, k.cfg.Lease/3, k.cfg.Lease
	ctx, cancel := context.WithTimeout(ctx, k.cfg.Lease+k.cfg.StoreMax)
	defer cancel()
	found := false
	err := retry.Do(ctx, p, func(ctx context.Context) error {
		rec, err := k.store.Find(ctx, a.Request.Scope, a.Request.Key)
		if err != nil || rec.Attempt != a.ID {
			return err
		}
		found = true
		return k.together.end(ctx, &ending{completions: [1]Completion{{Claim: rec.claim(), State: Free}}})
	})
	if err == nil && found {
		k.observe(ctx, "idempotency.freed", a.Request, time.Time{}, nil)
	}
}

package idempotencytest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
)

// KeyWork is a client that calls a store at random about one key, rightly and wrongly: it asks with new
// attempts and old ones, and ends, renews and steps claims that it holds, held, or never had.
type KeyWork struct {
	Rand    *rand.Rand          // whose seed decides all that the client does
	Store   idempotency.Store   // mostly a RecordedStore; decisions are asked for where it has Resolve
	Request idempotency.Request // of the key
	Name    string              // of the client; tells attempts and answers apart
	Leases  []time.Duration     // one of them at random. Defaults to a minute
	Pass    func()              // lets time pass, so that leases run out; nil leaves that to the clock

	made     int
	attempts []idempotency.Attempt
	claims   []idempotency.Claim
}

// Run makes so many calls. Their results are for the history to judge; a context that has ended ends it.
func (w *KeyWork) Run(ctx context.Context, calls int) {
	for range calls {
		if ctx.Err() != nil {
			return
		}
		w.call(ctx)
	}
}

func (w *KeyWork) call(ctx context.Context) {
	w.made++
	if len(w.claims) == 0 {
		w.claim(ctx, w.attempt())
		return
	}
	switch n := w.Rand.IntN(100); {
	case n < 22:
		w.claim(ctx, w.attempt())
	case n < 30:
		w.claim(ctx, pick(w.Rand, w.attempts))
	case n < 52:
		w.complete(ctx)
	case n < 62:
		_, _ = w.Store.Renew(ctx, []idempotency.Claim{w.some()}, w.lease())
	case n < 74:
		_ = w.Store.SaveStep(ctx, w.some(), w.step())
	case n < 84:
		_, _ = w.Store.Find(ctx, w.Request.Scope, w.Request.Key)
	case n < 92:
		w.resolve(ctx)
	case w.Pass != nil:
		w.Pass()
	default:
		w.claim(ctx, w.attempt())
	}
}

func pick[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }

func (w *KeyWork) lease() time.Duration {
	if len(w.Leases) == 0 {
		return time.Minute
	}
	return pick(w.Rand, w.Leases)
}

// attempt is a new arrival, mostly of the same intent and mostly one that may resume.
func (w *KeyWork) attempt() idempotency.Attempt {
	a := idempotency.Attempt{
		ID: fmt.Sprintf("%s-%d", w.Name, w.made), Request: w.Request, Owner: w.Name,
		Lease: w.lease(), Resume: w.Rand.IntN(4) > 0,
	}
	if w.Rand.IntN(8) == 0 {
		a.Request = otherIntent(a.Request)
	}
	w.attempts = append(w.attempts, a)
	return a
}

func (w *KeyWork) claim(ctx context.Context, a idempotency.Attempt) {
	all, err := w.Store.Claim(ctx, []idempotency.Attempt{a})
	if err == nil && all[0].Won {
		w.claims = append(w.claims, claimOf(all[0].Record))
	}
}

// some is a claim to act on: mostly the latest, else an old one, or one that nobody ever had.
func (w *KeyWork) some() idempotency.Claim {
	latest := w.claims[len(w.claims)-1]
	switch w.Rand.IntN(12) {
	case 0:
		latest.Token += int64(w.Rand.IntN(3) - 1)
	case 1:
		latest.Attempt = w.Name + "-nobody"
	case 2, 3:
		return pick(w.Rand, w.claims)
	}
	return latest
}

func (w *KeyWork) complete(ctx context.Context) {
	c := idempotency.Completion{Claim: w.some(), State: pick(w.Rand, []idempotency.State{
		idempotency.Done, // one of eight: it ends all that can happen
		idempotency.Free, idempotency.Free, idempotency.Unknown, idempotency.Unknown,
		idempotency.InFlight, idempotency.InFlight, idempotency.InFlight,
	})}
	if c.State == idempotency.Done {
		c.Response = w.answer()
	}
	_, _ = w.Store.Complete(ctx, []idempotency.Completion{c})
}

func (w *KeyWork) answer() idempotency.Response {
	return answerOf(fmt.Sprintf("%s-%d", w.Name, w.made))
}

func (w *KeyWork) step() idempotency.StepRecord {
	s := idempotency.StepRecord{Name: pick(w.Rand, []string{"a", "b"}), Sent: w.Rand.IntN(4) > 0}
	if s.Sent && w.Rand.IntN(3) > 0 {
		s.Result = fmt.Appendf(nil, `"%s-%d"`, w.Name, w.made)
	}
	return s
}

func (w *KeyWork) resolve(ctx context.Context) {
	operator, ok := w.Store.(interface {
		Resolve(ctx context.Context, r idempotency.Resolution) error
	})
	if !ok {
		return
	}
	r := idempotency.Resolution{Scope: w.Request.Scope, Key: w.Request.Key, By: w.Name, Note: "at random"}
	if w.Rand.IntN(2) == 0 {
		r.Token = w.some().Token
	}
	if w.Rand.IntN(6) == 0 {
		answer := w.answer()
		r.Response = &answer
	}
	_ = operator.Resolve(ctx, r)
}

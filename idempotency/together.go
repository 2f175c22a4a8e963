package idempotency

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/internal/combine"
	"github.com/fiftyhosts/fifty/txn"
)

// Bounds of what is sent together.
const (
	waitingMax = 1 << 16 // callers of a lane that wait for their batch; further ones try again as while the store fails
	bytesMax   = 4 << 20 // of the answers in one batch
)

// together is how a Keys talks to its store: to a BatchStore it sends what its callers ask for at the same time in
// one call, and a caller who is alone asks by itself, on its own goroutine. Renewals have a lane of their own, so
// that none waits behind a crowd of new requests and loses its lease. To any other store each asks by itself.
type together struct {
	store  Store
	lease  time.Duration
	claims *combine.Combiner[*asking, *Claimed] // nil for a store that is no BatchStore, as are the others
	ends   *combine.Combiner[*ending, error]
	beats  *combine.Combiner[Claim, error]
}

func newTogether(store Store, cfg Config) *together {
	t := &together{store: store, lease: cfg.Lease}
	s, ok := store.(BatchStore)
	if !ok || s.BatchMax() < 2 {
		return t
	}
	var observer fifty.Observer
	if cfg.Observer != nil {
		observer = crowds{cfg.Observer}
	}
	split := func(error) bool { return true }
	if c, ok := store.(interface{ Classify(err error) txn.Class }); ok {
		split = func(err error) bool { return c.Classify(err) == txn.Permanent } // what passes is nobody's fault
	}
	t.claims = combine.New(t.claimAll, combine.Config[*asking, *Claimed]{
		Name: "idempotency.claims", One: t.claimOne, BatchMax: s.BatchMax(), QueueMax: waitingMax,
		Timeout: cfg.StoreMax / 2, Split: split, Observer: observer,
	})
	t.ends = combine.New(t.endAll, combine.Config[*ending, error]{
		Name: "idempotency.completions", One: t.endOne, BatchMax: s.BatchMax(), QueueMax: waitingMax,
		Size: func(e *ending) int { return e.completions[0].Response.size() }, SizeMax: bytesMax,
		Timeout: cfg.StoreMax / 2, Split: split, Observer: observer,
	})
	t.beats = combine.New(t.renewAll, combine.Config[Claim, error]{
		Name: "idempotency.renewals", One: t.renewOne, BatchMax: s.BatchMax(), QueueMax: waitingMax,
		Timeout: cfg.Lease / 3, Split: split, Observer: observer,
	})
	return t
}

// claim asks once for a key.
func (t *together) claim(ctx context.Context, a *asking) (*Claimed, error) {
	if t.claims == nil {
		return t.claimOne(ctx, a)
	}
	claimed, err := t.claims.Do(ctx, a)
	if apart(err) || err == nil && apart(claimed.Err) {
		return t.claimOne(ctx, a)
	}
	return claimed, err
}

// apart says that a member of a batch is to be asked for by itself: the store said so, or the batch panicked, maybe
// because of another member. If it happened all the same, the store knows it by its id.
func apart(err error) bool {
	if err == nil {
		return false
	}
	_, panicked := errors.AsType[*combine.PanicError](err)
	return panicked || errors.Is(err, ErrAlone)
}

func (t *together) claimOne(ctx context.Context, a *asking) (*Claimed, error) {
	all, err := t.store.Claim(ctx, a.attempts[:])
	if err != nil {
		return nil, err
	}
	return &all[0], nil
}

// claimAll is claimOne of many. Each gets an answer of its own, since some keep theirs for long.
func (t *together) claimAll(ctx context.Context, asked []*asking) ([]*Claimed, error) {
	attempts := make([]Attempt, len(asked))
	for i, a := range asked {
		attempts[i] = a.attempts[0]
	}
	answers, err := t.store.Claim(ctx, attempts)
	if err != nil {
		return nil, err
	}
	all := make([]*Claimed, len(answers))
	for i, c := range answers {
		all[i] = &c
	}
	return all, nil
}

// end asks once to record the end of a claim.
func (t *together) end(ctx context.Context, e *ending) error {
	if t.ends == nil {
		return either(t.endOne(ctx, e))
	}
	lost, err := t.ends.Do(ctx, e)
	if apart(err) || apart(lost) {
		lost, err = t.endOne(ctx, e)
	}
	return either(lost, err)
}

// either is the error of a member: that of its call, or else its own.
func either(own, err error) error {
	if err != nil {
		return err
	}
	return own
}

func (t *together) endOne(ctx context.Context, e *ending) (lost, err error) {
	all, err := t.store.Complete(ctx, e.completions[:])
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

func (t *together) endAll(ctx context.Context, ended []*ending) ([]error, error) {
	completions := make([]Completion, len(ended))
	for i, e := range ended {
		completions[i] = e.completions[0]
	}
	return t.store.Complete(ctx, completions)
}

// renew asks once to renew a claim.
func (t *together) renew(ctx context.Context, c Claim) error {
	if t.beats == nil {
		return either(t.renewOne(ctx, c))
	}
	lost, err := t.beats.Do(ctx, c)
	if apart(err) || apart(lost) {
		lost, err = t.renewOne(ctx, c)
	}
	return either(lost, err)
}

func (t *together) renewOne(ctx context.Context, c Claim) (lost, err error) {
	all, err := t.store.Renew(ctx, []Claim{c}, t.lease)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

func (t *together) renewAll(ctx context.Context, claims []Claim) ([]error, error) {
	return t.store.Renew(ctx, claims, t.lease)
}

// crowds tells of batches with more than one member.
type crowds struct{ to fifty.Observer }

func (c crowds) Observe(ctx context.Context, e fifty.Event) {
	if e.Name == "combine.batch" {
		for _, a := range e.Attrs {
			if a.Key == "size" && a.Value.Kind() == slog.KindInt64 && a.Value.Int64() == 1 {
				return
			}
		}
	}
	c.to.Observe(ctx, e)
}

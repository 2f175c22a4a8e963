package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
)

// The operations as single calls of the store, which nobody repeats but the second host: its first host may
// have died. Those that are "late" come from an owner that was taken over meanwhile.
func storeOps[Tx any]() []cutOp[Tx] {
	return []cutOp[Tx]{
		{name: "claim", call: claims[Tx], settle: isOwner[Tx]},
		{name: "claim by two", call: claims[Tx], retry: claimsToo[Tx], settle: isOwner[Tx]},
		{name: "takeover", prepare: letGo[Tx], call: claims[Tx], settle: isOwner[Tx]},
		{name: "takeover by two", prepare: letGo[Tx], call: claims[Tx], retry: claimsToo[Tx], settle: isOwner[Tx]},
		{name: "heartbeat", prepare: owned[Tx], call: renews[Tx], settle: isRenewed[Tx], repeats: true},
		{name: "step", prepare: owned[Tx], call: savesStep[Tx], settle: isSaved[Tx]},
		{name: "complete", prepare: owned[Tx], call: completes[Tx], settle: isComplete[Tx]},
		{name: "claim in a batch", call: claimsTogether[Tx], settle: isOwner[Tx]},
		{name: "heartbeat in a batch", prepare: owned[Tx], call: renewsTogether[Tx], settle: isRenewed[Tx], repeats: true},
		{name: "complete in a batch", prepare: owned[Tx], call: completesTogether[Tx], settle: isComplete[Tx]},
		{name: "late heartbeat", prepare: owned[Tx], call: renews[Tx], retry: takesOver[Tx], settle: isFenced(renews[Tx]), may: lost},
		{name: "late step", prepare: owned[Tx], call: savesStep[Tx], retry: takesOver[Tx], settle: isFenced(savesStep[Tx]), may: lost},
		{name: "late complete", prepare: owned[Tx], call: completes[Tx], retry: takesOver[Tx], settle: isFenced(completes[Tx]), may: lost},
		{name: "resolve", prepare: unknown[Tx], call: resolves[Tx], settle: isDecided[Tx], may: []error{idempotency.ErrDecided}},
		{name: "sweep", prepare: outdated[Tx], call: tidies[Tx], settle: isSwept[Tx], repeats: true},
	}
}

var lost = []error{idempotency.ErrLost}

// owned has the key claimed by the point's attempt, which may be taken over.
func owned[Tx any](c *cut[Tx]) error {
	c.attempt.Resume = true
	all, err := c.second.Keys().Claim(c.ctx, []idempotency.Attempt{c.attempt})
	if err != nil || !all[0].Won {
		return fmt.Errorf("not claimed: %+v, %w", all, err)
	}
	c.claim = claimOf(all[0].Record)
	return nil
}

func (c *cut[Tx]) complete(done idempotency.Completion) error {
	all, err := c.second.Keys().Complete(c.ctx, []idempotency.Completion{done})
	if err != nil {
		return err
	}
	return all[0]
}

// claims asks for the key with the point's first attempt, and claimsToo with another.
func claims[Tx any](ctx context.Context, c *cut[Tx], h host[Tx]) (string, error) {
	return claimsAs(ctx, c, h, "the first attempt")
}

func claimsToo[Tx any](ctx context.Context, c *cut[Tx], h host[Tx]) (string, error) {
	return claimsAs(ctx, c, h, "the second attempt")
}

func claimsAs[Tx any](ctx context.Context, c *cut[Tx], h host[Tx], id string) (string, error) {
	a := resumable(c.key)
	a.ID = id
	all, err := h.Keys().Claim(ctx, []idempotency.Attempt{a})
	if err != nil || !all[0].Won {
		return "", err
	}
	return id, nil
}

// isOwner finds one owner, which learns of it when it asks again, and has what was left to it.
func isOwner[Tx any](c *cut[Tx], first, second said) error {
	rec, err := c.second.Keys().Find(c.ctx, "acme", c.key)
	if err != nil {
		return err
	}
	for _, s := range []said{first, second} {
		if s.answer != "" && s.answer != rec.Attempt {
			return broken("%s was told that it had won, but the owner is %q", s.answer, rec.Attempt)
		}
	}
	won, err := claimsAs(c.ctx, c, c.second, rec.Attempt)
	if err != nil || won == "" {
		return broken("the owner asked again and did not win: %v", err)
	}
	steps := stepNames(rec)
	if inherits := rec.Token > 1; inherits != (steps == "reserve") {
		return broken("an owner with the token %d has the steps %q", rec.Token, steps)
	}
	return c.complete(idempotency.Completion{Claim: claimOf(rec), State: idempotency.Done, Response: created("1")})
}

func renews[Tx any](ctx context.Context, c *cut[Tx], h host[Tx]) (string, error) {
	all, err := h.Keys().Renew(ctx, []idempotency.Claim{c.claim}, 2*cutLease)
	if err == nil {
		err = all[0]
	}
	return "", err
}

// beside is another claim in the same batch.
func beside[Tx any](c *cut[Tx]) idempotency.Claim {
	return idempotency.Claim{Scope: "acme", Key: "beside " + c.key, Token: 1, Attempt: "beside"}
}

// claimsTogether asks for the key together with another one.
func claimsTogether[Tx any](ctx context.Context, c *cut[Tx], h host[Tx]) (string, error) {
	a, b := resumable(c.key), resumable(beside(c).Key)
	a.ID, b.ID = "the first attempt", "beside"
	all, err := h.Keys().Claim(ctx, []idempotency.Attempt{a, b})
	if err != nil {
		return "", err
	}
	if !all[1].Won {
		return "", broken("the one beside it: %+v", all[1])
	}
	return a.ID, all[0].Err
}

// renewsTogether and completesTogether ask by themselves for what the batch passed over, as Keys does.
func renewsTogether[Tx any](ctx context.Context, c *cut[Tx], h host[Tx]) (string, error) {
	all, err := h.Keys().Renew(ctx, []idempotency.Claim{beside(c), c.claim}, 2*cutLease)
	switch {
	case err != nil:
		return "", err
	case errors.Is(all[1], idempotency.ErrAlone):
		return renews(ctx, c, h)
	default:
		return "", all[1]
	}
}

func completesTogether[Tx any](ctx context.Context, c *cut[Tx], h host[Tx]) (string, error) {
	all, err := h.Keys().Complete(ctx, []idempotency.Completion{
		{Claim: beside(c), State: idempotency.Free},
		{Claim: c.claim, State: idempotency.Done, Response: created("the first owner's")},
	})
	switch {
	case err != nil:
		return "", err
	case errors.Is(all[1], idempotency.ErrAlone):
		return completes(ctx, c, h)
	default:
		return "", all[1]
	}
}

func isRenewed[Tx any](c *cut[Tx], _, _ said) error {
	rec, err := c.second.Keys().Find(c.ctx, "acme", c.key)
	if err != nil || rec.Attempt != c.claim.Attempt || rec.Token != c.claim.Token || rec.ExpiresIn <= cutLease {
		return broken("after the heartbeat it is %+v, %v", rec, err)
	}
	return nil
}

func savesStep[Tx any](ctx context.Context, c *cut[Tx], h host[Tx]) (string, error) {
	step := idempotency.StepRecord{Name: "charge", Sent: true, Result: []byte(`"charged"`)}
	return "", h.Keys().SaveStep(ctx, c.claim, step)
}

func isSaved[Tx any](c *cut[Tx], _, _ said) error {
	rec, err := c.second.Keys().Find(c.ctx, "acme", c.key)
	if err != nil || stepNames(rec) != "charge" || string(rec.Steps[0].Result) != `"charged"` {
		return broken("after the step it is %+v, %v", rec, err)
	}
	return nil
}

func completes[Tx any](ctx context.Context, c *cut[Tx], h host[Tx]) (string, error) {
	done := idempotency.Completion{Claim: c.claim, State: idempotency.Done, Response: created("the first owner's")}
	all, err := h.Keys().Complete(ctx, []idempotency.Completion{done})
	if err == nil {
		err = all[0]
	}
	return "", err
}

func isComplete[Tx any](c *cut[Tx], _, _ said) error {
	return c.isAnswered("the first owner's")
}

func (c *cut[Tx]) isAnswered(want string) error {
	rec, err := c.second.Keys().Find(c.ctx, "acme", c.key)
	if err != nil || rec.State != idempotency.Done || string(rec.Response.Body) != want {
		return broken("the answer is not %q: %+v, %v", want, rec, err)
	}
	return nil
}

// takesOver lets the lease run out and takes the key over.
func takesOver[Tx any](_ context.Context, c *cut[Tx], h host[Tx]) (string, error) {
	if err := c.expire(c.key); err != nil {
		return "", err
	}
	all, err := h.Keys().Claim(c.ctx, []idempotency.Attempt{resumable(c.key)})
	if err == nil {
		c.taken = all[0]
	}
	return "", err
}

// isFenced finds that what the first owner did counts if it came before the takeover, and else nothing of it
// does: the second owner's answer is the answer.
func isFenced[Tx any](late func(context.Context, *cut[Tx], host[Tx]) (string, error)) func(*cut[Tx], said, said) error {
	return func(c *cut[Tx], _, second said) error {
		switch {
		case c.clean: // there was no second owner
			return nil
		case second.err != nil:
			return broken("the takeover: %w", second.err)
		case !c.taken.Won && c.taken.Record.State == idempotency.Done:
			return c.isAnswered("the first owner's")
		case !c.taken.Won:
			// A heartbeat that had its row until then came before, and the takeover too early.
			if _, err := takesOver(c.ctx, c, c.second); err != nil || !c.taken.Won {
				return broken("the second takeover: %+v, %v", c.taken, err)
			}
		}
		rec, err := c.second.Keys().Find(c.ctx, "acme", c.key)
		if err != nil || stepNames(rec) != stepNames(c.taken.Record) || rec.Attempt != c.taken.Record.Attempt {
			return broken("the second owner's %+v has become %+v, %v", c.taken.Record, rec, err)
		}
		if _, err := late(c.ctx, c, c.second); !errors.Is(err, idempotency.ErrLost) {
			return broken("the first owner, after the takeover: %v", err)
		}
		done := idempotency.Completion{Claim: claimOf(c.taken.Record), State: idempotency.Done, Response: created("the second owner's")}
		if err := c.complete(done); err != nil {
			return broken("the second owner: %w", err)
		}
		return c.isAnswered("the second owner's")
	}
}

// unknown has the key left by an owner who doesn't know what happened.
func unknown[Tx any](c *cut[Tx]) error {
	if err := owned(c); err != nil {
		return err
	}
	return c.complete(idempotency.Completion{Claim: c.claim, State: idempotency.Unknown})
}

func resolves[Tx any](ctx context.Context, c *cut[Tx], h host[Tx]) (string, error) {
	r := answered(c.key, "decided")
	return "", idempotency.NewOperator(h.Keys()).Resolve(ctx, r)
}

// isDecided finds one decision, which was written down once and which the late owner can't change.
func isDecided[Tx any](c *cut[Tx], _, _ said) error {
	log, err := c.second.Keys().Audit(c.ctx, "acme", c.key)
	if err != nil || len(log) != 1 || log[0].Token != 2 {
		return broken("the decisions are %+v, %v", log, err)
	}
	if _, err := completes(c.ctx, c, c.second); !errors.Is(err, idempotency.ErrLost) {
		return broken("the owner, after the decision: %v", err)
	}
	return c.isAnswered("decided")
}

// What a sweep finds due: an answer with its step, a tombstone, a key that is free; and one that is at work.
var outdatedStates = map[string]idempotency.State{
	" answer": idempotency.Done, " buried": idempotency.Done, " free": idempotency.Free, " at work": idempotency.InFlight,
}

const (
	cutRetention = 24 * time.Hour
	cutTombstone = 48 * time.Hour
)

func outdated[Tx any](c *cut[Tx]) error {
	for suffix, state := range outdatedStates {
		of := *c
		of.key = c.key + suffix
		of.attempt = attempt(of.key)
		if err := owned(&of); err != nil {
			return err
		}
		if _, err := savesStep(c.ctx, &of, c.second); err != nil {
			return err
		}
		if state == idempotency.InFlight {
			continue
		}
		if err := of.complete(idempotency.Completion{Claim: of.claim, State: state}); err != nil {
			return err
		}
	}
	// Between retention and tombstone, so that the answer is dropped but remembered.
	_, err := c.pool.Exec(c.ctx, `update fifty.keys set created = created - interval '36 hours', changed = changed - interval '36 hours'
		where starts_with(key, $1)`, c.key)
	if err != nil {
		return err
	}
	_, err = c.pool.Exec(c.ctx, `
		with buried as (update fifty.keys set state = 5, buried = changed - interval '36 hours' where key = $1 returning key)
		delete from fifty.steps s using buried where s.key = buried.key`, c.key+" buried")
	return err
}

func tidies[Tx any](ctx context.Context, c *cut[Tx], h host[Tx]) (string, error) {
	_, err := h.Keys().Sweep(ctx, cutRetention, cutTombstone, 100)
	return "", err
}

// isSwept sweeps once more, as hosts do, and finds what was due gone and all else as it was. The keys that were
// removed are found to have higher tokens than ever by whoever looks at the trail.
func isSwept[Tx any](c *cut[Tx], _, _ said) error {
	if _, err := tidies(c.ctx, c, c.second); err != nil {
		return broken("the next sweep: %w", err)
	}
	want := map[string]idempotency.State{" answer": idempotency.Tombstone, " at work": idempotency.InFlight}
	for suffix := range outdatedStates {
		rec, err := c.second.Keys().Find(c.ctx, "acme", c.key+suffix)
		switch {
		case want[suffix] == 0 && errors.Is(err, idempotency.ErrNotFound):
		case err != nil || want[suffix] != rec.State || (len(rec.Steps) == 1) != (rec.State == idempotency.InFlight):
			return broken("what was%s is %+v, %v", suffix, rec, err)
		}
	}
	return nil
}

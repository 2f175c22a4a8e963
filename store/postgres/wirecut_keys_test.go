package postgres_test

import (
	"context"
	"errors"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/txn"
)

// The operations as a program calls them: with the library's own retries over the lost connection.
func keysOps[Tx any]() []cutOp[Tx] {
	return []cutOp[Tx]{
		{name: "Do", call: do[Tx], settle: oneAnswer(do[Tx], 1, 1)},
		{
			name: "Do with a heartbeat", call: doWithBeat[Tx], retry: do[Tx], settle: oneAnswer(do[Tx], 1, 1),
			lease: beatLease, arms: true, may: []error{idempotency.ErrUnresolved},
		},
		{name: "Do of a refusal", call: doRefused[Tx], settle: oneAnswer(doRefused[Tx], 1, 1)},
		{name: "Do of what did not happen", call: doNothing[Tx], may: []error{errNothing}, settle: oneAnswer(do[Tx], 1, 0)},
		{name: "replay", prepare: done[Tx], call: do[Tx], settle: oneAnswer(do[Tx], 1, 1)},
		{name: "DoSteps", call: doSteps[Tx], settle: oneAnswer(doSteps[Tx], 1, 1)},
		{name: "DoSteps that takes over", prepare: letGo[Tx], call: doSteps[Tx], settle: oneAnswer(doSteps[Tx], 1, 1)},
		{name: "InTx", call: inTx[Tx], settle: oneAnswer(inTx[Tx], 1, 0)},
		{name: "InTx on a free key", prepare: freed[Tx], call: inTx[Tx], settle: oneAnswer(inTx[Tx], 1, 0)},
		{name: "InTx of a refusal", call: inTxRefused[Tx], settle: oneAnswer(inTxRefused[Tx], 0, 0)},
		{name: "InTx of a host that dies", call: inTxOnce[Tx], retry: inTx[Tx], settle: oneAnswer(inTx[Tx], 1, 0)},
		{name: "DoTx", call: doTx[Tx], settle: oneAnswer(doTx[Tx], 1, 0)},
		{name: "DoTx on a free key", prepare: freed[Tx], call: doTx[Tx], settle: oneAnswer(doTx[Tx], 1, 0)},
	}
}

// oneAnswer has the call made again on both hosts, whatever was heard before. They and all who were answered
// must have the same answer, that of the effect. With runsMax the function may have run no more often.
func oneAnswer[Tx any](
	call func(context.Context, *cut[Tx], host[Tx]) (string, error), effects, runsMax int,
) func(*cut[Tx], said, said) error {
	return func(c *cut[Tx], first, second said) error {
		answer, err := call(c.ctx, c, c.second)
		if err != nil {
			return broken("a later arrival at the second host: %w", err)
		}
		again, err := call(c.ctx, c, c.first)
		if err != nil {
			return broken("a later arrival at the first host: %w", err)
		}
		for _, s := range []said{first, second, {answer: again}} {
			if s.err == nil && s.answer != "" && s.answer != answer {
				return broken("one was answered %q, another %q", s.answer, answer)
			}
		}
		var n, others int
		err = c.pool.QueryRow(c.ctx, `select count(*), count(*) filter (where run <> $2) from ledger where key = $1`,
			c.key, answer).Scan(&n, &others)
		switch {
		case err != nil:
			return err
		case n != effects || others != 0:
			return broken("%d effects, %d of them not of the answer %q; want %d", n, others, answer, effects)
		case runsMax > 0 && c.runs.count() > runsMax:
			return broken("the function ran %d times", c.runs.count())
		}
		return nil
	}
}

// effect acts outside of any transaction.
func (c *cut[Tx]) effect(run string) error {
	_, err := c.pool.Exec(c.ctx, `insert into ledger (key, run) values ($1, $2)`, c.key, run)
	return err
}

func do[Tx any](ctx context.Context, c *cut[Tx], h host[Tx]) (string, error) {
	res, err := h.keys.Do(ctx, request(c.key), func(context.Context) (idempotency.Response, error) {
		run := c.runs.next()
		return created(run), c.effect(run)
	})
	return string(res.Body), err
}

func doRefused[Tx any](ctx context.Context, c *cut[Tx], h host[Tx]) (string, error) {
	res, err := h.keys.Do(ctx, request(c.key), func(context.Context) (idempotency.Response, error) {
		run := c.runs.next()
		return idempotency.Response{}, errors.Join(idempotency.Refuse(created(run)), c.effect(run))
	})
	return string(res.Body), err
}

var errNothing = errors.New("the peer was not reached")

// doNothing frees the key when it is the first to run, and acts when it comes again.
func doNothing[Tx any](ctx context.Context, c *cut[Tx], h host[Tx]) (string, error) {
	res, err := h.keys.Do(ctx, request(c.key), func(context.Context) (idempotency.Response, error) {
		run := c.runs.next()
		if run == "run 1" {
			return idempotency.Response{}, idempotency.NotDone(errNothing)
		}
		return created(run), c.effect(run)
	})
	if c.clean && errors.Is(err, errNothing) {
		err = nil
	}
	return string(res.Body), err
}

// beatLease brings a heartbeat soon.
const beatLease = 900 * time.Millisecond

// doWithBeat begins to count at work, where nothing is sent but the heartbeat, and ends when that was cut. The
// lease may run out meanwhile: nobody else may run this work, so its result counts all the same.
func doWithBeat[Tx any](ctx context.Context, c *cut[Tx], h host[Tx]) (string, error) {
	res, err := h.keys.Do(ctx, request(c.key), func(context.Context) (idempotency.Response, error) {
		run := c.runs.next()
		c.begin()
		if err := c.beaten(); err != nil {
			return idempotency.Response{}, err
		}
		return created(run), c.effect(run)
	})
	return string(res.Body), err
}

// beaten waits for the cut, or for a heartbeat when there is none.
func (c *cut[Tx]) beaten() error {
	if !c.clean {
		_, err := c.proxy.WaitStrike(c.ctx, 1)
		return err
	}
	err := c.until(`select count(*) > 1 from trail where key = $1`, c.key)
	c.trace = c.proxy.Trace()
	return err
}

// doSteps has a step for a peer that knows a repeat by its key, and one for a peer that doesn't.
func doSteps[Tx any](ctx context.Context, c *cut[Tx], h host[Tx]) (string, error) {
	res, err := h.keys.DoSteps(ctx, request(c.key), func(ctx context.Context, s *idempotency.Steps) (idempotency.Response, error) {
		reserved, err := idempotency.Step(ctx, s, "reserve", c.reserve)
		if err != nil {
			return idempotency.Response{}, err
		}
		run := c.runs.next()
		charged, err := idempotency.StepOnce(ctx, s, "charge", func(context.Context, string) (string, error) {
			return run, c.effect(run)
		}, nil)
		if err == nil && reserved == "" {
			err = errors.New("the kept result of the first step is lost")
		}
		return created(charged), err
	})
	return string(res.Body), err
}

func (c *cut[Tx]) reserve(ctx context.Context, key string) (run string, err error) {
	err = c.pool.QueryRow(ctx, `insert into peer (step, run) values ($1, 'reserved')
		on conflict (step) do update set run = peer.run returning run`, key).Scan(&run)
	return run, err
}

func inTx[Tx any](ctx context.Context, c *cut[Tx], h host[Tx]) (string, error) {
	res, err := h.keys.InTx(ctx, request(c.key), c.charge(h))
	return string(res.Body), err
}

// charge has its effect in the transaction.
func (c *cut[Tx]) charge(h host[Tx]) func(context.Context, Tx) (idempotency.Response, error) {
	return func(ctx context.Context, tx Tx) (idempotency.Response, error) {
		run := c.runs.next()
		err := h.insert(ctx, tx, `insert into ledger (key, run) values ($1, $2)`, c.key, run)
		return created(run), err
	}
}

func inTxRefused[Tx any](ctx context.Context, c *cut[Tx], h host[Tx]) (string, error) {
	res, err := h.keys.InTx(ctx, request(c.key), func(ctx context.Context, tx Tx) (idempotency.Response, error) {
		r, err := c.charge(h)(ctx, tx)
		if err != nil {
			return r, err
		}
		return r, idempotency.Refuse(r)
	})
	return string(res.Body), err
}

// inTxOnce is InTx of a host that does not live to try again.
func inTxOnce[Tx any](ctx context.Context, c *cut[Tx], h host[Tx]) (string, error) {
	claimed, err := h.Keys().InTx(ctx, c.attempt, c.charge(h))
	return string(claimed.Record.Response.Body), err
}

// doTx is in a transaction of the caller's, who learns of the answer but sends it only after the commit.
func doTx[Tx any](ctx context.Context, c *cut[Tx], h host[Tx]) (answer string, err error) {
	err = h.Txns().Transact(ctx, txn.Options{}, func(ctx context.Context, tx Tx) error {
		res, err := h.keys.DoTx(ctx, tx, request(c.key), c.charge(h))
		answer = string(res.Body)
		return err
	})
	return answer, err
}

// done has the key answered.
func done[Tx any](c *cut[Tx]) error {
	_, err := do(c.ctx, c, c.second)
	return err
}

// freed has the key claimed once, for nothing.
func freed[Tx any](c *cut[Tx]) error {
	if err := owned(c); err != nil {
		return err
	}
	return c.complete(idempotency.Completion{Claim: c.claim, State: idempotency.Free})
}

// letGo has the key left by an owner who had finished the first of two steps.
func letGo[Tx any](c *cut[Tx]) error {
	if err := owned(c); err != nil {
		return err
	}
	step := idempotency.StepRecord{Name: "reserve", Sent: true, Result: []byte(`"kept"`)}
	if err := c.second.Keys().SaveStep(c.ctx, c.claim, step); err != nil {
		return err
	}
	return c.complete(idempotency.Completion{Claim: c.claim, State: idempotency.InFlight})
}

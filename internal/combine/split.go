package combine

import "context"

// part is a stretch of a batch: members lo up to hi, and the failure that it shares, of how many.
type part struct {
	lo, hi int
	err    error // a *TogetherError once it failed as a part of something larger
}

// settle runs the batch and gives each member its outcome: in one call, or in several if it has to be
// bisected.
func (f *flight[Op, Out]) settle() {
	c := f.c
	began := c.began()
	// The members' contexts govern only their own waits. The batch has its own, without anybody's values.
	ctx, cancel := context.WithTimeoutCause(context.Background(), c.cfg.Timeout, ErrTimeout)
	defer cancel()

	size, calls := len(f.members), 0
	whole := part{hi: size}
	if err := f.sort(); err != nil {
		c.failed(err)
		f.fail(whole, err)
		return
	}
	for _, m := range f.members {
		f.ops = append(f.ops, m.op)
	}
	var first error
	for f.parts = append(f.parts, whole); len(f.parts) > 0; {
		p := f.next()
		if p.err != nil && (calls == c.cfg.CallsMax || ctx.Err() != nil) {
			f.fail(p, p.err)
			continue
		}
		err := f.send(ctx, p)
		if calls++; first == nil {
			first = err
		}
	}
	clear(f.ops)
	f.ops = f.ops[:0]
	if calls > 1 {
		c.split(calls - 1)
	}
	c.tell(context.Background(), "combine.batch", began, first, size, calls)
}

func (f *flight[Op, Out]) next() part {
	last := len(f.parts) - 1
	p := f.parts[last]
	f.parts = f.parts[:last]
	return p
}

// send makes one call. Its members get their outcomes; or, when all that is known is that nothing happened
// for any of them, its halves are put up for the next calls, the older one first.
func (f *flight[Op, Out]) send(ctx context.Context, p part) error {
	f.flying = p
	size := p.hi - p.lo
	if size == 1 {
		m := f.members[p.lo]
		out, err := f.c.callOne(ctx, m.op)
		if err != nil {
			f.c.failed(err)
		}
		f.members[p.lo] = nil
		m.settle(out, err)
		return err
	}
	outs, err := f.c.callMany(ctx, f.ops[p.lo:p.hi])
	if err == nil {
		for i, out := range outs {
			m := f.members[p.lo+i]
			f.members[p.lo+i] = nil
			m.settle(out, nil)
		}
		return nil
	}
	f.c.failed(err)
	if unknown(err) { // it may have happened: whoever asks again must use its id, and only the caller can
		f.fail(p, err)
		return err
	}
	together := &TogetherError{Members: size, Err: err}
	if f.c.cfg.Split != nil && !f.c.cfg.Split(err) {
		f.fail(p, together)
		return err
	}
	half := p.lo + (size+1)/2
	f.parts = append(f.parts, part{half, p.hi, together}, part{p.lo, half, together})
	return err
}

// fail gives the members of a part one error.
func (f *flight[Op, Out]) fail(p part, err error) {
	var none Out
	for i := p.lo; i < p.hi; i++ {
		if m := f.members[i]; m != nil {
			f.members[i] = nil
			m.settle(none, err)
		}
	}
}

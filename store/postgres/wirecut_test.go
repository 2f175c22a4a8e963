package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/faults"
	"github.com/fiftyhosts/fifty/faults/pgwire"
	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/internal/testenv"
	"github.com/fiftyhosts/fifty/store/postgres"
	"github.com/fiftyhosts/fifty/txn"
)

// host is one of two that share a database. Whatever the first one sends can be cut; the second has a line of
// its own.
type host[Tx any] struct {
	*postgres.Store[Tx]
	keys   *idempotency.TxKeys[Tx]
	insert func(ctx context.Context, tx Tx, sql string, args ...any) error
}

// rig is an operation's database with its two hosts.
type rig[Tx any] struct {
	bundle
	about         subject[Tx]
	proxy         *faults.Proxy
	first, second host[Tx]
	cfg           idempotency.Config // of their keys
	cases, played int
	boundaries    map[int]bool // of the operation that is swept; see worthIt
	final         int          // message
}

// subject is what the operations of a sweep are about: keys, or stock.
type subject[Tx any] struct {
	tables   string                 // that a sweep counts effects in, and a trail of all that becomes of a key
	snapshot string                 // reads all that there is of the names that begin with $1
	sound    func(c *cut[Tx]) error // what must hold behind each point
	usual    []error                // that any caller may hear
	fresh    bool                   // each point has hosts that remember nothing of the stock
	delays   bool                   // requests are delayed, too, while their client waits
}

// cutHost is what the server knows the first host by.
const cutHost = "first"

// cutLease is longer than any sweep, so that nothing expires by itself.
const cutLease = time.Hour

func newRig[Tx any](t *testing.T, d driver[Tx], lease time.Duration, ddl string, changes ...change) *rig[Tx] {
	t.Helper()
	return newRigAbout(t, aboutKeys[Tx](), d, lease, ddl, func(s *postgres.Store[Tx]) *postgres.Store[Tx] {
		return s.Break(breaking(t, changes))
	})
}

func newRigAbout[Tx any](
	t *testing.T, about subject[Tx], d driver[Tx], lease time.Duration, ddl string, broken func(*postgres.Store[Tx]) *postgres.Store[Tx],
) *rig[Tx] {
	t.Helper()
	// The server stays up, so that nothing needs to wait for a disk.
	r := &rig[Tx]{bundle: setupOn(t, testenv.Postgres(t).Database(t)+"&synchronous_commit=off"), about: about}
	r.cfg = idempotency.Config{Lease: lease, StoreMax: patience}
	r.exec(t, about.tables)
	r.exec(t, ddl)
	proxy, through, err := pgwire.Start(r.url, faults.Config{})
	if err != nil {
		t.Fatal(err)
	}
	r.proxy = proxy
	open := func(url string) host[Tx] {
		return host[Tx]{broken(d.open(t, url)), nil, d.insert} // next gives it its keys
	}
	r.first, r.second = open(through+"&application_name="+cutHost), open(r.url)
	t.Cleanup(func() { // before the pools, which wait for what a fault holds
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// said is what a caller heard.
type said struct {
	answer string
	err    error
}

// cutOp is an operation that a sweep cuts at each of its messages.
type cutOp[Tx any] struct {
	name    string
	prepare func(c *cut[Tx]) error // what is there before; nil: nothing

	// call is the operation. The second host makes the same call after the cut, with the same key, unless
	// retry says what else it does.
	call, retry func(ctx context.Context, c *cut[Tx], h host[Tx]) (answer string, err error)

	// settle makes sure of how it ended.
	settle func(c *cut[Tx], first, second said) error

	may     []error       // that a caller may hear, beside what all may
	repeats bool          // a late repeat moves something, as it should
	lease   time.Duration // defaults to cutLease
	arms    bool          // call itself begins to count, by cut.begin
}

func (op cutOp[Tx]) leaseOr(usual time.Duration) time.Duration {
	if op.lease > 0 {
		return op.lease
	}
	return usual
}

// cut is one point of a sweep, with a key of its own.
type cut[Tx any] struct {
	*rig[Tx]
	ctx   context.Context
	key   string
	plan  faults.Plan
	clean bool             // nothing is cut
	trace []faults.Message // of an operation that counts only a part of what it sends

	runs    *runs
	attempt idempotency.Attempt // of the operations that are one call of the store
	claim   idempotency.Claim
	taken   idempotency.Claimed // by the second host
}

// violation is an error that says that a promise was broken. Any other error says that a sweep can't go on.
type violation struct{ error }

func broken(format string, args ...any) error { return violation{fmt.Errorf(format, args...)} }

func (r *rig[Tx]) next(ctx context.Context) *cut[Tx] {
	r.cases++
	if r.about.fresh {
		r.first.Store, r.second.Store = forgetful(r.first.Store), forgetful(r.second.Store)
	}
	for _, h := range []*host[Tx]{&r.first, &r.second} { // so that no point depends on what was learned at another
		h.keys = idempotency.NewTx(h.Keys(), r.cfg)
	}
	c := &cut[Tx]{rig: r, ctx: ctx, key: fmt.Sprintf("%06d", r.cases), runs: &runs{}}
	c.attempt = attempt(c.key)
	return c
}

// begin counts from here, and cuts where the plan says.
func (c *cut[Tx]) begin() { c.proxy.Arm(c.plan) }

// alone runs the operation with nothing in its way: to have all statements prepared, or to list its messages.
func (op cutOp[Tx]) alone(ctx context.Context, r *rig[Tx]) (*cut[Tx], error) {
	c := r.next(ctx)
	c.clean = true
	if err := op.before(c); err != nil {
		return nil, err
	}
	if !op.arms {
		c.begin()
	}
	if _, err := op.call(ctx, c, c.first); err != nil {
		return nil, fmt.Errorf("without a cut: %w", err)
	}
	return c, nil
}

func (op cutOp[Tx]) before(c *cut[Tx]) error {
	if op.prepare == nil {
		return nil
	}
	if err := op.prepare(c); err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	return nil
}

// sweep cuts the operation at each point, or only by some of the faults, and returns how many points there are.
// It ends with the first violation.
func (op cutOp[Tx]) sweep(ctx context.Context, r *rig[Tx], only ...faults.Fault) (int, error) {
	points, err := op.points(ctx, r)
	if err != nil {
		return 0, err
	}
	for _, point := range points {
		if len(only) > 0 && !slices.Contains(only, point.Fault) || !r.worthIt(point) {
			continue
		}
		r.played++
		err := errAstray
		for try := 0; errors.Is(err, errAstray) && try < aimTries; try++ {
			err = op.play(ctx, r, point)
		}
		if err != nil {
			return 0, fmt.Errorf("%v: %w", point, err)
		}
	}
	return len(points), nil
}

// errAstray: the messages were not those of the run before, as when a slow machine let a connection time out and
// the next one had its statements still to prepare. The cut did no harm, but was not the one that was meant.
var errAstray = errors.New("it struck elsewhere")

// aimTries bounds how often a cut is tried that goes astray.
const aimTries = 5

// play cuts the operation at one point, and lets the second host try what the first one may have failed in.
func (op cutOp[Tx]) play(ctx context.Context, r *rig[Tx], point faults.Point) error {
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	if _, err := op.alone(ctx, r); err != nil { // the last cut took the connection
		return err
	}
	c := r.next(ctx)
	c.plan = point.Plan()
	if err := op.before(c); err != nil {
		return err
	}
	prepared, err := c.snapshot()
	if err != nil {
		return err
	}
	if !op.arms {
		c.begin()
	}
	first := heard(func() (string, error) { return op.call(ctx, c, c.first) })
	defer r.proxy.ReleaseAll()
	strike, err := r.proxy.WaitStrike(ctx, 1)
	if err != nil {
		return fmt.Errorf("nothing struck: %w", err)
	}
	if strike.Fault == faults.Zombie && !strike.Message.First {
		if err := c.untilPartlyDone(); err != nil {
			return err
		}
	}
	a, b, err := op.overlap(c, strike, first, prepared)
	if err != nil {
		return err
	}
	if err := op.end(c, a, b); err != nil {
		return err
	}
	if !sameMessage(strike.Message, point.Message) {
		return fmt.Errorf("%w: at %v", errAstray, strike.Message)
	}
	return nil
}

// overlap has the second host try while the fault runs its course.
func (op cutOp[Tx]) overlap(c *cut[Tx], strike *faults.Strike, first <-chan said, prepared string) (a, b said, err error) {
	alone := strike.Fault == faults.RequestLost || strike.Fault == faults.ReplyLost
	if alone {
		// The first host knows what it will ever know before the second one does anything.
		if a, err = c.wait(first); err != nil {
			return a, b, err
		}
		first = already(a)
		now, err := c.snapshot()
		if err != nil {
			return a, b, err
		}
		if c.second.Keys().Classify(a.err) == txn.Retryable && now != prepared {
			return a, b, broken("%v, but something changed: from\n%s\nto\n%s", a.err, prepared, now)
		}
	}
	again := op.retry
	if again == nil {
		again = op.call
	}
	second := heard(func() (string, error) { return again(c.ctx, c, c.second) })
	waitFor := []*(<-chan said){&second, &first}
	if strike.Fault == faults.Delayed {
		waitFor = waitFor[:1] // the other one waits for what is held
	}
	settled, err := c.settled(waitFor)
	if err != nil {
		return a, b, err
	}
	before, err := c.snapshot()
	if err != nil {
		return a, b, err
	}
	strike.Release()
	if err := strike.Wait(c.ctx); err != nil {
		return a, b, fmt.Errorf("the fault: %w; %q", err, strike.Replies())
	}
	if a, err = c.wait(first); err != nil {
		return a, b, err
	}
	if b, err = c.wait(second); err != nil {
		return a, b, err
	}
	after, err := c.snapshot()
	if err != nil {
		return a, b, err
	}
	if settled && b.err == nil && strike.Fault == faults.Zombie && !op.repeats && before != after {
		return a, b, broken("what came late changed\n%s\nto\n%s", before, after)
	}
	return a, b, nil
}

// end is the state in which every point must leave its key.
func (op cutOp[Tx]) end(c *cut[Tx], first, second said) error {
	for who, s := range map[string]said{"the first host": first, "the second host": second} {
		if !op.mayHear(c, s.err) {
			return broken("%s heard %w", who, s.err)
		}
	}
	if err := op.settle(c, first, second); err != nil {
		return err
	}
	return c.about.sound(c)
}

// mayHear says whether an error is one that the docs allow for.
func (op cutOp[Tx]) mayHear(c *cut[Tx], err error) bool {
	if err == nil {
		return true
	}
	for _, may := range slices.Concat([]error{fifty.ErrUnknownOutcome}, c.about.usual, op.may) {
		if errors.Is(err, may) {
			return true
		}
	}
	return c.second.Keys().Classify(err) == txn.Retryable
}

func heard(call func() (string, error)) <-chan said {
	done := make(chan said, 1)
	go func() {
		defer func() {
			if v := recover(); v != nil { // a Batch panics rather than break the law
				done <- said{err: broken("a panic: %v", v)}
			}
		}()
		answer, err := call()
		done <- said{answer, err}
	}()
	return done
}

func already(s said) <-chan said {
	done := make(chan said, 1)
	done <- s
	return done
}

func (c *cut[Tx]) wait(done <-chan said) (said, error) {
	select {
	case s := <-done:
		return s, nil
	case <-c.ctx.Done():
		return said{}, fmt.Errorf("a caller is stuck: %w", c.ctx.Err())
	}
}

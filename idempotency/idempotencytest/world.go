package idempotencytest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fiftyhosts/fifty/faults/interleave"
	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/internal/wall"
)

const (
	longLease  = time.Hour            // of a claim that must not run out during a case
	shortLease = time.Millisecond     // of a claim that must
	shortAge   = 2 * time.Millisecond // that a record must reach
	expiryPoll = time.Millisecond     // between two looks at a claim that will expire
	patience   = 10 * time.Second     // for what must happen; it is never waited out unless it doesn't
	few        = 2                    // interruptions in the orders of a race that has too many of them

	settling = time.Second // the same where no time must pass

	owner = "conformance-host/42" // of every attempt
)

// world is what a case has at hand: a store, a scope of its own, and a reporter.
type world struct {
	reporter
	ctx   context.Context
	store idempotency.Store
	f     Features
	scope string
	keys  int
}

func newWorld(r reporter, store idempotency.Store, f Features) *world {
	r.Helper()
	if store == nil {
		r.Fatalf("newStore returned nil")
	}
	return &world{reporter: r, ctx: r.Context(), store: store, f: f, scope: "conformance/" + rand.Text()}
}

// request is a new intent under a new key.
func (w *world) request() idempotency.Request {
	w.keys++
	return idempotency.Request{
		Scope: w.scope, Key: fmt.Sprintf("key-%d", w.keys),
		Fingerprint: idempotency.FingerprintOf("POST", "/charges", "the body"),
	}
}

// otherIntent is req's key with another body.
func otherIntent(req idempotency.Request) idempotency.Request {
	req.Fingerprint = idempotency.FingerprintOf("POST", "/charges", "another body")
	return req
}

// attempt is a new arrival of req.
func attempt(req idempotency.Request) idempotency.Attempt {
	return idempotency.Attempt{ID: rand.Text(), Request: req, Owner: owner, Lease: longLease}
}

// resumable is a new arrival of a request whose work is made of steps.
func resumable(req idempotency.Request) idempotency.Attempt {
	a := attempt(req)
	a.Resume = true
	return a
}

func claimOf(rec idempotency.Record) idempotency.Claim {
	return idempotency.Claim{Scope: rec.Request.Scope, Key: rec.Request.Key, Token: rec.Token, Attempt: rec.Attempt}
}

func answerOf(text string) idempotency.Response {
	return idempotency.Response{
		Status: 201, Header: map[string][]string{"Content-Type": {"text/plain"}}, Body: []byte(text),
	}
}

// claimOne asks the store for one attempt; an error of any kind becomes the second result.
func (w *world) claimOne(ctx context.Context, a idempotency.Attempt) (idempotency.Claimed, error) {
	all, err := w.store.Claim(ctx, []idempotency.Attempt{a})
	if err != nil {
		return idempotency.Claimed{}, err
	}
	if len(all) != 1 {
		return idempotency.Claimed{}, fmt.Errorf("Claim gave %d answers for one attempt", len(all))
	}
	return all[0], all[0].Err
}

func (w *world) claim(a idempotency.Attempt) idempotency.Claimed {
	w.Helper()
	got, err := w.claimOne(w.ctx, a)
	if err != nil {
		w.Fatalf("Claim: %v", err)
	}
	return got
}

// win claims and must win; the record is that of the claim.
func (w *world) win(a idempotency.Attempt) idempotency.Record {
	w.Helper()
	got := w.claim(a)
	if !got.Won {
		w.Fatalf("the claim on %q was not won; the record there is %v", a.Request.Key, show(got.Record))
	}
	if problem := wrongWinner(got.Record, a); problem != "" {
		w.Fatalf("the claim on %q was won, but %s", a.Request.Key, problem)
	}
	return got.Record
}

// lose claims and must not win; the record is what is there instead.
func (w *world) lose(a idempotency.Attempt) idempotency.Record {
	w.Helper()
	got := w.claim(a)
	if got.Won {
		w.Fatalf("the claim on %q was won with token %d; it must not be", a.Request.Key, got.Record.Token)
	}
	return got.Record
}

// wrongWinner says what is wrong with the record of a claim that a won.
func wrongWinner(rec idempotency.Record, a idempotency.Attempt) string {
	want := idempotency.Record{
		Request: a.Request, State: idempotency.InFlight, Token: rec.Token, Attempt: a.ID, Owner: a.Owner, Resume: a.Resume,
	}
	if rec.Token < 1 {
		return fmt.Sprintf("its token is %d", rec.Token)
	}
	return different(rec, want)
}

// expired leaves the record of a claim by a that has run out.
func (w *world) expired(a idempotency.Attempt) idempotency.Record {
	w.Helper()
	a.Lease = shortLease
	rec := w.win(a)
	return w.expire(rec, shortLease)
}

// expire lets lease pass and waits until the store says that the claim of rec has run out.
func (w *world) expire(rec idempotency.Record, lease time.Duration) idempotency.Record {
	w.Helper()
	now, err := w.runsOut(rec.Request, lease)
	if err != nil {
		w.Fatalf("%v", err)
	}
	return now
}

// runsOut is expire for a caller of a race.
func (w *world) runsOut(req idempotency.Request, lease time.Duration) (idempotency.Record, error) {
	limit := patience
	if w.f.Advance != nil {
		w.f.Advance(lease)
		limit = 0 // a clock that was moved has nothing to wait for
	}
	ctx, cancel := context.WithTimeout(w.ctx, limit)
	defer cancel()
	ticker := time.NewTicker(expiryPoll)
	defer ticker.Stop()
	for {
		now, err := w.record(req)
		if err != nil || now.Expired() {
			return now, err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return now, fmt.Errorf("a claim with a lease of %v has not run out; it is %v", lease, show(now))
		}
	}
}

// pass lets d pass by the store's clock.
func (w *world) pass(d time.Duration) {
	w.Helper()
	if w.f.Advance != nil {
		w.f.Advance(d)
		return
	}
	clock := attempt(w.request())
	clock.Request.Scope = "clock of " + w.scope // no record of the case
	witness := w.win(clock)
	w.until("a record grows older", func() bool { return w.find(witness.Request).Age >= d })
}

// now is about the time of the store's clock.
func (w *world) now() time.Time {
	w.Helper()
	switch {
	case w.f.Now != nil:
		return w.f.Now()
	case w.f.Advance != nil:
		w.Fatalf("Features.Now is wanted with Features.Advance")
	}
	return wall.Now()
}

// until asks again and again until yes, and ends the case when that takes too long.
func (w *world) until(what string, yes func() bool) {
	w.Helper()
	limit := patience
	if w.f.Advance != nil {
		limit = settling // a clock that is moved brings nothing about by itself
	}
	ctx, cancel := context.WithTimeout(w.ctx, limit)
	defer cancel()
	ticker := time.NewTicker(expiryPoll)
	defer ticker.Stop()
	for !yes() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			w.Fatalf("it never happened that %s", what)
		}
	}
}

func (w *world) find(req idempotency.Request) idempotency.Record {
	w.Helper()
	rec, err := w.store.Find(w.ctx, req.Scope, req.Key)
	if err != nil {
		w.Fatalf("Find(%q): %v", req.Key, err)
	}
	return rec
}

// completeOne ends one claim; an error of any kind is the result.
func (w *world) completeOne(ctx context.Context, c idempotency.Completion) error {
	all, err := w.store.Complete(ctx, []idempotency.Completion{c})
	if err != nil {
		return err
	}
	if len(all) != 1 {
		return fmt.Errorf("Complete gave %d answers for one completion", len(all))
	}
	return all[0]
}

// complete ends the claim of rec; the store must accept it.
func (w *world) complete(rec idempotency.Record, state idempotency.State, r idempotency.Response) {
	w.Helper()
	if err := w.completeOne(w.ctx, idempotency.Completion{Claim: claimOf(rec), State: state, Response: r}); err != nil {
		w.Fatalf("Complete as %v: %v", state, err)
	}
}

// done is complete with an answer.
func (w *world) done(rec idempotency.Record, text string) {
	w.Helper()
	w.complete(rec, idempotency.Done, answerOf(text))
}

// renewOne renews one claim; an error of any kind is the result.
func (w *world) renewOne(ctx context.Context, c idempotency.Claim, lease time.Duration) error {
	all, err := w.store.Renew(ctx, []idempotency.Claim{c}, lease)
	if err != nil {
		return err
	}
	if len(all) != 1 {
		return fmt.Errorf("Renew gave %d answers for one claim", len(all))
	}
	return all[0]
}

// is fails the case unless the record of want's key is want, but for the time that it has left.
func (w *world) is(want idempotency.Record) {
	w.Helper()
	rec := w.find(want.Request)
	if problem := cmp.Or(different(rec, want), differentSteps(rec.Steps, want.Steps)); problem != "" {
		w.Errorf("the record of %q: %s", want.Request.Key, problem)
	}
}

// ended is what the record of a claim becomes when it is completed.
func ended(rec idempotency.Record, state idempotency.State, text string) idempotency.Record {
	rec.State = state
	if state == idempotency.Done {
		rec.Response = answerOf(text)
	}
	return rec
}

// size is how many orders a race has.
type size struct {
	min int // with the plainest right store: a hook per call, and those of the work
	all int // up to so many orders all are run, and then those with few interruptions
}

var (
	ofTwo     = size{min: 2, all: 200}
	ofThree   = size{min: 6, all: 20}
	ofBatches = size{min: 2, all: 20}
	ofDo      = size{min: 4, all: 200}
	ofSweep   = size{min: 2, all: 20} // each of its orders needs records of some age
	ofSteps   = size{min: 4, all: 40}
	ofInTx    = size{min: 5, all: 100}
	ofDoTx    = size{min: 5, all: 50} // each hook of the store, and savepoints
)

// race runs callers in every order, or in those of its size.
func (w *world) race(sz size, newCase func() interleave.Case) {
	w.Helper()
	report, err := interleave.Explore(w.ctx, interleave.Options{
		SchedulesMin: sz.min, OrdersMax: sz.all, PreemptionsMax: few,
		Grace: w.f.Grace, Blocked: w.f.Blocked, Schedule: w.f.Schedule,
	}, func(int) interleave.Case { return newCase() })
	if err != nil {
		w.Errorf("%v", err)
	}
	w.Logf("%v", report)
	if w.f.schedules != nil {
		*w.f.schedules += report.Schedules
	}
}

// refused says what is wrong with the answer to an owner that no longer is one.
func refused(err error, superseded bool) error {
	lost, ok := errors.AsType[*idempotency.LostError](err)
	if !ok {
		return fmt.Errorf("got %v, want a *LostError", err)
	}
	if lost.Superseded != superseded {
		return fmt.Errorf("got a LostError with Superseded %v, want %v", lost.Superseded, superseded)
	}
	return nil
}

// different says in what two records differ, or nothing. Times don't count, nor do steps: a duplicate need
// not be told of them.
func different(got, want idempotency.Record) string {
	got.ExpiresIn, want.ExpiresIn = 0, 0
	problem := ""
	switch {
	case got.Request != want.Request, got.State != want.State, got.Token != want.Token, got.Attempt != want.Attempt,
		got.Owner != want.Owner, got.Resume != want.Resume:
		problem = fmt.Sprintf("it is %v, want %v", show(got), show(want))
	default:
		problem = differentAnswer(got.Response, want.Response)
	}
	return problem
}

func differentAnswer(got, want idempotency.Response) string {
	switch {
	case got.Status != want.Status:
		return fmt.Sprintf("its status is %d, want %d", got.Status, want.Status)
	case got.NotReplayable != want.NotReplayable:
		return fmt.Sprintf("NotReplayable is %v, want %v", got.NotReplayable, want.NotReplayable)
	case !maps.EqualFunc(got.Header, want.Header, slices.Equal[[]string]):
		return fmt.Sprintf("its header is %q, want %q", got.Header, want.Header)
	case !bytes.Equal(got.Body, want.Body):
		return fmt.Sprintf("its body is %q, want %q", excerpt(got.Body), excerpt(want.Body))
	}
	return ""
}

// excerptMax bounds the bytes that are printed of a body.
const excerptMax = 80

func excerpt(b []byte) string {
	if len(b) <= excerptMax {
		return string(b)
	}
	return fmt.Sprintf("%s… (%d bytes)", b[:excerptMax], len(b))
}

func show(r idempotency.Record) string {
	return fmt.Sprintf("%v (scope %q, key %q, fingerprint %.8v…, token %d, attempt %q, owner %q, resume %v, expires in %v)",
		r.State, r.Request.Scope, r.Request.Key, r.Request.Fingerprint, r.Token, r.Attempt, r.Owner, r.Resume, r.ExpiresIn)
}

package memory_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/faults/history"
	"github.com/fiftyhosts/fifty/faults/interleave"
	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/idempotency/idempotencytest"
	"github.com/fiftyhosts/fifty/store/memory"
)

func theRequest() idempotency.Request {
	return idempotency.Request{Scope: "acme", Key: "key", Fingerprint: idempotency.FingerprintOf("the body")}
}

// recorded is a store on a clock that only callers move, and what its clients are told.
type recorded struct {
	clock *clock
	keys  memory.Keys
	rec   *idempotencytest.KeyRecorder
}

func newRecorded(before func(ctx context.Context, point string)) *recorded {
	c := newClock()
	return &recorded{
		clock: c, keys: memory.NewHooked(memory.Config{Now: c.Now}, before).Keys(),
		rec: history.NewRecorder[idempotencytest.KeyCall, idempotencytest.KeyAnswer](nil),
	}
}

func (r *recorded) now() int64 { return r.clock.Now().UnixNano() }

func (r *recorded) client(n int) *idempotencytest.RecordedStore {
	return idempotencytest.Recorded(r.keys, r.rec, n, r.now)
}

func (r *recorded) check(t *testing.T, dir string) error {
	h, err := r.rec.History()
	if err == nil {
		_, err = history.Check(h, history.Config{Model: idempotencytest.KeyModel(0), Dir: dir, Name: t.Name()})
	}
	return err
}

func TestSeededOrdersOfRandomClientsFitTheModel(t *testing.T) {
	const clients, calls = 4, 8
	t.Parallel()
	dir := t.TempDir()
	opts := interleave.Options{Runs: 300, Test: t.Name(), Grace: time.Minute}
	report, err := interleave.Sample(t.Context(), opts, func(seed uint64) interleave.Case {
		r := newRecorded(interleave.Point)
		c := interleave.Case{Check: func() error { return r.check(t, dir) }}
		for n := range clients {
			w := &idempotencytest.KeyWork{
				Rand: rand.New(rand.NewPCG(seed, uint64(n))), Store: r.client(n), Request: theRequest(),
				Name: fmt.Sprint("client", n), Leases: []time.Duration{time.Second, time.Minute},
				Pass: func() { r.clock.advance(time.Second) },
			}
			c.Callers = append(c.Callers, func(ctx context.Context) { w.Run(ctx, calls) })
		}
		return c
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(report)
}

// Without a scheduler, as the processors will have it: many short histories, each on a key of its own.
func TestGoroutinesThatRaceFitTheModel(t *testing.T) {
	t.Parallel()
	const keys, clients, calls = 60, 4, 6
	r := newRecorded(nil)
	for key := range keys {
		var all sync.WaitGroup
		for n := range clients {
			req := theRequest()
			req.Key = fmt.Sprint("key ", key)
			w := &idempotencytest.KeyWork{
				Rand: rand.New(rand.NewPCG(uint64(key), uint64(n))), Store: r.client(n), Request: req,
				Name: fmt.Sprint("client", n), Leases: []time.Duration{time.Second, time.Minute},
				Pass: func() { r.clock.advance(time.Second) },
			}
			all.Go(func() { w.Run(t.Context(), calls) })
		}
		all.Wait()
	}
	if err := r.check(t, t.TempDir()); err != nil {
		t.Fatal(err)
	}
}

// explored is three callers on one key whose every order is run, and how many orders that are: fewer mean that
// the store has lost a point or the callers a call.
type explored struct {
	name      string
	schedules int
	callers   func(t *testing.T, r *recorded) []func(ctx context.Context)
}

func attemptOf(id string, resume bool) idempotency.Attempt {
	return idempotency.Attempt{ID: id, Request: theRequest(), Owner: id, Lease: time.Second, Resume: resume}
}

// claimAs claims, and returns the claim whether or not it was won.
func claimAs(ctx context.Context, t *testing.T, s idempotency.Store, id string, resume bool) idempotency.Claim {
	all, err := s.Claim(ctx, []idempotency.Attempt{attemptOf(id, resume)})
	if err != nil || all[0].Err != nil {
		t.Errorf("Claim: %v, %v", err, all)
	}
	return idempotency.Claim{Scope: "acme", Key: "key", Token: all[0].Record.Token, Attempt: id}
}

func end(ctx context.Context, s idempotency.Store, c idempotency.Claim, state idempotency.State) {
	completion := idempotency.Completion{Claim: c, State: state}
	if state == idempotency.Done {
		completion.Response = idempotency.Response{Status: 201, Body: []byte("by " + c.Attempt)}
	}
	_, _ = s.Complete(ctx, []idempotency.Completion{completion})
}

func step(ctx context.Context, s idempotency.Store, c idempotency.Claim) {
	_ = s.SaveStep(ctx, c, idempotency.StepRecord{Name: "a", Sent: true, Result: []byte(`"` + c.Attempt + `"`)})
}

var everyOrder = []explored{
	{"three arrivals, each ends what it may", 90, func(t *testing.T, r *recorded) []func(ctx context.Context) {
		var callers []func(ctx context.Context)
		for n, state := range []idempotency.State{idempotency.Done, idempotency.Free, idempotency.Unknown} {
			s := r.client(n)
			callers = append(callers, func(ctx context.Context) {
				end(ctx, s, claimAs(ctx, t, s, fmt.Sprint("caller ", n), false), state)
			})
		}
		return callers
	}},
	{"three arrivals whose leases run out at once: claim, step, end", 1680, func(t *testing.T, r *recorded) []func(ctx context.Context) {
		var callers []func(ctx context.Context)
		for n, state := range []idempotency.State{idempotency.Done, idempotency.Free, idempotency.InFlight} {
			s := r.client(n)
			callers = append(callers, func(ctx context.Context) {
				c := claimAs(ctx, t, s, fmt.Sprint("caller ", n), true)
				r.clock.advance(time.Second)
				step(ctx, s, c)
				end(ctx, s, c, state)
			})
		}
		return callers
	}},
	{"an owner with a heartbeat, a taker, and an operator", 1260, func(t *testing.T, r *recorded) []func(ctx context.Context) {
		owner, taker, operator := r.client(0), r.client(1), r.client(2)
		return []func(ctx context.Context){
			func(ctx context.Context) {
				c := claimAs(ctx, t, owner, "owner", true)
				r.clock.advance(time.Second / 2)
				_, _ = owner.Renew(ctx, []idempotency.Claim{c}, time.Second)
				step(ctx, owner, c)
				end(ctx, owner, c, idempotency.Done)
			},
			func(ctx context.Context) {
				c := claimAs(ctx, t, taker, "taker", true)
				r.clock.advance(time.Second / 2)
				step(ctx, taker, c)
				end(ctx, taker, c, idempotency.Unknown)
			},
			func(ctx context.Context) {
				interleave.Point(ctx, "time passes")
				r.clock.advance(time.Second)
				_ = operator.Resolve(ctx, idempotency.Resolution{Scope: "acme", Key: "key", By: "ops", Note: "gone"})
			},
		}
	}},
	{"an owner that lets go twice, one who asks twice, and one who looks", 1680, func(t *testing.T, r *recorded) []func(ctx context.Context) {
		owner, again, looker := r.client(0), r.client(1), r.client(2)
		return []func(ctx context.Context){
			func(ctx context.Context) {
				c := claimAs(ctx, t, owner, "owner", true)
				end(ctx, owner, c, idempotency.InFlight)
				end(ctx, owner, c, idempotency.InFlight)
			},
			func(ctx context.Context) {
				claimAs(ctx, t, again, "again", true)
				c := claimAs(ctx, t, again, "again", true)
				end(ctx, again, c, idempotency.Free)
			},
			func(ctx context.Context) {
				for range 3 {
					_, _ = looker.Find(ctx, "acme", "key")
				}
			},
		}
	}},
}

func TestEveryOrderOfThreeCallersOnOneKeyFitsTheModel(t *testing.T) {
	t.Parallel()
	total := 0
	for _, e := range everyOrder {
		t.Run(e.name, func(t *testing.T) {
			dir := t.TempDir()
			opts := interleave.Options{SchedulesMin: e.schedules, Grace: time.Minute}
			report, err := interleave.Explore(t.Context(), opts, func(int) interleave.Case {
				r := newRecorded(interleave.Point)
				return interleave.Case{Callers: e.callers(t, r), Check: func() error { return r.check(t, dir) }}
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Log(report)
			if report.Bounded || report.Diverged > 0 || report.Blocked > 0 {
				t.Errorf("%v, want all orders", report)
			}
			total += report.Schedules
		})
	}
	t.Logf("%d orders of three callers on one key", total)
}

// Do itself, three times on one key, in every order of its calls to the store and of the work.
func TestEveryOrderOfThreeDoRunsOnceAndTellsAllOneAnswer(t *testing.T) {
	const schedules = 36 // a claim each; and of the one that wins, the work and a completion
	report, err := interleave.Explore(t.Context(), interleave.Options{SchedulesMin: schedules, Grace: time.Minute}, func(int) interleave.Case {
		keys := memory.NewHooked(memory.Config{}, interleave.Point).Keys()
		ran := 0
		var c interleave.Case
		results, errs := make([]idempotency.Result, 3), make([]error, 3)
		for n := range 3 {
			k := idempotency.New(keys, idempotency.Config{})
			c.Callers = append(c.Callers, func(ctx context.Context) {
				results[n], errs[n] = k.Do(ctx, theRequest(), func(ctx context.Context) (idempotency.Response, error) {
					interleave.Point(ctx, "work")
					ran++
					return idempotency.Response{Status: 201, Body: []byte(fmt.Sprint(n))}, nil
				})
			})
		}
		c.Check = func() error {
			rec, err := keys.Find(t.Context(), "acme", "key")
			if err != nil || ran != 1 {
				return fmt.Errorf("ran %d times: %w", ran, err)
			}
			for n, err := range errs {
				told := string(results[n].Body) == string(rec.Response.Body)
				if (err != nil || !told) && !errors.Is(err, idempotency.ErrInFlight) {
					return fmt.Errorf("caller %d was told %q, %w; the answer is %q", n, results[n].Body, err, rec.Response.Body)
				}
			}
			return nil
		}
		return c
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(report)
}

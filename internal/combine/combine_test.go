package combine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/internal/combine"
)

func TestWhoArrivesWhileABatchIsUnderWayJoinsTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s := newStore(t)
		c := combine.New(s.run, config{})
		first := start(t, c, "a")
		alone := s.next("a")
		second := queue(t, c, "b", "c", "d")
		s.quiet()
		alone.done()
		first.yes()
		batch := s.next("b", "c", "d")
		third := queue(t, c, "e", "f")
		s.quiet()
		batch.done()
		allYes(t, second)
		s.next("e", "f").done()
		allYes(t, third)
		s.quiet()
		empty(t, c)
		if took := time.Since(began); took != 0 {
			t.Errorf("%v went by: something waits for a timer", took)
		}
	})
}

func TestALoneCallerGoesAtOnceOnItsOwnGoroutineAndContext(t *testing.T) {
	type key struct{}
	type secret string
	ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, secret("mine")), time.Second)
	defer cancel()
	for name, cfg := range map[string]config{
		"run": {},
		"one": {One: func(ctx context.Context, op string) (string, error) {
			outs, err := onStack(ctx, []string{op})
			return outs[0], err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c := combine.New(onStack, cfg)
			for range 3 {
				out, err := c.Do(ctx, "op")
				if err != nil || !strings.Contains(out, t.Name()[:len(t.Name())-len("/"+name)]) {
					t.Errorf("it ran here: %s, %v", out, err)
				}
			}
			if s := c.Stats(); s.Alone != 3 || s.Batches != 3 || s.Ops != 3 || s.Largest != 1 {
				t.Errorf("%+v, want three batches of one", s)
			}
		})
	}
	t.Run("values", func(t *testing.T) {
		c := combine.New(func(run context.Context, ops []string) ([]string, error) {
			if run != ctx {
				t.Error("a context that ends soon enough is run's as it is")
			}
			return ops, nil
		}, config{})
		if _, err := c.Do(ctx, "op"); err != nil {
			t.Error(err)
		}
	})
}

func TestALoneCallerAllocatesLittle(t *testing.T) {
	soon, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, tc := range []struct {
		name string
		ctx  context.Context
		most float64
	}{
		{"its context ends before the time-out", soon, 0},
		{"it has to be bounded", t.Context(), 4}, // the context, its timer and its cancel function
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := combine.New(onStack, config{
				Timeout: time.Hour,
				Group:   func(op string) string { return op },
				One:     func(_ context.Context, op string) (string, error) { return op, nil },
			})
			got := testing.AllocsPerRun(100, func() {
				if _, err := c.Do(tc.ctx, "op"); err != nil {
					t.Error(err)
				}
			})
			if got > tc.most {
				t.Errorf("%v allocations, want %v at most", got, tc.most)
			}
		})
	}
}

func TestALoneCallerDoesNotServeThoseWhoCameMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		c := combine.New(s.run, config{})
		first := start(t, c, "a")
		alone := s.next("a")
		others := queue(t, c, "b", "c")
		alone.done()
		first.yes() // although b and c are under way
		batch := s.next("b", "c")
		for _, w := range others {
			w.waits()
		}
		batch.done()
		allYes(t, others)
		empty(t, c)
	})
}

func TestALoneCallerIsBoundedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		c := combine.New(s.run, config{Timeout: time.Second})
		alone := start(t, c, "a")
		next := start(t, c, "b")
		s.next("a") // and never an answer
		pass(time.Second)
		alone.no(combine.ErrTimeout)
		s.next("b").done()
		next.yes()
		empty(t, c)
	})
}

func TestGroupsDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		c := combine.New(s.run, config{QueueMax: 2, Group: func(op string) string { return op[:1] }})
		stuck := queue(t, c, "a1", "a2", "a3")
		s.next("a1")
		start(t, c, "a4").no(combine.ErrBusy)
		other := queue(t, c, "b1", "b2", "b3")
		s.next("b1").done()
		s.next("b2", "b3").done()
		allYes(t, other)
		for _, w := range slices.Backward(stuck) {
			w.waits()
			w.cancel()
			w.result()
		}
		empty(t, c)
	})
}

func TestALaneDoesNotWaitForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		claims := combine.New(s.run, config{Name: "claims", BatchMax: 2, QueueMax: 3})
		renewals := combine.New(s.run, config{Name: "renewals"})
		stuck := queue(t, claims, "c1", "c2", "c3", "c4") // one under way for ever, and a full queue
		s.next("c1")
		start(t, claims, "c5").no(combine.ErrBusy)
		beats := queue(t, renewals, "r1", "r2")
		s.next("r1").done()
		s.next("r2").done()
		allYes(t, beats)
		for _, w := range slices.Backward(stuck) {
			w.waits()
			w.cancel()
			w.result()
		}
	})
}

func TestGroupsLeaveNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = combine.TableMax + 10
		s := newStore(t)
		s.calls = make(chan *call, many)
		c := combine.New(s.run, config{Group: func(op string) string { return op }})
		var all []*caller
		for i := range many {
			all = append(all, start(t, c, fmt.Sprint("op", i)))
		}
		if groups, _, peak := c.Kept(); groups != many || peak != many {
			t.Fatalf("%d groups, at most %d; want %d", groups, peak, many)
		}
		for range many {
			(<-s.calls).done()
		}
		allYes(t, all)
		empty(t, c)
		if groups, spares, peak := c.Kept(); groups != 0 || peak != 0 || spares > combine.SparesMax {
			t.Errorf("%d groups, %d spare ones and a table for %d are kept", groups, spares, peak)
		}
	})
}

func TestEventsAndCountsSayWhatWasCombined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		var seen []string
		c := combine.New(s.run, config{Name: "lane", Observer: fifty.ObserverFunc(func(_ context.Context, e fifty.Event) {
			line := e.Name
			for _, a := range e.Attrs {
				if a.Key == "stack" {
					line += " stack"
					continue
				}
				line += " " + a.String()
			}
			seen = append(seen, fmt.Sprintf("%s %v %v", line, e.Took, e.Err))
		})})
		first := start(t, c, "a")
		rest := queue(t, c, "b", "c")
		alone := s.next("a")
		pass(time.Second)
		alone.done()
		first.yes()
		s.next("b", "c").fail(errBad)
		s.next("b").done()
		s.next("c").panics("boom")
		rest[0].yes()
		rest[1].unknown(fifty.ErrUnknownOutcome)
		empty(t, c)
		want := strings.Join([]string{
			"combine.batch lane=lane size=1 calls=1 1s <nil>",
			"combine.panicked lane=lane stack 0s the operation's run panicked, it may have happened; ask again with the same id: boom",
			"combine.batch lane=lane size=2 calls=3 0s a definite failure",
		}, "\n")
		if got := strings.Join(seen, "\n"); got != want {
			t.Errorf("saw\n%s\nwant\n%s", got, want)
		}
		counts := combine.Stats{Ops: 3, Batches: 2, Alone: 1, Largest: 2, Splits: 2, Failed: 1, Unknown: 1, Panics: 1}
		if got := c.Stats(); got != counts {
			t.Errorf("counted %+v\nwant    %+v", got, counts)
		}
	})
}

func TestWhatIsConfiguredWrongIsNamed(t *testing.T) {
	size := func(string) int { return 1 }
	for field, cfg := range map[string]config{
		"Config.BatchMax":  {BatchMax: -1},
		"Config.QueueMax":  {QueueMax: -1},
		"Config.InFlight":  {InFlight: -1},
		"Config.Timeout":   {Timeout: -1},
		"Config.CallsMax":  {CallsMax: -1},
		"Config.SizeMax":   {SizeMax: -1, Size: size},
		"Config.SizeMax ":  {SizeMax: 1},
		"Config.SizeMax  ": {Size: size},
	} {
		invalid, ok := errors.AsType[*fifty.InvalidError](cfg.Validate())
		if !ok || invalid.Field != strings.TrimSpace(field) {
			t.Errorf("%+v: %v, want one about %s", cfg, invalid, field)
		}
	}
	if err := (config{}).Validate(); err != nil {
		t.Errorf("the zero Config: %v", err)
	}
	for name, makes := range map[string]func(){
		"run":             func() { combine.New[string, string](nil, config{}) },
		"Config.BatchMax": func() { combine.New(onStack, config{BatchMax: -1}) },
	} {
		func() {
			defer func() {
				err, _ := recover().(error)
				if invalid, ok := errors.AsType[*fifty.InvalidError](err); !ok || invalid.Field != name {
					t.Errorf("%v, want a panic about %s", err, name)
				}
			}()
			makes()
		}()
	}
}

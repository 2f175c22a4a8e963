package combine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/fiftyhosts/fifty/internal/combine"
)

func TestWithAnErrorThereIsNoOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		both := func(ops []string) ([]string, error) { return ops, errBad }
		one := func(ctx context.Context, op string) (string, error) {
			_, err := s.run(ctx, []string{op})
			return op, err
		}
		for _, cfg := range []config{{}, {One: one}} {
			c := combine.New(s.run, cfg)
			all := queue(t, c, "alone", "a", "b")
			s.next("alone").answer <- both
			s.next("a", "b").answer <- both
			s.next("a").answer <- both
			s.next("b").answer <- both
			for _, w := range all {
				w.no(errBad)
			}
			empty(t, c)
		}
	})
}

func TestBatchesAreBounded(t *testing.T) {
	size := func(op string) int { return len(op) }
	for _, tc := range []struct {
		name string
		cfg  config
		want []string
	}{
		{"in number", config{BatchMax: 2}, []string{"aa bb", "cccc dd", "e"}},
		{"in number: one", config{BatchMax: 1}, []string{"aa", "bb", "cccc", "dd", "e"}},
		{"in size", config{Size: size, SizeMax: 4}, []string{"aa bb", "cccc", "dd e"}},
		{"in size, some too large", config{Size: size, SizeMax: 3}, []string{"aa", "bb", "cccc", "dd e"}},
		{"not", config{}, []string{"aa bb cccc dd e"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore(t)
				c := combine.New(s.run, tc.cfg)
				first := start(t, c, "first")
				rest := queue(t, c, "aa", "bb", "cccc", "dd", "e")
				s.next("first").done()
				first.yes()
				for _, ops := range tc.want {
					s.next(strings.Fields(ops)...).done()
				}
				allYes(t, rest)
				empty(t, c)
			})
		})
	}
}

func TestAFullQueueRefusesAtOnceAndSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		c := combine.New(s.run, config{QueueMax: 2})
		first := start(t, c, "a")
		rest := queue(t, c, "b", "c")
		refused := start(t, c, "d")
		refused.no(combine.ErrBusy)
		if busy, ok := errors.AsType[*combine.BusyError](refused.err); !ok || busy.Waiting != 2 {
			t.Errorf("%v, want a BusyError with 2", refused.err)
		}
		rest[0].cancel()
		rest[0].no(context.Canceled) // one that leaves makes room
		rest[0] = start(t, c, "e")
		start(t, c, "f").no(combine.ErrBusy)
		s.next("a").done()
		first.yes()
		s.next("c", "e").done()
		allYes(t, rest)
		if got := c.Stats().Busy; got != 2 {
			t.Errorf("%d were refused, want 2", got)
		}
		empty(t, c)
	})
}

func TestTheQueueIsFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		c := combine.New(s.run, config{BatchMax: 2})
		all := queue(t, c, "e", "d", "c", "b", "a")
		s.next("e").done()
		again := start(t, c, "e") // who comes back queues at the end
		s.next("d", "c").done()
		s.next("b", "a").done()
		s.next("e").done()
		allYes(t, append(all, again))
		empty(t, c)
	})
}

func TestABatchIsSortedAndEqualsStayInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		c := combine.New(s.run, config{Compare: func(a, b string) int { return strings.Compare(a[:1], b[:1]) }})
		ops, want := make([]string, 60), []string{}
		for i := range ops {
			ops[i] = fmt.Sprint(string("cab"[i%3]), i)
		}
		for _, from := range []int{1, 2, 0} { // a, b, c
			for i := from; i < len(ops); i += 3 {
				want = append(want, ops[i])
			}
		}
		all := queue(t, c, append([]string{"x"}, ops...)...)
		s.next("x").done()
		s.next(want...).done()
		allYes(t, all) // each its own, although they were moved
		empty(t, c)
	})
}

func TestSeveralBatchesMayBeUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		c := combine.New(s.run, config{InFlight: 2})
		all := queue(t, c, "a", "b", "c", "d")
		a, b := s.next("a"), s.next("b")
		s.quiet()
		b.done()
		all[1].yes()
		cd := s.next("c", "d")
		all = append(all, queue(t, c, "e", "f")...)
		s.quiet() // two are under way
		a.done()
		all[0].yes()
		ef := s.next("e", "f") // overtakes c and d
		ef.done()
		allYes(t, all[4:])
		all = append(all, start(t, c, "g"))
		s.next("g").done() // a slot is free: by itself again
		cd.done()
		allYes(t, append(all[2:4:4], all[6]))
		if got := c.Stats(); got.Alone != 2 || got.Batches != 5 {
			t.Errorf("%+v, want five batches, two of them alone: g came after a crowd", got)
		}
		empty(t, c)
	})
}

package combine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/internal/combine"
)

func TestOneBadMemberFailsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		c := combine.New(s.run, config{})
		all := queue(t, c, "first", "a", "b", "bad", "d", "e")
		s.next("first").done()
		s.next("a", "b", "bad", "d", "e").fail(errBad)
		s.next("a", "b", "bad").fail(errBad) // oldest first
		s.next("a", "b").done()
		all[1].yes() // without waiting for the rest of the batch
		all[2].yes()
		all[4].waits()
		s.next("bad").fail(errBad)
		all[3].no(errBad)
		if _, ok := errors.AsType[*combine.TogetherError](all[3].err); ok {
			t.Errorf("%v, want the error itself: it is known to be this member's", all[3].err)
		}
		all = append(all, start(t, c, "later")) // not into what is left of the batch
		s.next("d", "e").done()
		all[4].yes()
		all[5].yes()
		s.next("later").done()
		all[6].yes()
		if got := c.Stats(); got.Splits != 4 || got.Failed != 3 || got.Batches != 3 {
			t.Errorf("%+v, want three batches, four calls to bisect one and three failures", got)
		}
		empty(t, c)
	})
}

// picky is a store that can't do operations that begin with "bad". It does a batch whole or not at all.
type picky struct {
	mu   sync.Mutex
	did  map[string]int
	size []int // of each call
}

func (p *picky) run(_ context.Context, ops []string) ([]string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.size = append(p.size, len(ops))
	if slices.ContainsFunc(ops, func(op string) bool { return strings.HasPrefix(op, "bad") }) {
		return nil, errBad
	}
	if p.did == nil {
		p.did = map[string]int{}
	}
	outs := make([]string, len(ops))
	for i, op := range ops {
		p.did[op]++
		outs[i] = strings.ToUpper(op)
	}
	return outs, nil
}

// batch sends ops in one batch, behind a lone one.
func batch(t *testing.T, c *combiner, open chan<- struct{}, ops []string) []*caller {
	first := start(t, c, "first")
	all := queue(t, c, ops...)
	close(open)
	first.yes()
	return all
}

func TestBisectingFindsAnyBadMembersWithinItsBound(t *testing.T) {
	for _, tc := range []struct {
		size  int
		bad   []int
		calls int // the most
	}{
		{2, []int{0}, 3},
		{2, []int{1}, 3},
		{2, []int{0, 1}, 3},
		{3, []int{0}, 5},
		{3, []int{1}, 5},
		{3, []int{2}, 3},
		{8, []int{0, 7}, 11},
		{8, []int{2, 3, 4}, 13},
		{256, []int{0}, 17},
		{256, []int{255}, 17},
		{256, []int{100}, 17},
		{256, []int{1, 99, 254}, 45},
	} {
		t.Run(fmt.Sprint(tc.size, tc.bad), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var p picky
				open := make(chan struct{})
				c := combine.New(p.run, config{One: func(ctx context.Context, op string) (string, error) {
					<-open
					outs, err := p.run(ctx, []string{op})
					return strings.Join(outs, ""), err
				}})
				ops := make([]string, tc.size)
				for i := range ops {
					ops[i] = fmt.Sprint("op", i)
					if slices.Contains(tc.bad, i) {
						ops[i] = fmt.Sprint("bad", i)
					}
				}
				for i, w := range batch(t, c, open, ops) {
					if slices.Contains(tc.bad, i) {
						w.no(errBad)
						continue
					}
					w.yes()
					if p.did[ops[i]] != 1 {
						t.Errorf("%s was done %d times", ops[i], p.did[ops[i]])
					}
				}
				if calls := len(p.size) - 1; calls > tc.calls {
					t.Errorf("%d calls, want %d at most: %v", calls, tc.calls, p.size)
				}
				empty(t, c)
			})
		})
	}
}

func TestBisectingIsBoundedInCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		c := combine.New(s.run, config{CallsMax: 4})
		all := queue(t, c, "first", "a", "b", "c", "d", "e", "f", "g", "h")
		s.next("first").done()
		s.next("a", "b", "c", "d", "e", "f", "g", "h").fail(errBad)
		s.next("a", "b", "c", "d").fail(errBad)
		s.next("a", "b").fail(errBad)
		s.next("a").fail(errBad)
		s.quiet()
		all[1].no(errBad)
		for i, members := range []int{2, 4, 4, 8, 8, 8, 8} {
			w := all[i+2]
			w.no(errBad)
			if together, ok := errors.AsType[*combine.TogetherError](w.err); !ok || together.Members != members {
				t.Errorf("%s: %v, want a TogetherError of %d", w.op, w.err, members)
			}
		}
		empty(t, c)
	})
}

func TestBisectingIsBoundedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		c := combine.New(s.run, config{Timeout: 3 * time.Second})
		all := queue(t, c, "first", "a", "b", "c", "d")
		s.next("first").done()
		slow := s.next("a", "b", "c", "d")
		next := start(t, c, "next")
		pass(2 * time.Second)
		slow.fail(errBad)
		s.next("a", "b") // ends with the batch's time
		pass(time.Second)
		for _, w := range all[1:3] {
			w.no(combine.ErrTimeout)
		}
		for _, w := range all[3:] {
			w.no(errBad)
		}
		s.next("next").done()
		next.yes()
		empty(t, c)
	})
}

func TestABatchIsSentOnceEvenWhenItsTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		c := combine.New(s.run, config{Timeout: time.Second, Compare: func(a, b string) int {
			pass(time.Second)
			return strings.Compare(a, b)
		}})
		all := queue(t, c, "first", "a", "b")
		s.next("first").done()
		pass(time.Second)
		s.next("a", "b") // it sees its context, and says that nothing happened
		all[0].yes()
		all[1].no(combine.ErrTimeout)
		all[2].no(combine.ErrTimeout)
		s.quiet()
		empty(t, c)
	})
}

func TestAFailureThatIsNobodysIsNotBisected(t *testing.T) {
	down := errors.New("the store is down")
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		c := combine.New(s.run, config{Split: func(err error) bool { return !errors.Is(err, down) }})
		all := queue(t, c, "first", "a", "b", "c")
		s.next("first").done()
		s.next("a", "b", "c").fail(errBad)
		s.next("a", "b").fail(down)
		s.next("c").done()
		for _, w := range all[1:3] {
			w.no(down)
			if together, ok := errors.AsType[*combine.TogetherError](w.err); !ok || together.Members != 2 {
				t.Errorf("want a TogetherError of 2")
			}
		}
		all[3].yes()
		s.quiet()
		empty(t, c)
	})
}

func TestAnUnknownOutcomeIsUnknownToAllAndNothingIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		c := combine.New(s.run, config{})
		all := queue(t, c, "first", "a", "b", "c")
		s.next("first").fail(errLost)
		all[0].unknown(errLost)
		s.next("a", "b", "c").fail(errLost)
		for _, w := range all[1:] {
			w.unknown(errLost)
		}
		s.quiet()
		empty(t, c)
	})
}

func TestAnUnknownOutcomeOfAPartIsOnlyThatParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		c := combine.New(s.run, config{})
		all := queue(t, c, "first", "a", "b", "c", "d")
		s.next("first").done()
		s.next("a", "b", "c", "d").fail(errBad)
		s.next("a", "b").fail(errLost)
		s.next("c", "d").done()
		all[1].unknown(errLost)
		all[2].unknown(errLost)
		allYes(t, all[3:])
		s.quiet()
		empty(t, c)
	})
}

func TestAWrongNumberOfOutcomesIsUnknown(t *testing.T) {
	for _, outs := range [][]string{nil, {"one"}, {"one", "two", "three"}} {
		synctest.Test(t, func(t *testing.T) {
			s := newStore(t)
			c := combine.New(s.run, config{})
			all := queue(t, c, "first", "a", "b")
			answer := func([]string) ([]string, error) { return outs, nil }
			if first := s.next("first"); len(outs) == 1 {
				first.done()
			} else {
				first.answer <- answer
				all[0].unknown(fifty.ErrUnknownOutcome)
			}
			s.next("a", "b").answer <- answer
			all[1].unknown(fifty.ErrUnknownOutcome)
			all[2].unknown(fifty.ErrUnknownOutcome)
			s.quiet()
			empty(t, c)
		})
	}
}

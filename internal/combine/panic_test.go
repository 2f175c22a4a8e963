package combine_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/internal/combine"
)

func TestAPanicIsUnknownToItsMembersAndTheOthersGoOn(t *testing.T) {
	boom := errors.New("boom")
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		c := combine.New(s.run, config{BatchMax: 4})
		all := queue(t, c, "alone", "a", "b", "c", "d", "next")
		s.next("alone").panics(boom)
		all[0].unknown(boom)
		panicked, ok := errors.AsType[*combine.PanicError](all[0].err)
		if !ok || panicked.Value != boom || !strings.Contains(string(panicked.Stack), "panics") {
			t.Errorf("%+v, want the panic with its stack", panicked)
		}
		s.next("a", "b", "c", "d").fail(errBad)
		s.next("a", "b").panics(boom)
		all[1].unknown(boom)
		all[2].unknown(boom)
		s.next("c", "d").fail(errBad)
		s.next("c").done()
		s.next("d").panics("not an error")
		all[3].yes()
		all[4].unknown(fifty.ErrUnknownOutcome)
		s.next("next").done()
		all[5].yes()
		if got := c.Stats().Panics; got != 3 {
			t.Errorf("%d panics were counted, want 3", got)
		}
		empty(t, c)
	})
}

func TestAPanicOfCompareSendsNothingAndTheOthersGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		c := combine.New(s.run, config{BatchMax: 2, Compare: func(a, b string) int {
			if a == "bad" || b == "bad" {
				panic("boom")
			}
			return 0
		}})
		all := queue(t, c, "first", "a", "bad", "c", "d")
		s.next("first").done()
		s.next("c", "d").done()
		for _, w := range all[1:3] {
			w.unknown(fifty.ErrUnknownOutcome)
			if _, ok := errors.AsType[*combine.PanicError](w.err); !ok {
				t.Error("want a PanicError")
			}
		}
		all[0].yes()
		allYes(t, all[3:])
		empty(t, c)
	})
}

func TestARunThatLeavesItsGoroutineHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		c := combine.New(s.run, config{BatchMax: 4})
		all := queue(t, c, "alone", "a", "b", "c", "d", "next")
		s.next("alone").leaves()
		synctest.Wait()
		if _, ok := <-all[0].got; ok {
			t.Error("the lone caller's goroutine is its own: it should have ended")
		}
		s.next("a", "b", "c", "d").fail(errBad)
		s.next("a", "b").fail(errBad)
		s.next("a").done()
		s.next("b").leaves()
		all[1].yes()
		all[2].unknown(fifty.ErrUnknownOutcome)
		for _, w := range all[3:5] { // of these it is known that nothing happened
			w.no(errBad)
			if _, ok := errors.AsType[*combine.TogetherError](w.err); !ok {
				t.Error("want a TogetherError")
			}
		}
		s.next("next").done()
		all[5].yes()
		empty(t, c)
	})
}

func TestALoneRunThatLeavesItsGoroutineGivesItsSlotBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		c := combine.New(s.run, config{})
		start(t, c, "a")
		s.next("a").leaves()
		empty(t, c)
		again := start(t, c, "a")
		s.next("a").done()
		again.yes()
	})
}

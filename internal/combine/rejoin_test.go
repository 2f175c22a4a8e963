package combine_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/fiftyhosts/fifty/internal/combine"
)

// ferry is a combiner whose batches stop at each yield, until the test lets them go on.
type ferry struct {
	*combiner
	store  *store
	yields chan chan struct{}
}

func newFerry(t *testing.T, cfg config) *ferry {
	f := &ferry{store: newStore(t), yields: make(chan chan struct{}, 100)}
	f.combiner = combine.New(f.store.run, cfg)
	f.Hook(func(_ context.Context, point string) {
		if point == "yield" {
			goOn := make(chan struct{})
			f.yields <- goOn
			<-goOn
		}
	})
	return f
}

// yielding is the yield at which a batch is now.
func (f *ferry) yielding() chan<- struct{} {
	f.store.t.Helper()
	synctest.Wait()
	select {
	case goOn := <-f.yields:
		return goOn
	default:
		f.store.t.Fatal("no batch yields")
		return nil
	}
}

// waits lets a batch yield so often in vain.
func (f *ferry) waits(times int) {
	f.store.t.Helper()
	for range times {
		close(f.yielding())
	}
}

// steady says that no batch yields.
func (f *ferry) steady() {
	f.store.t.Helper()
	synctest.Wait()
	if len(f.yields) > 0 {
		f.store.t.Fatal("a batch yields")
	}
}

func TestWhoWasJustSetAshoreComesAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFerry(t, config{Yields: 4})
		all := queue(t, f.combiner, "a", "b", "c")
		f.store.next("a").done()
		all[0].yes()
		goOn := f.yielding() // for a, who was alone and may be back
		again := start(t, f.combiner, "a")
		close(goOn)
		f.steady() // all who can be expected are there
		pair := f.store.next("b", "c", "a")
		later := start(t, f.combiner, "d")
		pair.done()
		allYes(t, append(all[1:], again))
		goOn = f.yielding()
		all = queue(t, f.combiner, "b", "a")
		close(goOn)
		goOn = f.yielding() // one of three is not back yet
		all = append(all, start(t, f.combiner, "c"))
		close(goOn)
		f.steady()
		f.store.next("d", "b", "a", "c").done()
		allYes(t, append(all, later))
		f.waits(4) // nobody comes back now
	})
}

func TestYieldsAreBoundedAndNoneAreForALoneCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFerry(t, config{Yields: 3})
		all := queue(t, f.combiner, "a", "b", "c")
		f.store.next("a").done()
		f.waits(3)
		f.store.next("b", "c").done()
		f.waits(2)
		goOn := f.yielding()
		all = append(all, start(t, f.combiner, "d"))
		close(goOn)
		f.store.next("d").done()
		f.steady() // d was alone: the batch ends, and a new d would go by itself
		all = append(all, start(t, f.combiner, "e"))
		f.store.next("e").done()
		f.steady()
		allYes(t, all)
		if got := f.Stats().Alone; got != 2 {
			t.Errorf("%d went alone, want a and e", got)
		}
		empty(t, f.combiner)
	})
}

// The lane was free between two waves, as when each caller has something else to do between two operations.
func TestTheFirstAfterACrowdWaitsForTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFerry(t, config{Yields: 3})
		all := queue(t, f.combiner, "a", "b", "c")
		f.store.next("a").done()
		f.waits(3)
		f.store.next("b", "c").done()
		f.waits(3)
		f.steady()
		empty(t, f.combiner)
		all = append(all, start(t, f.combiner, "d"))
		goOn := f.yielding() // there were two
		all = append(all, start(t, f.combiner, "e"))
		close(goOn)
		f.store.next("d", "e").done()
		f.waits(3)
		f.steady()
		leaves := start(t, f.combiner, "f")
		goOn = f.yielding()
		leaves.cancel()
		leaves.no(context.Canceled)
		close(goOn)
		f.steady() // nobody is there, and nothing is sent
		empty(t, f.combiner)
		all = append(all, start(t, f.combiner, "g")) // the crowd may still come
		f.waits(3)
		f.store.next("g").done()
		f.steady()
		all = append(all, start(t, f.combiner, "h")) // it did not
		f.store.next("h").done()
		f.steady()
		allYes(t, all)
		if got := f.Stats().Alone; got != 2 {
			t.Errorf("%d went alone, want a and h", got)
		}
		empty(t, f.combiner)
	})
}

func TestAFullBatchDoesNotYield(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFerry(t, config{BatchMax: 2, Yields: 2})
		all := queue(t, f.combiner, "a", "b", "c", "d", "e")
		f.store.next("a").done()
		f.store.next("b", "c").done()
		last := f.store.next("d", "e")
		f.steady()
		last.done()
		allYes(t, all)
		f.waits(2)
	})
}

func TestNoYieldsWhereNoneAreWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFerry(t, config{Yields: -1})
		all := queue(t, f.combiner, "a", "b", "c")
		f.store.next("a").done()
		f.store.next("b", "c").done()
		f.steady()
		allYes(t, all)
		empty(t, f.combiner)
	})
}

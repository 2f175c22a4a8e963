package combine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fiftyhosts/fifty/internal/combine"
)

func TestWhoIsCancelledBeforeItIsSentIsANoAndNeverSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		c := combine.New(s.run, config{})
		first := start(t, c, "a")
		rest := queue(t, c, "b", "c", "d", "e")
		for _, i := range []int{0, 2, 3} { // the oldest, one in the middle, the newest
			rest[i].cancel()
			rest[i].no(context.Canceled)
			if _, ok := errors.AsType[*combine.NotSentError](rest[i].err); !ok {
				t.Errorf("%v, want a NotSentError", rest[i].err)
			}
		}
		rest = append(rest, start(t, c, "f"))
		s.next("a").done()
		first.yes()
		s.next("c", "f").done()
		rest[1].yes()
		rest[4].yes()
		if got := c.Stats(); got.NotSent != 3 || got.Ops != 3 {
			t.Errorf("%+v, want three operations sent and three not", got)
		}
		empty(t, c)
	})
}

func TestAContextThatHasEndedSendsNothing(t *testing.T) {
	why := errors.New("the client has gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	c := combine.New(func(context.Context, []string) ([]string, error) {
		t.Error("it was sent")
		return nil, errBad
	}, config{})
	for _, do := range []func(context.Context, string) (string, error){c.Do, c.DoThrough} {
		_, err := do(ctx, "op")
		if _, ok := errors.AsType[*combine.NotSentError](err); !ok || !errors.Is(err, context.Canceled) || !errors.Is(err, why) {
			t.Errorf("%v, want a NotSentError with the context's error and its cause", err)
		}
	}
	if groups, _, _ := c.Kept(); groups != 0 {
		t.Errorf("%d groups are left", groups)
	}
}

func TestWhoIsCancelledWhenTheBatchBoardsIsNotSentEither(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		c := combine.New(s.run, config{})
		slow := make(chan struct{})
		c.Hook(func(_ context.Context, point string) {
			if point == "leave" { // the caller does not get to look at its context's end
				<-slow
			}
		})
		first := start(t, c, "a")
		rest := queue(t, c, "b", "c", "d")
		rest[0].cancel()
		rest[2].cancel()
		s.next("a").done()
		first.yes()
		s.next("c").done()
		rest[1].yes()
		close(slow)
		rest[0].no(context.Canceled)
		rest[2].no(context.Canceled)
		empty(t, c)
	})
}

func TestABatchWhoseMembersHaveAllLeftIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		c := combine.New(s.run, config{})
		slow := make(chan struct{})
		c.Hook(func(_ context.Context, point string) {
			if point == "leave" {
				<-slow
			}
		})
		first := start(t, c, "a")
		rest := queue(t, c, "b", "c")
		rest[0].cancel()
		rest[1].cancel()
		s.next("a").done()
		first.yes()
		s.quiet()
		empty(t, c)
		close(slow)
		rest[0].no(context.Canceled)
		rest[1].no(context.Canceled)
	})
}

func TestWhoIsCancelledAfterItIsSentIsUnknownAndTheOthersGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		c := combine.New(s.run, config{})
		first := start(t, c, "a")
		rest := queue(t, c, "b", "c", "d")
		s.next("a").done()
		first.yes()
		batch := s.next("b", "c", "d")
		for _, w := range rest[:2] {
			w.cancel()
			w.unknown(context.Canceled) // at once, although the store is silent
			if _, ok := errors.AsType[*combine.LeftError](w.err); !ok {
				t.Errorf("%v, want a LeftError", w.err)
			}
		}
		again := start(t, c, "b") // with the same id, as it should
		if batch.ctx.Err() != nil {
			t.Error("the batch was cancelled with a member")
		}
		batch.done()
		rest[2].yes()
		s.next("b").done()
		again.yes()
		if got := c.Stats(); got.Left != 2 || got.NotSent != 0 {
			t.Errorf("%+v, want two who left", got)
		}
		empty(t, c)
	})
}

func TestWhoSeesItThroughLearnsTheOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		c := combine.New(s.run, config{})
		first := startWith(t, "a", c.DoThrough)
		second := startWith(t, "b", c.DoThrough)
		third := startWith(t, "c", c.DoThrough)
		bad := startWith(t, "bad", c.DoThrough)
		alone := s.next("a")
		first.cancel() // sent: it goes on
		second.cancel()
		first.waits()
		second.no(context.Canceled) // not sent: it does not
		alone.done()
		first.yes()
		batch := s.next("c", "bad")
		third.cancel()
		bad.cancel()
		third.waits()
		batch.fail(errBad)
		s.next("c").done()
		s.next("bad").fail(errBad)
		third.yes()
		bad.no(errBad)
		empty(t, c)
	})
}

func TestALoneCallersContextIsTheCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		c := combine.New(s.run, config{})
		alone := start(t, c, "a")
		next := start(t, c, "b")
		s.next("a")
		alone.cancel()
		alone.no(context.Canceled) // what the store makes of it: here it never got there
		s.next("b").done()
		next.yes()
		empty(t, c)
	})
}

func TestABatchHasItsOwnContext(t *testing.T) {
	type key struct{}
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		c := combine.New(s.run, config{Timeout: 3 * time.Second})
		var all []*caller
		for _, op := range []string{"a", "b", "c"} {
			all = append(all, startWith(t, op, func(ctx context.Context, op string) (string, error) {
				ctx, cancel := context.WithTimeout(context.WithValue(ctx, key{}, op), time.Minute)
				defer cancel()
				return c.Do(ctx, op)
			}))
		}
		alone := s.next("a")
		if alone.ctx.Value(key{}) != "a" {
			t.Error("a lone caller's values are not there")
		}
		alone.done()
		all[0].yes()
		batch := s.next("b", "c")
		if v := batch.ctx.Value(key{}); v != nil {
			t.Errorf("the batch has the value of %v", v)
		}
		pass(3*time.Second - 1)
		all[1].waits()
		pass(time.Nanosecond)
		all[1].no(combine.ErrTimeout) // the store had not sent it, it says
		all[2].no(combine.ErrTimeout)
		empty(t, c)
	})
}

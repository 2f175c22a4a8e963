package combine_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/internal/combine"
)

// What the store makes of an operation, and with it of the whole call.
const (
	fine      = "fine"
	bad       = "bad"       // a definite failure
	lost      = "lost"      // it happens, and the reply is lost
	neverSent = "neverSent" // unknown, and it did not happen
	boom      = "boom"      // it happens, then run panics
	gone      = "gone"      // run leaves its goroutine
)

// intent is one caller of a random history.
type intent struct {
	op      string
	group   string
	fate    string
	arrives time.Duration
	leaves  time.Duration // after its arrival; zero means never
	through bool
}

func drawIntents(t *rapid.T) []intent {
	n := rapid.IntRange(5, 40).Draw(t, "callers")
	fates := rapid.SampledFrom([]string{
		fine, fine, fine, fine, fine, fine, fine, fine, fine, fine, bad, bad, bad, lost, neverSent, boom, gone,
	})
	all, now := make([]intent, n), time.Duration(0)
	for i := range all {
		now += time.Duration(rapid.IntRange(1, 20).Draw(t, "apart")) * (time.Millisecond / 10)
		in := intent{
			op: fmt.Sprint("op", i), group: rapid.SampledFrom([]string{"x", "x", "y"}).Draw(t, "group"),
			fate: fates.Draw(t, "fate"), arrives: now, through: rapid.Bool().Draw(t, "through"),
		}
		if rapid.IntRange(0, 3).Draw(t, "leaves") == 0 {
			in.leaves = time.Duration(rapid.IntRange(1, 30).Draw(t, "stays")) * time.Millisecond
		}
		all[i] = in
	}
	return all
}

// book is the store of a random history: what was sent, and what happened.
type book struct {
	intents map[string]intent
	took    time.Duration

	mu       sync.Mutex
	order    map[string][]string // of a group: the operations, as they were first sent
	sent     map[string]int
	mayAgain map[string]bool // the last call failed for sure
	happened map[string]int
	again    []string // sent again although nobody may
}

func (b *book) run(ctx context.Context, ops []string) ([]string, error) {
	b.send(ops)
	select {
	case <-time.After(b.took):
	case <-ctx.Done():
		b.failed(ops)
		return nil, context.Cause(ctx)
	}
	fate := fine
	for _, op := range ops {
		if f := b.intents[op].fate; f != fine {
			fate = f
			break
		}
	}
	switch fate {
	case bad:
		b.failed(ops)
		return nil, errBad
	case neverSent:
		return nil, errLost
	}
	outs := b.happen(ops)
	switch fate {
	case lost:
		return nil, errLost
	case boom:
		panic("boom")
	case gone:
		runtime.Goexit()
	}
	return outs, nil
}

func (b *book) send(ops []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, op := range ops {
		if b.sent[op] == 0 {
			group := b.intents[op].group
			b.order[group] = append(b.order[group], op)
		} else if !b.mayAgain[op] {
			b.again = append(b.again, op)
		}
		b.sent[op]++
		b.mayAgain[op] = false
	}
}

func (b *book) failed(ops []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, op := range ops {
		b.mayAgain[op] = true
	}
}

func (b *book) happen(ops []string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	outs := make([]string, len(ops))
	for i, op := range ops {
		b.happened[op]++
		outs[i] = strings.ToUpper(op)
	}
	return outs
}

// fits says what is wrong with the outcome that a caller got.
func (b *book) fits(in intent, got outcome) error {
	sent, happened := b.sent[in.op], b.happened[in.op]
	open := errors.Is(got.err, fifty.ErrUnknownOutcome)
	_, notSent := errors.AsType[*combine.NotSentError](got.err)
	_, left := errors.AsType[*combine.LeftError](got.err)
	switch {
	case happened > 1:
		return fmt.Errorf("it happened %d times", happened)
	case got.err == nil && (happened != 1 || got.out != strings.ToUpper(in.op)):
		return fmt.Errorf("a yes, but it happened %d times", happened)
	case got.err != nil && !open && happened != 0:
		return errors.New("a no, but it happened")
	case (notSent || errors.Is(got.err, combine.ErrBusy)) && sent != 0:
		return fmt.Errorf("it was sent %d times", sent)
	case (notSent || left) && in.leaves == 0:
		return errors.New("nobody left")
	case left && in.through:
		return errors.New("it left, although it should have seen it through")
	case left && sent == 0:
		return errors.New("it need not be unknown: it was not sent")
	case in.fate != fine && got.err == nil:
		return fmt.Errorf("a yes, but its fate is %s", in.fate)
	}
	return nil
}

// inOrder says that a group's operations were first sent as they had arrived.
func (b *book) inOrder() error {
	for group, ops := range b.order {
		if !slices.IsSortedFunc(ops, func(x, y string) int {
			return int(b.intents[x].arrives - b.intents[y].arrives)
		}) {
			return fmt.Errorf("group %s was sent in the order %v", group, ops)
		}
	}
	return nil
}

func TestEachOperationHasOneOutcomeAndIsSentOnceUnlessItSurelyFailed(t *testing.T) {
	rare := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		intents := drawIntents(t)
		cfg := config{
			BatchMax: rapid.IntRange(1, 8).Draw(t, "BatchMax"),
			QueueMax: rapid.IntRange(1, 12).Draw(t, "QueueMax"),
			InFlight: rapid.IntRange(1, 2).Draw(t, "InFlight"),
			CallsMax: rapid.IntRange(1, 12).Draw(t, "CallsMax"),
			Yields:   rapid.SampledFrom([]int{-1, 3}).Draw(t, "Yields"),
			Timeout:  time.Duration(rapid.IntRange(5, 100).Draw(t, "Timeout")) * time.Millisecond,
		}
		took := time.Duration(rapid.IntRange(1, 20).Draw(t, "took")) * time.Millisecond
		rapid.SyncTest(t, func(t *rapid.T) {
			b := &book{
				intents: map[string]intent{}, took: took, order: map[string][]string{}, sent: map[string]int{},
				mayAgain: map[string]bool{}, happened: map[string]int{},
			}
			for _, in := range intents {
				b.intents[in.op] = in
			}
			cfg.Group = func(op string) string { return b.intents[op].group }
			c := combine.New(b.run, cfg)
			got := live(c, intents)
			for _, in := range intents {
				o, ok := got[in.op]
				if !ok {
					if in.fate != gone || b.sent[in.op] != 1 {
						t.Fatalf("%+v got no outcome", in)
					}
					continue // it was alone, and its goroutine has ended
				}
				if err := b.fits(in, o); err != nil {
					t.Fatalf("%+v got %q, %v: %v", in, o.out, o.err, err)
				}
			}
			if len(b.again) > 0 {
				t.Fatalf("%v were sent again, although they may have happened", b.again)
			}
			if err := b.inOrder(); err != nil && cfg.InFlight == 1 {
				t.Fatal(err)
			}
			s := c.Stats()
			if s.Waiting != 0 || s.InFlight != 0 || s.Groups != 0 || s.Largest > cfg.BatchMax || int(s.Ops) != len(b.sent) {
				t.Fatalf("%d operations were sent: %+v", len(b.sent), s)
			}
			count(rare, s)
		})
	})
	t.Log(rare)
	for what, n := range rare {
		if n == 0 {
			t.Errorf("%s never happened", what)
		}
	}
}

// live lets the intents happen and returns what their callers got, by operation, once nothing goes on.
func live(c *combiner, intents []intent) map[string]outcome {
	var mu sync.Mutex
	got := map[string]outcome{}
	var all sync.WaitGroup
	for _, in := range intents {
		all.Go(func() {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			<-time.After(in.arrives)
			if in.leaves > 0 {
				defer time.AfterFunc(in.leaves, cancel).Stop()
			}
			do := c.Do
			if in.through {
				do = c.DoThrough
			}
			out, err := do(ctx, in.op)
			mu.Lock()
			defer mu.Unlock()
			if _, twice := got[in.op]; twice {
				panic("two outcomes for " + in.op)
			}
			got[in.op] = outcome{out, err}
		})
	}
	all.Wait()
	for c.Stats().InFlight > 0 { // batches whose callers have left
		<-time.After(time.Millisecond)
	}
	synctest.Wait()
	return got
}

func count(rare map[string]int, s combine.Stats) {
	for what, n := range map[string]uint64{
		"busy": s.Busy, "not sent": s.NotSent, "left": s.Left, "bisecting": s.Splits, "failed": s.Failed,
		"unknown": s.Unknown, "panics": s.Panics, "together": s.Batches - s.Alone,
	} {
		rare[what] += int(n)
	}
}

package idempotencytest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/fiftyhosts/fifty/idempotency"
)

// finished is a step whose result is known; sent is one of which only that it may have been dispatched.
func finished(name, result string) idempotency.StepRecord {
	return idempotency.StepRecord{Name: name, Sent: true, Result: []byte(result)}
}

func sent(name string) idempotency.StepRecord { return idempotency.StepRecord{Name: name, Sent: true} }

func (w *world) saveOne(ctx context.Context, c idempotency.Claim, step idempotency.StepRecord) error {
	return w.store.SaveStep(ctx, c, step)
}

// save writes steps of the claim of rec down, which the store must accept, and returns rec with them.
func (w *world) save(rec idempotency.Record, steps ...idempotency.StepRecord) idempotency.Record {
	w.Helper()
	for _, step := range steps {
		if err := w.saveOne(w.ctx, claimOf(rec), step); err != nil {
			w.Fatalf("SaveStep(%q): %v", step.Name, err)
		}
	}
	rec.Steps = append(rec.Steps[:len(rec.Steps):len(rec.Steps)], steps...)
	return rec
}

// differentSteps says in what two lists of steps differ, or nothing.
func differentSteps(got, want []idempotency.StepRecord) string {
	if len(got) != len(want) {
		return fmt.Sprintf("its steps are %s, want %s", showSteps(got), showSteps(want))
	}
	for i := range want {
		if got[i].Name != want[i].Name || got[i].Sent != want[i].Sent || !bytes.Equal(got[i].Result, want[i].Result) {
			return fmt.Sprintf("step %d is %s, want %s", i, showSteps(got[i:i+1]), showSteps(want[i:i+1]))
		}
	}
	return ""
}

func showSteps(steps []idempotency.StepRecord) string {
	texts := make([]string, len(steps))
	for i, s := range steps {
		texts[i] = fmt.Sprintf("%.40q (sent %v, result %q)", s.Name, s.Sent, excerpt(s.Result))
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

var stepCases = []claim{
	{"steps come back as they were saved, in the order in which they were first saved", func(w *world) {
		rec := w.win(resumable(w.request()))
		rec = w.save(rec,
			finished("z", `"first"`), sent("a"), finished("m", "{ \"b\":1.0,\n\"a\":9007199254740993 }"),
			finished("a sealed result", string(everyByte())), finished("not found", "null"),
			idempotency.StepRecord{Name: "neither sent nor done"},
		)
		w.is(rec)
		for i, step := range rec.Steps {
			if known := w.find(rec.Request).Steps[i].Result; len(known) != len(step.Result) {
				w.Errorf("the result of %q has %d bytes, want %d", step.Name, len(known), len(step.Result))
			}
		}
	}},
	{"a step that is saved again replaces what was known, and keeps its place", func(w *world) {
		rec := w.win(resumable(w.request()))
		w.save(rec, sent("a"), sent("b"), sent("c"))
		w.save(rec, finished("c", "1"), finished("c", "2"))
		w.save(rec, idempotency.StepRecord{Name: "b"})
		w.save(rec, finished("a", `"done"`), finished("a", `"done"`))
		rec.Steps = []idempotency.StepRecord{finished("a", `"done"`), {Name: "b"}, finished("c", "2")}
		w.is(rec)
	}},
	{"what was held up of a step's beginning takes no result away", func(w *world) {
		rec := w.win(resumable(w.request()))
		rec = w.save(rec, finished("a", "1"), finished("b", "2"), sent("c"))
		for _, late := range []idempotency.StepRecord{sent("a"), {Name: "b"}, sent("a"), {Name: "a"}} {
			if err := w.saveOne(w.ctx, claimOf(rec), late); err != nil {
				w.Errorf("SaveStep(%q), sent %v, behind its result: %v", late.Name, late.Sent, err)
			}
			w.is(rec)
		}
	}},
	{"steps are told apart byte by byte", func(w *world) {
		rec := w.win(resumable(w.request()))
		long := strings.Repeat("s", idempotency.StepNameMax-1)
		for _, name := range []string{"a", "A", "a ", " a", "'", "\"", "%", "_", "\\", long + "x", long + "X"} {
			rec = w.save(rec, finished(name, fmt.Sprintf("%q", name)))
		}
		w.is(rec)
	}},
	{"as many steps as are allowed are kept", func(w *world) {
		rec := w.win(resumable(w.request()))
		for i := range idempotency.StepsMax {
			rec = w.save(rec, finished(fmt.Sprintf("step %d", (7*i)%idempotency.StepsMax), fmt.Sprint(i)))
		}
		w.is(rec)
	}},
	{"a step is a copy, in and out", func(w *world) {
		rec := w.win(resumable(w.request()))
		given := finished("a", `"the result"`)
		w.save(rec, given)
		copy(given.Result, "##########")
		rec.Steps = []idempotency.StepRecord{finished("a", `"the result"`)}
		w.is(rec)
		seen := w.find(rec.Request).Steps
		copy(seen[0].Result, "##########")
		seen[0].Name = "spoiled"
		w.is(rec)
	}},
	{"steps survive a takeover, and the taker is told of them", func(w *world) {
		rec := w.save(w.win(resumable(w.request())), finished("z", "1"), sent("a"))
		for range 2 {
			w.letGo(rec)
			taker := w.win(resumable(rec.Request))
			if problem := differentSteps(taker.Steps, rec.Steps); problem != "" {
				w.Errorf("the taker was told: %s", problem)
			}
			w.is(taker)
			rec = w.save(taker, finished(fmt.Sprint("of token ", taker.Token), "2"))
			w.is(rec)
		}
	}},
	{"steps survive a free key, and stay with its next owner", func(w *world) {
		rec := w.save(w.win(resumable(w.request())), finished("a", "1"))
		w.complete(rec, idempotency.Free, idempotency.Response{})
		w.is(ended(rec, idempotency.Free, ""))
		next := w.win(attempt(otherIntent(rec.Request)))
		if problem := differentSteps(next.Steps, rec.Steps); problem != "" {
			w.Errorf("the next owner was told: %s", problem)
		}
		w.is(next)
	}},
	{"steps stay with a key that is done or unknown", func(w *world) {
		for _, state := range []idempotency.State{idempotency.Done, idempotency.Unknown} {
			rec := w.save(w.win(resumable(w.request())), finished("a", "1"))
			want := ended(rec, state, "the answer")
			w.complete(rec, state, want.Response)
			w.is(want)
		}
	}},
	{"an owner whose lease ran out saves its step while nobody took over", func(w *world) {
		rec := w.expired(resumable(w.request()))
		rec = w.save(rec, finished("late", "1"))
		w.is(rec)
		if now := w.find(rec.Request); !now.Expired() {
			w.Errorf("a step revived the claim: %v", show(now))
		}
	}},
	{"an owner that was taken over saves no step", func(w *world) {
		rec := w.save(w.expired(resumable(w.request())), finished("a", "1"))
		taker := w.save(w.win(resumable(rec.Request)), finished("b", "2"))
		for _, step := range []idempotency.StepRecord{finished("a", `"late"`), finished("b", `"late"`), sent("c")} {
			if err := refused(w.saveOne(w.ctx, claimOf(rec), step), true); err != nil {
				w.Errorf("SaveStep(%q): %v", step.Name, err)
			}
		}
		w.is(taker)
	}},
	{"a key that is no longer in flight takes no step", func(w *world) {
		for _, state := range []idempotency.State{idempotency.Done, idempotency.Free, idempotency.Unknown} {
			rec := w.save(w.win(resumable(w.request())), sent("a"))
			want := ended(rec, state, "the answer")
			w.complete(rec, state, want.Response)
			for _, step := range []idempotency.StepRecord{finished("a", `"late"`), sent("b")} {
				if err := refused(w.saveOne(w.ctx, claimOf(rec), step), true); err != nil {
					w.Errorf("SaveStep(%q) after %v: %v", step.Name, state, err)
				}
			}
			w.is(want)
		}
	}},
	{"a step of a claim that is not there is refused, and makes none", func(w *world) {
		req := w.request()
		stranger := idempotency.Claim{Scope: req.Scope, Key: req.Key, Token: 1, Attempt: attempt(req).ID}
		if err := refused(w.saveOne(w.ctx, stranger, finished("a", "1")), true); err != nil {
			w.Errorf("SaveStep: %v", err)
		}
		if rec, err := w.store.Find(w.ctx, req.Scope, req.Key); !errors.Is(err, idempotency.ErrNotFound) {
			w.Errorf("it left %v, %v", show(rec), err)
		}
		if rec := w.win(resumable(req)); len(rec.Steps) != 0 {
			w.Errorf("the first owner was told of steps: %s", showSteps(rec.Steps))
		}
	}},
	{"a step that was called off before it began changed nothing", func(w *world) {
		rec := w.save(w.win(resumable(w.request())), sent("a"))
		ctx, cancel := context.WithCancel(w.ctx)
		cancel()
		for _, name := range []string{"a", "b"} {
			if err := w.saveOne(ctx, claimOf(rec), finished(name, "1")); err == nil {
				w.Errorf("SaveStep(%q) under an ended context succeeded", name)
			}
		}
		w.is(rec)
	}},
}

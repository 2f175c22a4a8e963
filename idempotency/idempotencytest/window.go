package idempotencytest

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency"
)

// window is that of the time-ordered keys of these cases; slack is what a real clock may differ by.
const (
	window = time.Hour
	slack  = time.Minute
)

// timed is a new arrival of a key that was made at a time.
func timed(req idempotency.Request, made time.Time) idempotency.Attempt {
	a := attempt(req)
	a.Made, a.Window = made, window
	return a
}

// outside are times that no new key may carry, by name, each with the error that says so.
func (w *world) outside() map[string]struct {
	made time.Time
	err  error
} {
	w.Helper()
	return map[string]struct {
		made time.Time
		err  error
	}{
		"too old":       {w.now().Add(-window - slack), idempotency.ErrExpired},
		"too far ahead": {w.now().Add(5*time.Minute + slack), fifty.ErrInvalid},
	}
}

// outOfWindow says what is wrong with the answer to an attempt that must be refused with want.
func outOfWindow(got idempotency.Claimed, err, want error) error {
	switch {
	case err != nil:
		return fmt.Errorf("the call failed with %w; the error is the attempt's own", err)
	case got.Won:
		return fmt.Errorf("it won %v", show(got.Record))
	case !errors.Is(got.Err, want):
		return fmt.Errorf("its error is %v, want %v", got.Err, want)
	}
	return nil
}

// keyAt is a UUIDv7 that was made at a time.
func keyAt(at time.Time) string {
	var id [16]byte
	rand.Read(id[:]) // never fails: it ends the program instead
	for i, ms := 5, at.UnixMilli(); i >= 0; i, ms = i-1, ms>>8 {
		id[i] = byte(ms)
	}
	id[6], id[8] = id[6]&0x0f|0x70, id[8]&0x3f|0x80
	x := hex.EncodeToString(id[:])
	return x[:8] + "-" + x[8:12] + "-" + x[12:16] + "-" + x[16:20] + "-" + x[20:]
}

var windowCases = []claim{
	{"a new key outside its window is refused, and leaves nothing", func(w *world) {
		for what, tc := range w.outside() {
			a := timed(w.request(), tc.made)
			for range 2 {
				all, err := w.store.Claim(w.ctx, []idempotency.Attempt{a})
				if err != nil || len(all) != 1 {
					w.Fatalf("%s: Claim: %d answers, %v", what, len(all), err)
				}
				if err := outOfWindow(all[0], err, tc.err); err != nil {
					w.Errorf("%s: %v", what, err)
				}
			}
			if rec, err := w.store.Find(w.ctx, a.Request.Scope, a.Request.Key); !errors.Is(err, idempotency.ErrNotFound) {
				w.Errorf("%s: it left %v, %v", what, show(rec), err)
			}
		}
	}},
	{"a new key within its window is claimed", func(w *world) {
		for _, by := range []time.Duration{-window + slack, -slack, 0, slack} {
			w.is(w.win(timed(w.request(), w.now().Add(by))))
		}
		opaque := attempt(w.request())
		opaque.Window = 1
		w.win(opaque)
	}},
	{"a window is as wide as the store's clock says", func(w *world) {
		if w.f.Advance == nil {
			w.win(timed(w.request(), w.now()))
			return
		}
		for _, by := range []time.Duration{-window, -window - time.Millisecond, 5 * time.Minute, 5*time.Minute + time.Millisecond} {
			a := timed(w.request(), w.now().Add(by))
			got, err := w.claimOne(w.ctx, a)
			if want := a.CheckWindow(w.now()); got.Won != (want == nil) || (err == nil) != (want == nil) {
				w.Errorf("a key made %v from now: won %v, %v, want %v", by, got.Won, err, want)
			}
		}
	}},
	{"one key outside its window fails no other of its batch", func(w *world) {
		batch := []idempotency.Attempt{attempt(w.request())}
		errs := []error{nil}
		for _, tc := range w.outside() {
			batch = append(batch, timed(w.request(), tc.made), timed(w.request(), w.now()))
			errs = append(errs, tc.err, nil)
		}
		answers, err := w.store.Claim(w.ctx, batch)
		if err != nil || len(answers) != len(batch) {
			w.Fatalf("Claim: %d answers for %d attempts, %v", len(answers), len(batch), err)
		}
		for i, got := range answers {
			if !errors.Is(got.Err, errs[i]) || got.Won != (errs[i] == nil) {
				w.Errorf("answer %d: won %v, %v, want %v", i, got.Won, got.Err, errs[i])
			}
		}
	}},
	{"a record answers whatever the window says", func(w *world) {
		made := w.now().Add(-window / 2)
		late := func(rec idempotency.Record) idempotency.Attempt {
			a := timed(rec.Request, made)
			a.Window, a.Resume = window/4, true // it would be too old by now
			return a
		}
		over := w.buried()
		flying := w.win(timed(w.request(), made))
		done := w.win(timed(w.request(), made))
		w.done(done, "the answer")
		unknown := w.win(timed(w.request(), made))
		w.complete(unknown, idempotency.Unknown, idempotency.Response{})
		for _, rec := range []idempotency.Record{
			flying, ended(done, idempotency.Done, "the answer"), ended(unknown, idempotency.Unknown, ""), over,
		} {
			if problem := different(w.lose(late(rec)), rec); problem != "" {
				w.Errorf("it was told: %s", problem)
			}
			w.is(rec)
		}
		a := timed(w.request(), made)
		a.Resume = true
		rec := w.win(a)
		again := late(rec)
		again.ID = a.ID
		w.win(again) // its own claim
		w.letGo(rec)
		if taker := w.win(late(rec)); taker.Token <= rec.Token {
			w.Errorf("the taker's token is %d, after %d", taker.Token, rec.Token)
		}
	}},
	{"a free key outside its window is refused, and stays free", func(w *world) {
		made := w.now().Add(-window / 2)
		rec := w.win(timed(w.request(), made))
		w.complete(rec, idempotency.Free, idempotency.Response{})
		late := timed(rec.Request, made)
		late.Window = window / 4
		all, err := w.store.Claim(w.ctx, []idempotency.Attempt{late})
		if err != nil || len(all) != 1 {
			w.Fatalf("Claim: %d answers, %v", len(all), err)
		}
		if err := outOfWindow(all[0], err, idempotency.ErrExpired); err != nil {
			w.Errorf("%v", err)
		}
		w.is(ended(rec, idempotency.Free, ""))
		w.win(timed(rec.Request, made))
	}},
	{"Do runs a time-ordered key within its window only, and replays it whatever the window", func(w *world) {
		keys := idempotency.New(w.store, idempotency.Config{Retention: window, Tombstone: window})
		for what, tc := range w.outside() {
			req := w.request()
			req.Key = keyAt(tc.made)
			w.stands(keys, req, tc.err)
			if w.stateOf(req) != gone {
				w.Errorf("%s: it left a record", what)
			}
		}
		req := w.request()
		req.Key = keyAt(w.now().Add(-window + slack))
		if _, err := keys.Do(w.ctx, req, working(answerOf("the answer"), nil).run); err != nil {
			w.Errorf("within the window: %v", err)
		}
		w.replays(keys, req, answerOf("the answer"))
		w.replays(idempotency.New(w.store, idempotency.Config{Retention: 1, Tombstone: 1}), req, answerOf("the answer"))
	}},
}

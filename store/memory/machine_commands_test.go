package memory_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fiftyhosts/fifty/idempotency"
)

func drawKey(t *rapid.T) string { return rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key") }

func drawOutcome(t *rapid.T) outcome {
	return rapid.SampledFrom([]outcome{answers, refuses, notDone, fails, panics}).Draw(t, "outcome")
}

// unresolved says that people may decide a key.
func (m *machine) unresolved(k *modelKey) bool {
	return k.state == idempotency.Unknown || k.state == idempotency.InFlight && !m.clock.Now().Before(k.expires)
}

// resolve lets an operator decide a key, with a token that may be of an older owner.
func (m *machine) resolve(t *rapid.T, key string, token int64, response *idempotency.Response) {
	k := m.model[key]
	rec, findErr := m.keys.Find(context.Background(), "acme", key)
	err := m.operator.Resolve(context.Background(), idempotency.Resolution{
		Scope: "acme", Key: key, Token: token, Response: response, By: "ops", Note: "by the machine",
	})
	switch {
	case k.state == 0:
		if !errors.Is(err, idempotency.ErrNotFound) || !errors.Is(findErr, idempotency.ErrNotFound) {
			t.Fatalf("there is no record, and Resolve says %v", err)
		}
	case !m.unresolved(k), token != 0 && token != rec.Token:
		if !errors.Is(err, idempotency.ErrDecided) {
			t.Fatalf("the model has %+v, the token asked for was %d of %d, and Resolve says %v", k, token, rec.Token, err)
		}
	case err != nil:
		t.Fatalf("the model has %+v, and Resolve says %v", k, err)
	default:
		m.seen["decision"]++
		k.owner, k.token, k.since = nil, rec.Token+1, m.clock.Now()
		if response != nil {
			k.state, k.answer, k.kept = idempotency.Done, string(response.Body), true
			return
		}
		k.state, k.stepped = idempotency.Free, false
		k.runsMax++ // the operator says that it did not happen
		k.stepsMax++
	}
}

// sweep forgets what is old.
func (m *machine) sweep(t *rapid.T) {
	want := 0
	for _, k := range m.model {
		age := m.clock.Now().Sub(k.since)
		switch {
		case k.state == idempotency.Done && age >= retention:
			k.state, k.answer, k.kept, k.stepped = idempotency.Tombstone, "", false, false
		case k.state == idempotency.Tombstone && age >= tombstone:
			m.forget(k)
		case k.state == idempotency.Free && age >= retention:
			m.forget(k)
		default:
			continue
		}
		want++
	}
	if got, err := m.keys.Sweep(context.Background()); err != nil || got != want {
		t.Fatalf("a sweep removed %d, %v; want %d", got, err, want)
	}
}

// forget makes a key new, but for its token.
func (m *machine) forget(k *modelKey) {
	m.seen["forgotten"]++
	if k.state == idempotency.Tombstone { // after that time it runs again
		k.runsMax++
		k.stepsMax++
	}
	k.state, k.intent, k.stepped = 0, "", false
}

func (m *machine) erase(t *rapid.T) {
	want := 0
	for _, k := range m.model {
		if k.state == idempotency.Done && (k.kept || k.stepped) {
			k.kept, k.stepped = false, false
			want++
		}
	}
	if got, err := m.operator.Erase(context.Background(), "acme"); err != nil || got != want {
		t.Fatalf("erased %d, %v; want %d", got, err, want)
	}
}

// check is what must hold between any two commands.
func (m *machine) check(t *rapid.T) {
	open, err := m.operator.List(context.Background(), idempotency.Filter{Unresolved: true})
	if err != nil {
		t.Fatal(err)
	}
	for key, k := range m.model {
		if k.runs > k.runsMax {
			t.Fatalf("the work of %q ran %d times, and at most %d may be", key, k.runs, k.runsMax)
		}
		if k.steps != k.stepsDue || k.steps > k.stepsMax {
			t.Fatalf("the step of %q ran %d times, want %d and at most %d", key, k.steps, k.stepsDue, k.stepsMax)
		}
		rec, err := m.keys.Find(context.Background(), "acme", key)
		if k.state == 0 {
			if !errors.Is(err, idempotency.ErrNotFound) {
				t.Fatalf("%q: %+v, %v; the model has none", key, rec, err)
			}
			continue
		}
		want := k.state
		if m.unresolved(k) && !k.resume {
			want = idempotency.Unknown
		}
		if err != nil || rec.State != want || rec.Token != k.token {
			t.Fatalf("%q: %v with token %d, %v; the model has %v with %d", key, rec.State, rec.Token, err, want, k.token)
		}
		if stepped := len(rec.Steps) > 0; stepped != k.stepped {
			t.Fatalf("%q has the steps %v; the model has %+v", key, rec.Steps, k)
		}
		if live := rec.State == idempotency.InFlight && rec.ExpiresIn > 0; live && rec.ExpiresIn > lease {
			t.Fatalf("%q is in flight for %v, longer than a lease", key, rec.ExpiresIn)
		}
		listed := slices.ContainsFunc(open, func(r idempotency.Record) bool { return r.Request.Key == key })
		if listed != m.unresolved(k) {
			t.Fatalf("%q is listed as unresolved: %v; the model has %+v", key, listed, k)
		}
	}
}

// usable shows that no key is poisoned: within a lease, and by at most one decision, an arrival of it gets an
// answer or runs, and after it everyone has that answer.
func (m *machine) usable(t *rapid.T) {
	m.clock.advance(lease)
	for key, k := range m.model {
		if m.unresolved(k) {
			m.resolve(t, key, 0, nil)
		}
		intent := k.intent
		if k.state == 0 || k.state == idempotency.Free {
			intent = "one"
		}
		if w := m.arrive(t, key, intent, false); w != nil {
			m.finish(t, w, answers)
			m.arrive(t, key, intent, false)
		}
	}
}

func TestKeysDoWhatAPlainModelSays(t *testing.T) {
	t.Parallel()
	const rounds = 6 // of rapid's hundred runs
	seen := map[string]int{}
	for range rounds {
		rapid.Check(t, func(t *rapid.T) { machineRun(t, seen) })
	}
	for _, what := range []string{
		"takeover", "superseded", "late result", "replay", "decision", "forgotten",
		idempotency.ErrMismatch.Error(), idempotency.ErrNotReplayable.Error(), idempotency.ErrExpired.Error(),
		idempotency.ErrUnresolved.Error(), idempotency.ErrInFlight.Error(),
	} {
		t.Logf("%5d times: %s", seen[what], what)
		if seen[what] == 0 {
			t.Errorf("it never came to this: %s", what)
		}
	}
}

// machineRun is one run of the machine.
func machineRun(t *rapid.T, seen map[string]int) {
	m := newMachine(seen)
	defer m.close()
	t.Repeat(map[string]func(*rapid.T){
		"arrive": func(t *rapid.T) { m.drawArrival(t, false) },
		"arrive and end": func(t *rapid.T) {
			m.drawArrival(t, true)
		},
		"end": func(t *rapid.T) {
			if w := m.drawPaused(t); w != nil {
				m.finish(t, w, drawOutcome(t))
			}
		},
		"die": func(t *rapid.T) { m.drawPaused(t) }, // nobody will ever resume it
		"time passes": func(t *rapid.T) {
			m.clock.advance(rapid.SampledFrom([]time.Duration{
				lease / 2, lease - 1, lease, lease + 1, retention - 1, retention, tombstone,
			}).Draw(t, "how long"))
		},
		"a lease passes": func(*rapid.T) { m.clock.advance(lease) },
		"sweep":          m.sweep,
		"erase":          m.erase,
		"resolve": func(t *rapid.T) {
			key := drawKey(t)
			var token int64
			if rapid.Bool().Draw(t, "with a token") {
				token = m.model[key].token - rapid.Int64Range(0, 1).Draw(t, "older by")
			}
			var response *idempotency.Response
			if rapid.Bool().Draw(t, "with an answer") {
				response = &idempotency.Response{Status: 200, Body: []byte("decided")}
			}
			m.resolve(t, key, token, response)
		},
		"": m.check,
	})
	m.usable(t)
	m.check(t)
}

// drawArrival lets some request arrive; one that runs is paused, unless it is to end at once.
func (m *machine) drawArrival(t *rapid.T, atOnce bool) {
	w := m.arrive(t, drawKey(t), rapid.SampledFrom([]string{"one", "one", "one", "other"}).Draw(t, "intent"), rapid.Bool().Draw(t, "steps"))
	switch {
	case w == nil:
	case atOnce || len(m.paused) >= pausedMax:
		m.finish(t, w, drawOutcome(t))
	default:
		m.paused = append(m.paused, w)
	}
}

// drawPaused takes one of the owners that are at work, if there is any.
func (m *machine) drawPaused(t *rapid.T) *work {
	if len(m.paused) == 0 {
		return nil
	}
	i := rapid.IntRange(0, len(m.paused)-1).Draw(t, "who")
	w := m.paused[i]
	m.paused = slices.Delete(m.paused, i, i+1)
	return w
}

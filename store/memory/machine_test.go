package memory_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/store/memory"
)

// What the machine's Keys are set to.
const (
	lease     = 30 * time.Second
	retention = 24 * time.Hour
	tombstone = 30 * 24 * time.Hour
	pausedMax = 4 // owners that are at work at once
)

// modelKey is what must be true of one key, written down without a store.
type modelKey struct {
	state   idempotency.State // zero: there is none
	intent  string            // of its record
	resume  bool
	owner   *work // of a claim in flight; nil when the operator or the owner gave it up
	expires time.Time
	since   time.Time // it came into its state
	answer  string
	kept    bool // the answer can be replayed
	stepped bool // its step is done

	token    int64 // the highest that any owner had
	runs     int   // how often work began that was not certainly undone
	runsMax  int   // and how often it may
	steps    int   // how often its step ran
	stepsDue int   // how often that must have been
	stepsMax int   // and how often it may
}

func newModelKey() *modelKey { return &modelKey{runsMax: 1, stepsMax: 1} }

// work is one call of Do or DoSteps. While it is paused it is an owner that works, or is frozen; one that is
// never resumed is an owner whose process died.
type work struct {
	key    string
	intent string
	name   string
	resume bool

	resumed bool            // it has its outcome
	began   chan int64      // its token, when the function starts
	outcome chan outcome    // what the function shall do
	ended   chan workResult // what the call returned
}

type workResult struct {
	res      idempotency.Result
	err      error
	panicked bool
}

// outcome is what a function does in the end.
type outcome string

const (
	answers outcome = "answers"
	refuses outcome = "refuses"
	notDone outcome = "says that nothing was done"
	fails   outcome = "fails"
	panics  outcome = "panics"
)

var errFails = errors.New("the work failed")

func (o outcome) come(name string) (idempotency.Response, error) {
	switch o {
	case refuses:
		return idempotency.Response{}, idempotency.Refuse(idempotency.Response{Status: 402, Body: []byte(name)})
	case notDone:
		return idempotency.Response{}, idempotency.NotDone(errFails)
	case fails:
		return idempotency.Response{}, errFails
	case panics:
		panic(errFails)
	default:
		return idempotency.Response{Status: 201, Body: []byte(name)}, nil
	}
}

// machine drives Keys and the model side by side.
type machine struct {
	clock    *clock
	keys     *idempotency.Keys
	operator *idempotency.Operator
	model    map[string]*modelKey
	paused   []*work
	all      []*work // also those that are never resumed
	calls    int
	seen     map[string]int // how often what is worth being seen has happened
}

func newMachine(seen map[string]int) *machine {
	m := &machine{seen: seen, clock: newClock(), model: map[string]*modelKey{"a": newModelKey(), "b": newModelKey()}}
	store := memory.New(memory.Config{Now: m.clock.Now}).Keys()
	m.keys = idempotency.New(store, idempotency.Config{Lease: lease, Retention: retention, Tombstone: tombstone})
	m.operator = idempotency.NewOperator(store)
	return m
}

// close ends what is still at work, after the machine has said all that it has to.
func (m *machine) close() {
	for _, w := range m.all {
		if !w.resumed {
			w.outcome <- answers
			<-w.ended
		}
	}
}

// start calls Do or DoSteps and returns once its function has started, or the call has returned.
func (m *machine) start(key, intent string, resume bool) (w *work, began bool, token int64, r workResult) {
	m.calls++
	w = &work{
		key: key, intent: intent, name: fmt.Sprint("call ", m.calls), resume: resume,
		began: make(chan int64), outcome: make(chan outcome), ended: make(chan workResult, 1),
	}
	req := idempotency.Request{Scope: "acme", Key: key, Fingerprint: idempotency.FingerprintOf(intent)}
	steps := &m.model[key].steps
	go func() {
		r := workResult{panicked: true}
		defer func() {
			_ = recover()
			w.ended <- r
		}()
		r.res, r.err = w.call(m.keys, req, steps)
		r.panicked = false
	}()
	select {
	case token := <-w.began:
		m.all = append(m.all, w)
		return w, true, token, workResult{}
	case r := <-w.ended:
		return w, false, 0, r
	}
}

func (w *work) call(keys *idempotency.Keys, req idempotency.Request, steps *int) (idempotency.Result, error) {
	ctx := context.Background()
	wait := func(ctx context.Context) (idempotency.Response, error) {
		token, _ := idempotency.TokenFrom(ctx)
		w.began <- token
		return (<-w.outcome).come(w.name)
	}
	if !w.resume {
		return keys.Do(ctx, req, wait)
	}
	return keys.DoSteps(ctx, req, func(ctx context.Context, s *idempotency.Steps) (idempotency.Response, error) {
		_, err := idempotency.Step(ctx, s, "step", func(context.Context, string) (int, error) {
			*steps++
			return *steps, nil
		})
		if err != nil {
			return idempotency.Response{}, err
		}
		return wait(ctx)
	})
}

// arrive lets a request arrive, and checks what it is told against the model. It returns the work of one that
// became the owner.
func (m *machine) arrive(t *rapid.T, key, intent string, resume bool) *work {
	k := m.model[key]
	now := m.clock.Now()
	expired := k.state == idempotency.InFlight && !now.Before(k.expires)
	takeover := expired && k.resume && resume && k.intent == intent
	mayRun := k.state == 0 || k.state == idempotency.Free || takeover
	w, began, token, r := m.start(key, intent, resume)
	if began != mayRun {
		t.Fatalf("ran: %v (it was told %q, %v), want %v; the model has %+v", began, r.res.Body, r.err, mayRun, k)
	}
	if !began {
		m.checkTold(t, k, intent, r, expired)
		return nil
	}
	if token <= k.token {
		t.Fatalf("the token is %d after %d", token, k.token)
	}
	if takeover {
		m.seen["takeover"]++
	} else {
		k.runs++
	}
	k.state, k.intent, k.resume, k.owner, k.token = idempotency.InFlight, intent, resume, w, token
	k.expires, k.answer, k.kept = now.Add(lease), "", false
	if resume && !k.stepped {
		k.stepped = true
		k.stepsDue++
	}
	return w
}

// checkTold checks what an arrival that may not run is told.
func (m *machine) checkTold(t *rapid.T, k *modelKey, intent string, r workResult, expired bool) {
	var want error
	switch {
	case k.intent != intent:
		want = idempotency.ErrMismatch
	case k.state == idempotency.Done && k.kept:
		if r.err != nil || !r.res.Replayed || string(r.res.Body) != k.answer {
			t.Fatalf("a duplicate got %q (replayed %v), %v; the first answer was %q", r.res.Body, r.res.Replayed, r.err, k.answer)
		}
		m.seen["replay"]++
		return
	case k.state == idempotency.Done:
		want = idempotency.ErrNotReplayable
	case k.state == idempotency.Tombstone:
		want = idempotency.ErrExpired
	case k.state == idempotency.Unknown, expired && !k.resume:
		want = idempotency.ErrUnresolved
	default:
		want = idempotency.ErrInFlight
	}
	m.seen[want.Error()]++
	if !errors.Is(r.err, want) {
		t.Fatalf("a duplicate got %v, want %v; the model has %+v", r.err, want, k)
	}
}

// finish lets the function of an owner end, and checks what its caller is told and what becomes of the key.
func (m *machine) finish(t *rapid.T, w *work, o outcome) {
	k := m.model[w.key]
	w.resumed = true
	w.outcome <- o
	r := <-w.ended
	if r.panicked != (o == panics) {
		t.Fatalf("%s %s: panicked %v", w.name, o, r.panicked)
	}
	// What an owner found out counts, expired or not, unless somebody else has decided.
	if k.owner != w {
		m.seen["superseded"]++
		if o == panics {
			return
		}
		if k.state == idempotency.Done && k.intent != w.intent {
			if !errors.Is(r.err, idempotency.ErrMismatch) { // its key was freed, and used for something else
				t.Fatalf("one that was superseded got %q, %v, want ErrMismatch; the model has %+v", r.res.Body, r.err, k)
			}
		} else if k.state == idempotency.Done && k.kept {
			if r.err != nil || string(r.res.Body) != k.answer {
				t.Fatalf("one that was superseded got %q, %v; the answer is %q", r.res.Body, r.err, k.answer)
			}
		} else if r.err == nil {
			t.Fatalf("one that was superseded got %q; the model has %+v", r.res.Body, k)
		}
		return
	}
	if !m.clock.Now().Before(k.expires) {
		m.seen["late result"]++
	}
	k.owner, k.since = nil, m.clock.Now()
	switch {
	case o == answers || o == refuses:
		if r.err != nil || r.res.Replayed || string(r.res.Body) != w.name {
			t.Fatalf("%s %s and got %q, %v", w.name, o, r.res.Body, r.err)
		}
		k.state, k.answer, k.kept = idempotency.Done, w.name, true
	case w.resume: // let go, since a step was done
		if k.expires.After(m.clock.Now()) {
			k.expires = m.clock.Now()
		}
		if o != panics && !errors.Is(r.err, errFails) {
			t.Fatalf("%s %s and got %v", w.name, o, r.err)
		}
	case o == notDone:
		if !errors.Is(r.err, errFails) || errors.Is(r.err, idempotency.ErrUnresolved) {
			t.Fatalf("%s %s and got %v", w.name, o, r.err)
		}
		k.state, k.runs = idempotency.Free, k.runs-1
	default:
		if o == fails && !errors.Is(r.err, idempotency.ErrUnresolved) {
			t.Fatalf("%s %s and got %v", w.name, o, r.err)
		}
		k.state = idempotency.Unknown
	}
}

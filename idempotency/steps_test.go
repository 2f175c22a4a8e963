package idempotency_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency"
)

var errProvider = errors.New("the provider did not answer")

type charge struct{ ID string }

// peer is a payment provider that remembers what it was sent.
type peer struct {
	sent []string // the keys, in order
	errs []error  // of the next calls; then none
}

func (p *peer) charge(_ context.Context, key string) (charge, error) {
	p.sent = append(p.sent, key)
	if len(p.errs) > 0 {
		err := p.errs[0]
		p.errs = p.errs[1:]
		if err != nil {
			return charge{}, err
		}
	}
	return charge{ID: "ch_" + key[:4]}, nil
}

// order is the work of most tests: a charge, then a mail.
func order(p *peer, mail func() error) func(context.Context, *idempotency.Steps) (idempotency.Response, error) {
	return func(ctx context.Context, s *idempotency.Steps) (idempotency.Response, error) {
		c, err := idempotency.Step(ctx, s, "charge", p.charge)
		if err != nil {
			return idempotency.Response{}, err
		}
		_, err = idempotency.Step(ctx, s, "mail", func(context.Context, string) (bool, error) { return true, mail() })
		if err != nil {
			return idempotency.Response{}, err
		}
		return created(c.ID), nil
	}
}

func sent() error { return nil }

func TestResumedRequestSkipsTheStepsThatFinished(t *testing.T) {
	keys := idempotency.New(newFaulty(), idempotency.Config{})
	p := &peer{}
	mails := []error{errProvider, nil}
	mail := func() error {
		err := mails[0]
		mails = mails[1:]
		return err
	}
	_, err := keys.DoSteps(t.Context(), request("k"), order(p, mail))
	wantIs(t, err, errProvider)
	res, err := keys.DoSteps(t.Context(), request("k"), order(p, mail)) // the next arrival, at once
	if err != nil || res.Replayed || len(p.sent) != 1 || len(mails) != 0 {
		t.Fatalf("%+v, %v; charged with %q", res, err, p.sent)
	}
	res, err = keys.DoSteps(t.Context(), request("k"), order(p, mail))
	if err != nil || !res.Replayed {
		t.Fatalf("%+v, %v", res, err)
	}
}

func TestStepIsRepeatedUnderTheSameKeyAndOtherIntentsHaveAnother(t *testing.T) {
	keys := idempotency.New(newFaulty(), idempotency.Config{})
	p := &peer{errs: []error{errProvider, nil, nil}}
	_, err := keys.DoSteps(t.Context(), request("k"), order(p, sent))
	wantIs(t, err, errProvider)
	for _, key := range []string{"k", "other"} {
		if _, err := keys.DoSteps(t.Context(), request(key), order(p, sent)); err != nil {
			t.Fatal(err)
		}
	}
	if len(p.sent) != 3 || p.sent[0] != p.sent[1] || p.sent[1] == p.sent[2] {
		t.Fatalf("keys %q", p.sent)
	}
}

func TestVanishedOwnersRequestIsResumedAfterItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		p := &peer{}
		// An owner that did its first step and was killed.
		a := idempotency.Attempt{ID: "killed", Request: request("k"), Owner: "gone", Lease: 30 * time.Second, Resume: true}
		claimed, err := store.Claim(t.Context(), []idempotency.Attempt{a})
		if err != nil || !claimed[0].Won {
			t.Fatal(claimed, err)
		}
		c := idempotency.Claim{Scope: "acme", Key: "k", Token: claimed[0].Record.Token, Attempt: "killed"}
		if err := store.SaveStep(t.Context(), c, idempotency.StepRecord{Name: "charge", Sent: true, Result: []byte(`{"ID":"ch_first"}`)}); err != nil {
			t.Fatal(err)
		}
		keys := idempotency.New(store, idempotency.Config{})
		_, err = keys.DoSteps(t.Context(), request("k"), order(p, sent))
		wantIs(t, err, idempotency.ErrInFlight)
		pass(30 * time.Second)
		res, err := keys.DoSteps(t.Context(), request("k"), order(p, sent))
		if err != nil || string(res.Body) != "ch_first" || len(p.sent) != 0 {
			t.Fatalf("%+v, %v; charged with %q", res, err, p.sent)
		}
		// Should the killed one only have been paused, it can change nothing any more.
		err = store.SaveStep(t.Context(), c, idempotency.StepRecord{Name: "mail"})
		wantIs(t, err, idempotency.ErrLost)
	})
}

func TestDoDoesNotResumeStepsAndStepsDoNotResumeDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		keys := idempotency.New(store, idempotency.Config{})
		for key, resume := range map[string]bool{"steps": true, "do": false} {
			a := idempotency.Attempt{ID: "gone", Request: request(key), Lease: time.Second, Resume: resume}
			if claimed, err := store.Claim(t.Context(), []idempotency.Attempt{a}); err != nil || !claimed[0].Won {
				t.Fatal(claimed, err)
			}
		}
		pass(time.Second)
		_, err := keys.DoSteps(t.Context(), request("do"), order(&peer{}, sent))
		wantIs(t, err, idempotency.ErrUnresolved)
		if _, err = keys.Do(t.Context(), request("steps"), mustNotRun(t)); err == nil {
			t.Fatal("Do took over work made of steps")
		}
	})
}

func TestLostLeaseStopsTheNextStepAndNotTheOneThatWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		store.set("renew", always(errDown), nil)
		keys := idempotency.New(store, idempotency.Config{Lease: 30 * time.Second})
		p := &peer{}
		slow := func(ctx context.Context, s *idempotency.Steps) (idempotency.Response, error) {
			c, err := idempotency.Step(ctx, s, "charge", func(ctx context.Context, key string) (charge, error) {
				pass(time.Minute)
				if ctx.Err() != nil {
					t.Error("what was sent was cut off")
				}
				return p.charge(ctx, key)
			})
			if err != nil {
				return idempotency.Response{}, err
			}
			_, err = idempotency.Step(ctx, s, "mail", func(context.Context, string) (bool, error) {
				t.Error("a step was started without a lease")
				return true, nil
			})
			return created(c.ID), err
		}
		_, err := keys.DoSteps(t.Context(), request("k"), slow)
		wantIs(t, err, idempotency.ErrLost)
		res, err := keys.DoSteps(t.Context(), request("k"), order(p, sent))
		if err != nil || res.Replayed || len(p.sent) != 1 {
			t.Fatalf("%+v, %v; charged with %q", res, err, p.sent)
		}
	})
}

// onceOnly is an order at a provider that can't tell a repeat.
func onceOnly(p *peer, ask func(context.Context, string) (charge, bool, error)) func(context.Context, *idempotency.Steps) (idempotency.Response, error) {
	return func(ctx context.Context, s *idempotency.Steps) (idempotency.Response, error) {
		c, err := idempotency.StepOnce(ctx, s, "charge", p.charge, ask)
		return created(c.ID), err
	}
}

func TestStepOnceWithoutAskHoldsWhatNobodyCanTell(t *testing.T) {
	keys := idempotency.New(newFaulty(), idempotency.Config{})
	p := &peer{errs: []error{errProvider}}
	_, err := keys.DoSteps(t.Context(), request("k"), onceOnly(p, nil))
	wantIs(t, err, idempotency.ErrUnresolved)
	wantIs(t, err, errProvider)
	if u, ok := errors.AsType[*idempotency.UnresolvedError](err); !ok || u.Step != "charge" {
		t.Fatalf("%v does not name the step", err)
	}
	_, err = keys.DoSteps(t.Context(), request("k"), onceOnly(p, nil))
	wantIs(t, err, idempotency.ErrUnresolved)
	if len(p.sent) != 1 {
		t.Fatalf("sent %d times", len(p.sent))
	}
}

func TestStepOnceIsHeldWhenItsOwnerVanishedWhileSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := idempotency.New(newFaulty(), idempotency.Config{})
		p := &peer{}
		func() {
			defer func() { _ = recover() }()
			_, _ = keys.DoSteps(t.Context(), request("k"), func(ctx context.Context, s *idempotency.Steps) (idempotency.Response, error) {
				_, err := idempotency.StepOnce(ctx, s, "charge", func(ctx context.Context, key string) (charge, error) {
					_, _ = p.charge(ctx, key)
					panic("out of memory")
				}, nil)
				return idempotency.Response{}, err
			})
		}()
		_, err := keys.DoSteps(t.Context(), request("k"), onceOnly(p, nil))
		wantIs(t, err, idempotency.ErrUnresolved)
		if len(p.sent) != 1 {
			t.Fatalf("sent %d times", len(p.sent))
		}
	})
}

func TestStepOnceWithAskFindsOutBeforeItSendsAgain(t *testing.T) {
	for name, c := range map[string]struct {
		there bool
		sends int
	}{"it is there": {true, 1}, "it is not": {false, 2}} {
		t.Run(name, func(t *testing.T) {
			keys := idempotency.New(newFaulty(), idempotency.Config{})
			p := &peer{errs: []error{errProvider}}
			asks := 0
			ask := func(_ context.Context, key string) (charge, bool, error) {
				if asks++; key != p.sent[0] {
					t.Errorf("asked about %q, sent %q", key, p.sent[0])
				}
				return charge{ID: "ch_there"}, c.there, nil
			}
			_, err := keys.DoSteps(t.Context(), request("k"), onceOnly(p, ask))
			wantIs(t, err, errProvider)
			res, err := keys.DoSteps(t.Context(), request("k"), onceOnly(p, ask))
			if err != nil || asks != 1 || len(p.sent) != c.sends || (string(res.Body) == "ch_there") != c.there {
				t.Fatalf("%+v, %v; asked %d times, sent %q", res, err, asks, p.sent)
			}
		})
	}
}

func TestStepOnceThatWasNotSentIsOpenAgain(t *testing.T) {
	keys := idempotency.New(newFaulty(), idempotency.Config{})
	p := &peer{errs: []error{idempotency.NotDone(errDown)}}
	_, err := keys.DoSteps(t.Context(), request("k"), onceOnly(p, nil))
	wantIs(t, err, errDown)
	if res, err := keys.DoSteps(t.Context(), request("k"), onceOnly(p, nil)); err != nil || res.Status != 201 {
		t.Fatalf("%+v, %v", res, err)
	}
}

func TestNothingIsSentBeforeItIsWrittenDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		store.set("save step", always(errDown), nil)
		keys := idempotency.New(store, idempotency.Config{})
		p := &peer{}
		_, err := keys.DoSteps(t.Context(), request("k"), onceOnly(p, nil))
		wantIs(t, err, errDown)
		if len(p.sent) != 0 {
			t.Fatal("sent without a trace")
		}
		store.set("save step", nil, nil)
		if res, err := keys.DoSteps(t.Context(), request("k"), onceOnly(p, nil)); err != nil || res.Status != 201 {
			t.Fatalf("%+v, %v", res, err)
		}
	})
}

func TestResultThatCannotBeKeptIsUnknownAndAskedForUnderTheSameKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		store.set("save step", during(11*time.Second, errDown), nil) // longer than StoreMax
		keys := idempotency.New(store, idempotency.Config{})
		p := &peer{}
		_, err := keys.DoSteps(t.Context(), request("k"), order(p, sent))
		wantIs(t, err, fifty.ErrUnknownOutcome)
		if _, err := keys.DoSteps(t.Context(), request("k"), order(p, sent)); err != nil {
			t.Fatal(err)
		}
		if len(p.sent) != 2 || p.sent[0] != p.sent[1] {
			t.Fatalf("keys %q", p.sent)
		}
	})
}

func TestWhatIsNoStepIsRefused(t *testing.T) {
	long := string(make([]byte, idempotency.StepNameMax+1))
	for name, steps := range map[string][]string{"no name": {""}, "long name": {long}, "same name twice": {"a", "a"}} {
		t.Run(name, func(t *testing.T) {
			keys := idempotency.New(newFaulty(), idempotency.Config{})
			_, err := keys.DoSteps(t.Context(), request("k"), func(ctx context.Context, s *idempotency.Steps) (idempotency.Response, error) {
				for _, step := range steps {
					if _, err := idempotency.Step(ctx, s, step, (&peer{}).charge); err != nil {
						return idempotency.Response{}, err
					}
				}
				return created("ch"), nil
			})
			wantIs(t, err, fifty.ErrInvalid)
		})
	}
}

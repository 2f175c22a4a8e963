package idempotency_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/store/memory"
)

func TestSecondArrivalGetsTheFirstAnswer(t *testing.T) {
	keys := idempotency.New(newFaulty(), idempotency.Config{})
	first, err := keys.Do(t.Context(), request("k"), answering(created("ch_1")))
	if err != nil || first.Replayed {
		t.Fatalf("first: %+v, %v", first, err)
	}
	second, err := keys.Do(t.Context(), request("k"), mustNotRun(t))
	if err != nil || !second.Replayed || second.Status != 201 || string(second.Body) != "ch_1" || second.Header["Location"][0] != "/charges/ch_1" {
		t.Fatalf("second: %+v, %v", second, err)
	}
}

func TestAnswerTooLargeToKeepIsDoneAndNotRunAgain(t *testing.T) {
	keys := idempotency.New(newFaulty(), idempotency.Config{ResponseMax: 3})
	first, err := keys.Do(t.Context(), request("k"), answering(created("ch_1")))
	if err != nil || string(first.Body) != "ch_1" {
		t.Fatalf("the first caller gets the whole answer: %+v, %v", first, err)
	}
	_, err = keys.Do(t.Context(), request("k"), mustNotRun(t))
	wantIs(t, err, idempotency.ErrNotReplayable)
}

func TestClaimWhoseReplyWasLostIsRecognisedAsOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		store.set("claim", nil, times(2, errLostReply))
		keys := idempotency.New(store, idempotency.Config{})
		res, err := keys.Do(t.Context(), request("k"), answering(created("ch_1")))
		if err != nil || res.Replayed || store.count("claim") != 3 {
			t.Fatalf("%+v, %v after %d claims", res, err, store.count("claim"))
		}
	})
}

func TestClaimThatCannotBeHadRunsNothingAndPoisonsNothing(t *testing.T) {
	for name, fault := range map[string]error{"request lost": errDown, "reply lost": errLostReply} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				if fault == errDown {
					store.set("claim", always(fault), nil)
				} else {
					store.set("claim", nil, always(fault))
				}
				keys := idempotency.New(store, idempotency.Config{})
				_, err := keys.Do(t.Context(), request("k"), mustNotRun(t))
				wantIs(t, err, idempotency.ErrUnavailable)

				store.set("claim", nil, nil)
				synctest.Wait() // the clean-up of a claim that landed
				if _, err := keys.Do(t.Context(), request("k"), answering(created("ch_1"))); err != nil {
					t.Fatalf("after the store came back: %v", err)
				}
			})
		})
	}
}

func TestClaimOfACallThatGaveUpIsGivenBackByTheNextArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		keys := idempotency.New(store, idempotency.Config{Lease: 4 * time.Second})
		// The first claim lands, and the store is gone before it can reply, for longer than the call waits.
		store.set("claim", nil, func() error {
			store.set("claim", always(errDown), nil)
			store.set("find", always(errDown), nil)
			return errLostReply
		})
		_, err := keys.Do(t.Context(), request("k"), mustNotRun(t))
		wantIs(t, err, idempotency.ErrUnavailable)
		pass(time.Second)
		store.set("claim", nil, nil) // back, and the clean-up has not looked yet
		res, err := keys.Do(t.Context(), request("k"), answering(created("ch_1")))
		if err != nil || res.Replayed {
			t.Fatalf("nothing had run, and the next arrival got %+v, %v", res, err)
		}
		pass(time.Minute) // the clean-up gives up
	})
}

func TestClientThatLeavesDoesNotStopTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := idempotency.New(newFaulty(), idempotency.Config{})
		type valueKey struct{}
		ctx, leave := context.WithCancel(context.WithValue(t.Context(), valueKey{}, "trace"))
		res, err := keys.Do(ctx, request("k"), func(ctx context.Context) (idempotency.Response, error) {
			leave()
			synctest.Wait()
			if ctx.Err() != nil || ctx.Value(valueKey{}) != "trace" {
				t.Errorf("err %v, value %v", ctx.Err(), ctx.Value(valueKey{}))
			}
			return created("ch_1"), nil
		})
		if err != nil || res.Status != 201 {
			t.Fatalf("%+v, %v", res, err)
		}
		if res, err = keys.Do(t.Context(), request("k"), mustNotRun(t)); err != nil || !res.Replayed {
			t.Fatalf("retry: %+v, %v", res, err)
		}
	})
}

func TestHeartbeatKeepsALongWorkInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		store.set("renew", times(1, errDown), nil) // one lost heartbeat must not cost the lease
		keys := idempotency.New(store, idempotency.Config{Lease: 30 * time.Second})
		done := make(chan error)
		go func() {
			_, err := keys.Do(t.Context(), request("k"), func(ctx context.Context) (idempotency.Response, error) {
				pass(4 * time.Minute)
				return created("ch_1"), nil
			})
			done <- err
		}()
		for range 23 {
			pass(10 * time.Second)
			_, err := keys.Do(t.Context(), request("k"), mustNotRun(t))
			wantIs(t, err, idempotency.ErrInFlight)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

func TestOwnerStuckBeyondWorkMaxStopsItsHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := idempotency.New(newFaulty(), idempotency.Config{Lease: 30 * time.Second, WorkMax: time.Minute})
		done, finish := make(chan error), make(chan struct{})
		go func() {
			_, err := keys.Do(t.Context(), request("k"), func(ctx context.Context) (idempotency.Response, error) {
				<-ctx.Done()
				wantIs(t, ctx.Err(), context.DeadlineExceeded)
				<-finish // a function that ignores its context
				return created("ch_1"), nil
			})
			done <- err
		}()
		pass(2 * time.Minute)
		_, err := keys.Do(t.Context(), request("k"), mustNotRun(t))
		wantIs(t, err, idempotency.ErrUnresolved)
		close(finish)
		if err := <-done; err != nil {
			t.Fatalf("a late result that nobody superseded counts: %v", err)
		}
		if res, err := keys.Do(t.Context(), request("k"), mustNotRun(t)); err != nil || !res.Replayed {
			t.Fatalf("%+v, %v", res, err)
		}
	})
}

func TestLeaseThatRanOutIsNotRevivedAndTheLateTruthCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		store.set("renew", always(errDown), nil)
		keys := idempotency.New(store, idempotency.Config{Lease: 30 * time.Second})
		done := make(chan error)
		go func() {
			_, err := keys.Do(t.Context(), request("k"), func(ctx context.Context) (idempotency.Response, error) {
				pass(time.Minute)
				return created("ch_1"), ctx.Err()
			})
			done <- err
		}()
		pass(40 * time.Second)
		store.set("renew", nil, nil) // the store is back: renewing must not revive
		pass(15 * time.Second)
		_, err := keys.Do(t.Context(), request("k"), mustNotRun(t))
		wantIs(t, err, idempotency.ErrUnresolved)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if res, err := keys.Do(t.Context(), request("k"), mustNotRun(t)); err != nil || string(res.Body) != "ch_1" {
			t.Fatalf("%+v, %v", res, err)
		}
	})
}

func TestSupersededOwnerIsToldAndAnswersAsEveryoneElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		keys := idempotency.New(store, idempotency.Config{Lease: 30 * time.Second})
		res, err := keys.Do(t.Context(), request("k"), func(ctx context.Context) (idempotency.Response, error) {
			// Stand in for an operator who freed the key, and for the next arrival, which took it.
			rec, err := store.Find(ctx, "acme", "k")
			if err != nil {
				return idempotency.Response{}, err
			}
			first := idempotency.Claim{Scope: "acme", Key: "k", Token: rec.Token, Attempt: rec.Attempt}
			if errs, err := store.Complete(ctx, []idempotency.Completion{{Claim: first, State: idempotency.Free}}); err != nil || errs[0] != nil {
				return idempotency.Response{}, errors.Join(err, errs[0])
			}
			if _, err := keys.Do(ctx, request("k"), answering(created("ch_2"))); err != nil {
				return idempotency.Response{}, err
			}
			<-ctx.Done()
			wantIs(t, context.Cause(ctx), idempotency.ErrLost)
			return created("ch_1"), nil
		})
		if err != nil || !res.Replayed || string(res.Body) != "ch_2" {
			t.Fatalf("%+v, %v", res, err)
		}
	})
}

func TestAnswerIsWithheldUntilItIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		store.set("complete", during(8*time.Second, errDown), nil)
		keys := idempotency.New(store, idempotency.Config{})
		if _, err := keys.Do(t.Context(), request("restart"), answering(created("ch_1"))); err != nil {
			t.Fatalf("a restart of the store is bridged: %v", err)
		}

		store.set("complete", always(errDown), nil)
		res, err := keys.Do(t.Context(), request("down"), answering(created("ch_2")))
		wantIs(t, err, fifty.ErrUnknownOutcome)
		if res.Body != nil {
			t.Fatalf("the answer left: %+v", res)
		}
		pass(time.Minute)
		_, err = keys.Do(t.Context(), request("down"), mustNotRun(t))
		wantIs(t, err, idempotency.ErrUnresolved)
	})
}

func TestCompletionWhoseReplyWasLostIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		store.set("complete", nil, times(2, errLostReply))
		keys := idempotency.New(store, idempotency.Config{})
		res, err := keys.Do(t.Context(), request("k"), answering(created("ch_1")))
		if err != nil || res.Replayed || store.count("complete") != 3 {
			t.Fatalf("%+v, %v after %d completions", res, err, store.count("complete"))
		}
	})
}

func TestWhatTheFunctionReturnsDecides(t *testing.T) {
	errBank := errors.New("the bank closed the connection")
	t.Run("an error leaves the key unresolved", func(t *testing.T) {
		keys := idempotency.New(newFaulty(), idempotency.Config{})
		_, err := keys.Do(t.Context(), request("k"), func(context.Context) (idempotency.Response, error) {
			return idempotency.Response{}, errBank
		})
		wantIs(t, err, idempotency.ErrUnresolved)
		wantIs(t, err, errBank)
		_, err = keys.Do(t.Context(), request("k"), mustNotRun(t))
		wantIs(t, err, idempotency.ErrUnresolved)
	})
	t.Run("NotDone frees it", func(t *testing.T) {
		keys := idempotency.New(newFaulty(), idempotency.Config{})
		_, err := keys.Do(t.Context(), request("k"), func(context.Context) (idempotency.Response, error) {
			return idempotency.Response{}, idempotency.NotDone(errBank)
		})
		if err != errBank {
			t.Fatalf("got %v", err)
		}
		if res, err := keys.Do(t.Context(), request("k"), answering(created("ch_2"))); err != nil || res.Replayed {
			t.Fatalf("%+v, %v", res, err)
		}
	})
	t.Run("Refuse is an answer", func(t *testing.T) {
		keys := idempotency.New(newFaulty(), idempotency.Config{})
		first, err := keys.Do(t.Context(), request("k"), func(context.Context) (idempotency.Response, error) {
			return idempotency.Response{}, idempotency.Refuse(idempotency.Response{Status: 402})
		})
		if err != nil || first.Status != 402 {
			t.Fatalf("%+v, %v", first, err)
		}
		if res, err := keys.Do(t.Context(), request("k"), mustNotRun(t)); err != nil || res.Status != 402 || !res.Replayed {
			t.Fatalf("%+v, %v", res, err)
		}
	})
	t.Run("a panic leaves it unresolved and goes on", func(t *testing.T) {
		keys := idempotency.New(newFaulty(), idempotency.Config{})
		func() {
			defer func() {
				if recover() != "boom" {
					t.Error("the panic was swallowed")
				}
			}()
			_, _ = keys.Do(t.Context(), request("k"), func(context.Context) (idempotency.Response, error) { panic("boom") })
		}()
		_, err := keys.Do(t.Context(), request("k"), mustNotRun(t))
		wantIs(t, err, idempotency.ErrUnresolved)
	})
	t.Run("so does a goroutine that ends", func(t *testing.T) {
		keys := idempotency.New(newFaulty(), idempotency.Config{})
		var wg sync.WaitGroup
		wg.Go(func() {
			_, _ = keys.Do(t.Context(), request("k"), func(context.Context) (idempotency.Response, error) {
				runtime.Goexit()
				return idempotency.Response{}, nil
			})
		})
		wg.Wait()
		_, err := keys.Do(t.Context(), request("k"), mustNotRun(t))
		wantIs(t, err, idempotency.ErrUnresolved)
	})
}

func TestTokenGrowsWithEveryOwner(t *testing.T) {
	keys := idempotency.New(newFaulty(), idempotency.Config{})
	var last int64
	for range 3 {
		_, err := keys.Do(t.Context(), request("k"), func(ctx context.Context) (idempotency.Response, error) {
			token, ok := idempotency.TokenFrom(ctx)
			if !ok || token <= last {
				t.Errorf("token %d, %v after %d", token, ok, last)
			}
			last = token
			return idempotency.Response{}, idempotency.NotDone(errDown)
		})
		wantIs(t, err, errDown)
	}
}

func TestBadRequestIsRefusedBeforeAnythingIsSent(t *testing.T) {
	good := request("k")
	for name, change := range map[string]func(*idempotency.Request){
		"no scope":                  func(r *idempotency.Request) { r.Scope = "" },
		"scope too long":            func(r *idempotency.Request) { r.Scope = strings.Repeat("s", idempotency.ScopeMax+1) },
		"scope with a newline":      func(r *idempotency.Request) { r.Scope = "a\nb" },
		"scope that is not UTF-8":   func(r *idempotency.Request) { r.Scope = "a\xff" },
		"no key":                    func(r *idempotency.Request) { r.Key = "" },
		"key too long":              func(r *idempotency.Request) { r.Key = strings.Repeat("k", idempotency.KeyMax+1) },
		"key that is not ASCII":     func(r *idempotency.Request) { r.Key = "clé" },
		"key with a NUL":            func(r *idempotency.Request) { r.Key = "k\x00" },
		"no fingerprint":            func(r *idempotency.Request) { r.Fingerprint = "" },
		"fingerprint of no JSON":    func(r *idempotency.Request) { r.Fingerprint = idempotency.FingerprintOf(make(chan int)) },
		"fingerprint of an integer": func(r *idempotency.Request) { r.Fingerprint = "\x01" },
	} {
		t.Run(name, func(t *testing.T) {
			store := newFaulty()
			keys := idempotency.NewTx(store, idempotency.Config{})
			req := good
			change(&req)
			_, err := keys.Do(t.Context(), req, mustNotRun(t))
			wantIs(t, err, fifty.ErrInvalid)
			_, err = keys.InTx(t.Context(), req, func(context.Context, *memory.Tx) (idempotency.Response, error) {
				t.Error("ran")
				return idempotency.Response{}, nil
			})
			wantIs(t, err, fifty.ErrInvalid)
			if n := store.count("claim"); n != 0 {
				t.Fatalf("%d claims were sent", n)
			}
		})
	}
}

func TestFindTellsAVanishedOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		keys := idempotency.New(store, idempotency.Config{})
		_, err := keys.Find(t.Context(), "acme", "k")
		wantIs(t, err, idempotency.ErrNotFound)
		a := idempotency.Attempt{ID: "a", Request: request("k"), Owner: "gone", Lease: time.Second}
		if claimed, err := store.Claim(t.Context(), []idempotency.Attempt{a}); err != nil || !claimed[0].Won {
			t.Fatal(claimed, err)
		}
		if rec, err := keys.Find(t.Context(), "acme", "k"); err != nil || rec.State != idempotency.InFlight {
			t.Fatalf("%+v, %v", rec, err)
		}
		pass(time.Second) // exactly at the end: no time left is expired, not endless
		if rec, err := keys.Find(t.Context(), "acme", "k"); err != nil || rec.State != idempotency.Unknown || rec.Owner != "gone" {
			t.Fatalf("%+v, %v", rec, err)
		}
	})
}

func TestClaimWhoseReplyOutlastedItsLeaseIsGivenBackAndAskedForAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		store.set("claim", nil, func() error {
			if store.count("claim") > 1 {
				return nil
			}
			pass(2 * time.Second)
			return errLostReply
		})
		keys := idempotency.New(store, idempotency.Config{Lease: time.Second})
		res, err := keys.Do(t.Context(), request("k"), answering(created("ch_1")))
		if err != nil || res.Replayed || string(res.Body) != "ch_1" {
			t.Fatalf("%+v, %v", res, err)
		}
	})
}

func TestClaimHeldUpOnItsWayTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		var first idempotency.Attempt
		store.set("claim", nil, nil)
		spy := &spying{faulty: store, saw: func(a idempotency.Attempt) { first = a }}
		keys := idempotency.New(spy, idempotency.Config{Lease: time.Second})
		late := func() idempotency.Claimed { // the network delivers the first claim once more
			claimed, err := store.Claim(t.Context(), []idempotency.Attempt{first})
			if err != nil {
				t.Fatal(err)
			}
			return claimed[0]
		}
		store.set("renew", always(errDown), nil)
		res, err := keys.Do(t.Context(), request("k"), func(context.Context) (idempotency.Response, error) {
			pass(2 * time.Second) // its lease runs out
			if late().Won {
				t.Error("a late message took the key for nobody")
			}
			return created("ch_1"), nil
		})
		if err != nil || string(res.Body) != "ch_1" {
			t.Fatalf("the late truth was thrown away: %+v, %v", res, err)
		}
		_, err = keys.Do(t.Context(), request("free"), func(context.Context) (idempotency.Response, error) {
			return idempotency.Response{}, idempotency.NotDone(errDown)
		})
		wantIs(t, err, errDown)
		if late().Won {
			t.Fatal("a late message took a free key for nobody")
		}
	})
}

// spying sees the attempts that are sent.
type spying struct {
	*faulty
	saw func(idempotency.Attempt)
}

func (s *spying) Claim(ctx context.Context, as []idempotency.Attempt) ([]idempotency.Claimed, error) {
	s.saw(as[0])
	return s.faulty.Claim(ctx, as)
}

func TestKeysTellTheObserverOfAKeyPerAttempt(t *testing.T) {
	var told []bool
	keys := idempotency.New(newFaulty(), idempotency.Config{
		PerAttempt: idempotency.NewPerAttempt(nil),
		Observer: fifty.ObserverFunc(func(_ context.Context, e fifty.Event) {
			if e.Name == "idempotency.key_per_attempt" {
				told = append(told, e.Attrs[len(e.Attrs)-1].Value.Bool())
			}
		}),
	})
	for _, key := range []string{"k1", "k2", "k2", "k3", "k4"} {
		if _, err := keys.Do(t.Context(), request(key), answering(created("ch"))); err != nil {
			t.Fatal(err)
		}
	}
	if len(told) != 2 || !told[0] || told[1] {
		t.Fatalf("told %v; want the third and the fourth key, and the caller named once", told)
	}
}

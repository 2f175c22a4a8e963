package idempotencytest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/faults/history"
	"github.com/fiftyhosts/fifty/faults/interleave"
	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/idempotency/idempotencytest"
)

// doLease is the lease of the Keys in these tests: no heartbeat comes in a run, and the test's clock ends it.
const doLease = time.Minute

// doRaces is a case of some callers of Do and DoSteps, and an operator, on one key of a reference.
func doRaces(t *testing.T, f fault) func(seed uint64) interleave.Case {
	const clients, calls = 3, 5
	dir := t.TempDir()
	return func(seed uint64) interleave.Case {
		b := newBench(patient)
		store := newReference(interleave.Point, b, f)
		rec := history.NewRecorder[idempotencytest.DoCall, idempotencytest.DoAnswer](nil)
		now := func() int64 { return b.read().UnixNano() }
		var c interleave.Case
		for client := range clients {
			d := &doer{
				rand:     rand.New(rand.NewPCG(seed, uint64(client))),
				name:     fmt.Sprint("client", client),
				keys:     idempotencytest.RecordedDo(store, idempotency.Config{Lease: doLease}, rec, client, now),
				operator: idempotency.NewOperator(store),
				pass:     func() { b.advance(doLease) },
			}
			c.Callers = append(c.Callers, func(ctx context.Context) {
				for n := range calls {
					d.call(ctx, n)
				}
			})
		}
		c.Check = func() error {
			h, err := rec.History()
			if err == nil {
				_, err = history.Check(h, history.Config{Model: idempotencytest.DoModel(0), Dir: dir, Name: t.Name()})
			}
			return err
		}
		return c
	}
}

type doer struct {
	rand     *rand.Rand
	name     string
	keys     *idempotencytest.RecordedKeys
	operator *idempotency.Operator
	pass     func()
}

var errWork = errors.New("the work failed")

func (d *doer) call(ctx context.Context, n int) {
	req := idempotency.Request{Scope: "acme", Key: "key", Fingerprint: idempotency.FingerprintOf("the body")}
	if d.rand.IntN(6) == 0 {
		req.Fingerprint = idempotency.FingerprintOf("another body")
	}
	name := fmt.Sprint(d.name, "-", n)
	switch d.rand.IntN(10) {
	case 0, 1, 2:
		d.pass()
	case 3:
		r := idempotency.Resolution{Scope: "acme", Key: "key", By: d.name, Note: "at random"}
		if d.rand.IntN(2) == 0 {
			r.Response = &idempotency.Response{Status: 200, Body: []byte("decided by " + name)}
		}
		_ = d.keys.Resolve(ctx, d.operator, r)
	case 4, 5, 6, 7:
		_, _ = d.keys.DoSteps(ctx, req, func(ctx context.Context, s *idempotency.Steps) (idempotency.Response, error) {
			if _, err := idempotency.Step(ctx, s, "step", func(context.Context, string) (string, error) { return name, nil }); err != nil {
				return idempotency.Response{}, err
			}
			return d.work(ctx, name)
		})
	default:
		_, _ = d.keys.Do(ctx, req, func(ctx context.Context) (idempotency.Response, error) { return d.work(ctx, name) })
	}
}

func (d *doer) work(ctx context.Context, name string) (idempotency.Response, error) {
	interleave.Point(ctx, "work")
	switch d.rand.IntN(6) {
	case 0, 1:
		return idempotency.Response{}, idempotency.NotDone(errWork)
	case 2:
		return idempotency.Response{}, errWork
	case 3:
		return idempotency.Response{}, idempotency.Refuse(idempotency.Response{Status: 402, Body: []byte(name)})
	default:
		return idempotency.Response{Status: 201, Body: []byte(name)}, nil
	}
}

func TestTheModelAllowsWhatKeysDo(t *testing.T) {
	opts := interleave.Options{Runs: 400, Test: t.Name(), Grace: patient}
	report, err := interleave.Sample(t.Context(), opts, doRaces(t, none))
	if err != nil {
		t.Fatal(err)
	}
	t.Log(report)
}

func TestTheModelOfKeysFindsPlantedFaultsAtRandom(t *testing.T) {
	for _, f := range []fault{
		readThenInsert, claimAfterWork, inFlightAbsent, unknownAbsent, expiredTaken, takesBlindly,
		tokenKept, tokenRestarts, freeClosed, fingerprintIgnored, completesBlindly, statusLost, letGoUnknown,
		lateRefused, resolvesLive, resolvesDone, resolveKeepsToken,
	} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			caught, first := rate(t, doRaces(t, f))
			if caught == 0 {
				t.Errorf("%d seeds did not show it", seedsOf)
			}
			t.Logf("%s: shown by %d of %d seeds, first by %d", f, caught, seedsOf, first)
		})
	}
}

package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/fiftyhosts/fifty/faults/history"
	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/idempotency/idempotencytest"
	"github.com/fiftyhosts/fifty/server"
)

// linearHost is the first argument of a test binary that shall be a host whose calls are recorded.
const linearHost = "linear-host"

// What each host of a linearizability test does: on each key, some clients at once.
const (
	linearKeys    = 6 // worked on by the store's own calls, and as many by Do and DoSteps
	linearClients = 2 // of each key, in each process
	linearCalls   = 6 // of each client of the store
	linearDos     = 3 // of each client of Keys

	// linearLease is that of Do and DoSteps: longer than any reply of the store takes, also on a busy machine.
	linearLease = 8 * time.Second

	linearBetween = 10 * time.Millisecond // two calls of Keys by one client

	// linearSlack is how far the clock of the stamps and the store's may drift apart.
	linearSlack = 50 * time.Millisecond
	linearShort = 4 * linearSlack // a lease that is over soon
)

// linearRun is one process: its store, and the two histories that it records.
type linearRun struct {
	backend *server.Backend
	name    string // of the process; no two are called the same
	seed    uint64
	endless bool // goes on until it is killed
	keys    *idempotencytest.KeyRecorder
	dos     *idempotencytest.DoRecorder
	group   sync.WaitGroup
}

// runLinearHost works when a line comes in, and says when it is done. Its arguments are the database, the files
// for its two histories, its name, a seed, and whether it shall go on until it is killed.
func runLinearHost(args []string) error {
	if len(args) != 6 {
		return fmt.Errorf("a %s has 6 arguments, not %d", linearHost, len(args))
	}
	ctx := context.Background()
	seed, err := strconv.ParseUint(args[4], 10, 64)
	if err != nil {
		return err
	}
	run := &linearRun{name: args[3], seed: seed, endless: args[5] == "endless"}
	if run.backend, err = server.OpenBackend(ctx, args[0]); err != nil {
		return err
	}
	defer run.backend.Close()
	if err := run.backend.Prepare(ctx, slog.New(slog.NewTextHandler(os.Stdout, nil))); err != nil {
		return err
	}
	keysLog, err := os.Create(args[1])
	if err != nil {
		return err
	}
	defer keysLog.Close()
	dosLog, err := os.Create(args[2])
	if err != nil {
		return err
	}
	defer dosLog.Close()
	run.keys = history.NewRecorder[idempotencytest.KeyCall, idempotencytest.KeyAnswer](keysLog)
	run.dos = history.NewRecorder[idempotencytest.DoCall, idempotencytest.DoAnswer](dosLog)

	return whenTold(func() error {
		run.work(ctx)
		_, keysErr := run.keys.History()
		_, dosErr := run.dos.History()
		return errors.Join(keysErr, dosErr)
	})
}

// whenTold says that the process is ready, works when a line comes in, and says when it is done.
func whenTold(work func() error) error {
	fmt.Println("ready")
	if !bufio.NewScanner(os.Stdin).Scan() {
		return errors.New("nobody told it to go on")
	}
	if err := work(); err != nil {
		return err
	}
	fmt.Println("done")
	return nil
}

// endlessCalls are more than any process makes before it is killed.
const endlessCalls = 100_000

func (r *linearRun) calls(usual int) int {
	if r.endless {
		return endlessCalls
	}
	return usual
}

func (r *linearRun) work(ctx context.Context) {
	for client := range linearClients {
		store := idempotencytest.Recorded(r.backend.Keys, r.keys, client, nil)
		keys := idempotencytest.RecordedDo(r.backend.Keys, idempotency.Config{
			Lease: linearLease, Wait: true, WaitMax: 2 * linearLease, Owner: r.name,
		}, r.dos, client, nil)
		for key := range linearKeys {
			random := func(kind uint64) *rand.Rand {
				return rand.New(rand.NewPCG(r.seed, kind<<32+uint64(client*linearKeys+key))) //nolint:gosec // a test that can be repeated
			}
			name := fmt.Sprintf("%s-%d-%d", r.name, client, key)
			r.group.Go(func() {
				w := &idempotencytest.KeyWork{
					Rand: random(0), Store: store, Name: name, Leases: []time.Duration{linearShort, time.Minute},
					Request: idempotency.Request{Scope: "calls", Key: fmt.Sprint("key-", key), Fingerprint: idempotency.FingerprintOf("a body")},
					Pass:    func() { _ = pause(ctx, linearShort) },
				}
				w.Run(ctx, r.calls(linearCalls))
			})
			d := &linearDoer{rand: random(1), name: name, keys: keys, operator: idempotency.NewOperator(r.backend.Keys), steps: key%2 == 1}
			d.request = idempotency.Request{Scope: "dos", Key: fmt.Sprint("key-", key), Fingerprint: idempotency.FingerprintOf("a body")}
			r.group.Go(func() {
				for n := range r.calls(linearDos) {
					d.call(ctx, n)
					_ = pause(ctx, linearBetween) // or one without an end would mostly replay
				}
			})
		}
	}
	r.group.Wait()
}

// linearDoer calls Keys about one key at random. What comes of it is for the history to judge.
type linearDoer struct {
	rand     *rand.Rand
	name     string
	request  idempotency.Request
	keys     *idempotencytest.RecordedKeys
	operator *idempotency.Operator
	steps    bool // every second key: all its calls are DoSteps, or a call of Do would wait for one that resumes
}

func (d *linearDoer) call(ctx context.Context, n int) {
	name := fmt.Sprint(d.name, "-", n)
	switch decides := d.rand.IntN(8) == 0; {
	case decides:
		r := idempotency.Resolution{Scope: d.request.Scope, Key: d.request.Key, By: d.name, Note: "at random"}
		if d.rand.IntN(2) == 0 {
			r.Response = &idempotency.Response{Status: 200, Body: []byte("decided by " + name)}
		}
		_ = d.keys.Resolve(ctx, d.operator, r)
	case !d.steps:
		_, _ = d.keys.Do(ctx, d.request, func(ctx context.Context) (idempotency.Response, error) { return d.work(ctx, name) })
	default:
		_, _ = d.keys.DoSteps(ctx, d.request, func(ctx context.Context, s *idempotency.Steps) (idempotency.Response, error) {
			if _, err := idempotency.Step(ctx, s, "step", func(context.Context, string) (string, error) { return name, nil }); err != nil {
				return idempotency.Response{}, err
			}
			return d.work(ctx, name)
		})
	}
}

var errLinearWork = errors.New("the work failed")

func (d *linearDoer) work(ctx context.Context, name string) (idempotency.Response, error) {
	const longMax = 40 * time.Millisecond
	_ = pause(ctx, time.Duration(d.rand.Int64N(int64(longMax))))
	switch d.rand.IntN(6) {
	case 0, 1, 2:
		return idempotency.Response{}, idempotency.NotDone(errLinearWork)
	case 3:
		return idempotency.Response{}, errLinearWork
	default:
		return idempotency.Response{Status: 201, Body: []byte(name)}, nil
	}
}

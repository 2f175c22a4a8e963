package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"

	"github.com/fiftyhosts/fifty/idempotency"
)

// dbosEndMax bounds the end of DBOS's own work.
const dbosEndMax = 10 * time.Second

var peerDBOSCases = []Case{
	{
		Name: "peer-dbos-postgres-fresh", Goal: atLeast(1),
		What: "New keys in Postgres. Ours: Keys.Do. Theirs: dbos.RunWorkflow with the key as the workflow's ID, and its result. Both record a claim before the work and the answer after it.",
		Run:  func(ctx context.Context, b *bench) (float64, error) { return peerDBOS(ctx, b, false) },
	},
	{
		Name: "peer-dbos-postgres-replay", Goal: atLeast(1),
		What: "The same with keys that are completed.",
		Run:  func(ctx context.Context, b *bench) (float64, error) { return peerDBOS(ctx, b, true) },
	},
}

func peerDBOS(ctx context.Context, b *bench, again bool) (float64, error) {
	keys, err := postgresKeys(ctx, b)
	if err != nil {
		return 0, err
	}
	pool, err := peerPool(ctx, b)
	if err != nil {
		return 0, err
	}
	engine, err := dbos.NewContext(ctx, dbos.Config{
		AppName: "bench", SystemDBPool: pool, ApplicationVersion: "1", ExecutorID: "bench",
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		return 0, err
	}
	b.Cleanup(func() error { return dbos.Shutdown(engine, dbosEndMax) })
	dbos.RegisterWorkflow(engine, dbosCharge)
	if err := dbos.Launch(engine); err != nil {
		return 0, err
	}
	ourRing, theirRing := &keyring{prefix: "peerkeys", again: again}, &keyring{prefix: "peerkeys", again: again}
	ours := doSide(func() *idempotency.Keys { return keys }, ourRing)
	theirs := Side{Name: "DBOS", Op: func(context.Context, int) error {
		handle, err := dbos.RunWorkflow(engine, dbosCharge, chargeBody, dbos.WithWorkflowID(theirRing.key()))
		if err != nil {
			return err
		}
		result, err := handle.GetResult()
		if err == nil && result != chargeAnswer {
			err = fmt.Errorf("another answer: %s", result)
		}
		return err
	}}
	if again {
		if err := errors.Join(ourRing.fill(ctx, ours.Op), theirRing.fill(ctx, theirs.Op)); err != nil {
			return 0, err
		}
	}
	return peerMeasure(ctx, b, ours, theirs)
}

// dbosCharge is the work, as a workflow.
func dbosCharge(dbos.Context, string) (string, error) { return chargeAnswer, nil }

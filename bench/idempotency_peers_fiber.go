package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gofiber/fiber/v3"
	fiberidempotency "github.com/gofiber/fiber/v3/middleware/idempotency"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/valyala/fasthttp"

	"github.com/fiftyhosts/fifty/idempotency/idempotencyhttp"
)

var peerFiberCases = []Case{
	{
		Name: "peer-fiber-memory-fresh", Goal: noGoal(),
		What: "New keys, in memory. Ours: idempotencyhttp.Middleware. Theirs: fiber's idempotency middleware. Both called in this process, without a network.",
		Run:  func(ctx context.Context, b *bench) (float64, error) { return peerFiberMemory(ctx, b, false) },
	},
	{
		Name: "peer-fiber-memory-replay", Goal: noGoal(),
		What: "The same with keys that are completed.",
		Run:  func(ctx context.Context, b *bench) (float64, error) { return peerFiberMemory(ctx, b, true) },
	},
	{
		Name: "peer-fiber-postgres-fresh", Goal: noGoal(),
		What: "The same with new keys in Postgres. Ours claims before the work and completes after it: two commits. Theirs looks twice and writes once, after the work.",
		Run:  func(ctx context.Context, b *bench) (float64, error) { return peerFiberPostgres(ctx, b, false) },
	},
	{
		Name: "peer-fiber-postgres-replay", Goal: atLeast(0.7),
		What: "The same with keys that are completed, in Postgres.",
		Run:  func(ctx context.Context, b *bench) (float64, error) { return peerFiberPostgres(ctx, b, true) },
	},
}

func peerFiberMemory(ctx context.Context, b *bench, again bool) (float64, error) {
	ourRing, theirRing := &keyring{prefix: "peerkeys", again: again}, &keyring{prefix: "peerkeys", again: again}
	handler := middleware(freshMemoryKeys())
	ours := Side{Name: "idempotencyhttp", Op: func(ctx context.Context, _ int) error { return serveOnce(ctx, handler, ourRing.key()) }}
	app := fiberApp(nil)
	theirs := Side{Name: "fiber", Op: func(_ context.Context, _ int) error { return fiberOnce(app, theirRing.key()) }}
	return peerMeasure(ctx, b,
		refilled(ours, ourRing, func() error { handler = middleware(freshMemoryKeys()); return nil }),
		refilled(theirs, theirRing, func() error { app = fiberApp(nil); return nil }))
}

func peerFiberPostgres(ctx context.Context, b *bench, again bool) (float64, error) {
	b.Explain("fiber's storage in Postgres (written here: that of gofiber/storage can't be had as a module):\n%s\n%s\n%s",
		fiberTable, fiberGet, fiberSet)
	keys, err := postgresKeys(ctx, b)
	if err != nil {
		return 0, err
	}
	pool, err := peerPool(ctx, b)
	if err != nil {
		return 0, err
	}
	if _, err := pool.Exec(ctx, fiberTable); err != nil {
		return 0, err
	}
	ourRing, theirRing := &keyring{prefix: "peerkeys", again: again}, &keyring{prefix: "peerkeys", again: again}
	handler, app := middleware(keys), fiberApp(fiberStorage{pool})
	ours := Side{Name: "idempotencyhttp", Op: func(ctx context.Context, _ int) error { return serveOnce(ctx, handler, ourRing.key()) }}
	theirs := Side{Name: "fiber", Op: func(_ context.Context, _ int) error { return fiberOnce(app, theirRing.key()) }}
	if again {
		if err := errors.Join(ourRing.fill(ctx, ours.Op), theirRing.fill(ctx, theirs.Op)); err != nil {
			return 0, err
		}
	}
	return peerMeasure(ctx, b, ours, theirs)
}

// fiberApp is the charge behind fiber's middleware. Without a storage it keeps its answers in memory.
func fiberApp(storage fiber.Storage) fasthttp.RequestHandler {
	app := fiber.New()
	app.Use(fiberidempotency.New(fiberidempotency.Config{
		KeyHeader: idempotencyhttp.KeyHeader, Lifetime: 24 * time.Hour, Storage: storage,
	}))
	app.Post("/charges", func(c fiber.Ctx) error {
		_ = c.Body()
		c.Set("Content-Type", "application/json")
		return c.Status(fiber.StatusCreated).SendString(chargeAnswer)
	})
	return app.Handler()
}

// fiberOnce sends one charge through an app.
func fiberOnce(app fasthttp.RequestHandler, key string) error {
	var c fasthttp.RequestCtx
	c.Request.Header.SetMethod("POST")
	c.Request.SetRequestURI("http://bench.example/charges")
	c.Request.Header.SetContentType("application/json")
	c.Request.Header.Set(idempotencyhttp.KeyHeader, key)
	c.Request.SetBodyString(chargeBody)
	app(&c)
	if c.Response.StatusCode() != fiber.StatusCreated || string(c.Response.Body()) != chargeAnswer {
		return fmt.Errorf("status %d: %s", c.Response.StatusCode(), c.Response.Body())
	}
	return nil
}

// What fiber asks of a storage, as statements.
const (
	fiberTable = `create table fiber_storage (k text primary key, v bytea not null, e bigint not null)`
	fiberGet   = `select v from fiber_storage where k = $1 and (e = 0 or e > extract(epoch from now()))`
	fiberSet   = `insert into fiber_storage (k, v, e) values ($1, $2, $3)
on conflict (k) do update set v = excluded.v, e = excluded.e`
)

// fiberStorage keeps fiber's answers in Postgres.
type fiberStorage struct{ pool *pgxpool.Pool }

func (s fiberStorage) GetWithContext(ctx context.Context, key string) ([]byte, error) {
	var value []byte
	err := s.pool.QueryRow(ctx, fiberGet, key).Scan(&value)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return value, err
}

func (s fiberStorage) SetWithContext(ctx context.Context, key string, value []byte, lifetime time.Duration) error {
	_, err := s.pool.Exec(ctx, fiberSet, key, value, time.Now().Add(lifetime).Unix())
	return err
}

func (s fiberStorage) DeleteWithContext(ctx context.Context, key string) error {
	_, err := s.pool.Exec(ctx, `delete from fiber_storage where k = $1`, key)
	return err
}

func (s fiberStorage) ResetWithContext(ctx context.Context) error {
	_, err := s.pool.Exec(ctx, `delete from fiber_storage`)
	return err
}

func (s fiberStorage) Get(key string) ([]byte, error) {
	return s.GetWithContext(context.Background(), key)
}

func (s fiberStorage) Set(key string, value []byte, lifetime time.Duration) error {
	return s.SetWithContext(context.Background(), key, value, lifetime)
}

func (s fiberStorage) Delete(key string) error { return s.DeleteWithContext(context.Background(), key) }
func (s fiberStorage) Reset() error            { return s.ResetWithContext(context.Background()) }
func (s fiberStorage) Close() error            { return nil } // the pool is the case's

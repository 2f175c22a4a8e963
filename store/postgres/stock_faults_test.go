package postgres_test

import (
	"crypto/rand"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/store/postgres"
)

func TestPostgresReservationWhoseCommitWasLostIsAnsweredByAskingAgain(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"reserve.one", "reserve.many", "reserve.enter", "reserve.lock", "commit"} {
		b := setup(t)
		supply(t, b.Stock(), inventory.Items{"a": 10, "b": 10}, 0)
		wire, through := newRelay(t, b.url)
		store := postgres.New(newPool(t, through, func(c *pgxpool.Config) { c.MaxConns = 1 }), postgres.Config{})
		s := store.Stock()
		asks := map[string][]inventory.Ask{
			"reserve.one":   {reserve("x", inventory.Items{"a": 1})},
			"reserve.many":  {reserve("x", inventory.Items{"a": 1}), reserve("y", inventory.Items{"a": 1})},
			"reserve.enter": {reserve("x", inventory.Items{"a": 1}), reserve("y", inventory.Items{"b": 1})},
			"reserve.lock":  {reserve("x", inventory.Items{"a": 1}), reserve("y", inventory.Items{"b": 1})},
			"commit":        {reserve("x", inventory.Items{"b": 11}), reserve("y", inventory.Items{"b": 1})},
		}[point]
		// Every statement is prepared: the next message is the statement itself.
		for range 2 {
			warm := slices.Clone(asks)
			for i := range warm {
				warm[i].ID = rand.Text()
			}
			store.SawKnown(point == "reserve.lock")
			asked(t, s, warm...)
		}
		store.SetHook(once(point, func() { wire.arm(loseReply) }))
		if _, err := s.Reserve(t.Context(), asks); !errors.Is(err, fifty.ErrUnknownOutcome) {
			t.Fatalf("%s: the lost reply is %v", point, err)
		}
		before := []inventory.Level{level(t, b.Stock(), "a"), level(t, b.Stock(), "b")}
		for i, a := range asked(t, s, asks...) {
			refused := point == "commit" && i == 0
			if !a.Hold.Replayed || errors.Is(a.Err, inventory.ErrSoldOut) != refused {
				t.Errorf("%s: asked again: %+v", point, a)
			}
		}
		if after := []inventory.Level{level(t, b.Stock(), "a"), level(t, b.Stock(), "b")}; !slices.Equal(before, after) {
			t.Errorf("%s: %+v, and after asking again %+v", point, before, after)
		}
		balanced(t, b.Stock())
	}
}

func TestPostgresRowThatStaysLockedIsAnErrorThatSaysSo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	supply(t, b.Stock(), inventory.Items{"a": 5}, 0)
	heldBy(t, b.Stock(), "held", inventory.Items{"a": 1})
	b.SetStockLockMax(50 * time.Millisecond)
	unlock := b.lockSKU(t, "a")
	s := b.Stock()
	for name, call := range map[string]func() error{
		"one": func() error {
			_, err := s.Reserve(t.Context(), []inventory.Ask{reserve("1", inventory.Items{"a": 1})})
			return err
		},
		"all": func() error {
			_, err := s.Reserve(t.Context(), []inventory.Ask{reserve("1", inventory.Items{"a": 1}), reserve("2", inventory.Items{"a": 1})})
			return err
		},
		"settle": func() error { _, err := s.Settle(t.Context(), []inventory.Ask{confirm("held")}); return err },
		"supply": func() error {
			return s.Supply(t.Context(), inventory.Delivery{ID: "d", Items: inventory.Items{"a": 1}})
		},
		"split": func() error { return s.Split(t.Context(), "a", 2) },
	} {
		if err := call(); !errors.Is(err, postgres.ErrLockTimeout) || errors.Is(err, fifty.ErrUnknownOutcome) {
			t.Errorf("%s: %v", name, err)
		}
	}
	unlock()
	if l := level(t, s, "a"); l.Held != 1 || l.Supply != 5 {
		t.Errorf("%+v", l)
	}
	heldBy(t, s, "1", inventory.Items{"a": 1})
}

func TestPostgresStockOfAnOlderProgramsTablesIsNamed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec(t, `drop table fifty.stock, fifty.holds, fifty.expiring, fifty.deliveries`)
	if _, err := b.Stock().Reserve(t.Context(), []inventory.Ask{reserve("1", inventory.Items{"a": 1})}); !errors.Is(err, postgres.ErrSchemaTooOld) {
		t.Errorf("%v", err)
	}
}

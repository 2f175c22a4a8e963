package idempotency_test

import (
	"context"
	"errors"
	"testing"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency"
)

// invoices is a table with one payment per invoice.
type invoices map[string]string

func (t invoices) pay(invoice, payment string) (string, bool, error) {
	return idempotency.Natural(context.Background(),
		func(context.Context) (string, bool, error) {
			if _, there := t[invoice]; there {
				return "", false, nil
			}
			t[invoice] = payment
			return payment, true, nil
		},
		func(context.Context) (string, error) {
			if row, there := t[invoice]; there {
				return row, nil
			}
			return "", idempotency.ErrNotFound
		})
}

func TestNaturalKeyTellsTheWinnerAndShowsTheLoserTheRow(t *testing.T) {
	table := invoices{}
	if row, won, err := table.pay("inv-1", "pay-1"); row != "pay-1" || !won || err != nil {
		t.Fatal(row, won, err)
	}
	if row, won, err := table.pay("inv-1", "pay-2"); row != "pay-1" || won || err != nil {
		t.Fatal(row, won, err)
	}
}

func TestNaturalKeyTriesAgainWhenTheRowItLostToIsGone(t *testing.T) {
	inserts := 0
	row, won, err := idempotency.Natural(t.Context(),
		func(context.Context) (int, bool, error) { inserts++; return inserts, inserts == 3, nil },
		func(context.Context) (int, error) { return 0, idempotency.ErrNotFound })
	if row != 3 || !won || err != nil {
		t.Fatal(row, won, err)
	}
	_, _, err = idempotency.Natural(t.Context(),
		func(context.Context) (int, bool, error) { return 0, false, nil },
		func(context.Context) (int, error) { return 0, idempotency.ErrNotFound })
	wantIs(t, err, fifty.ErrInvalid)
}

func TestNaturalKeyPassesErrorsOn(t *testing.T) {
	_, won, err := idempotency.Natural(t.Context(),
		func(context.Context) (int, bool, error) { return 1, true, errLostReply },
		func(context.Context) (int, error) { return 0, nil })
	if won || !errors.Is(err, fifty.ErrUnknownOutcome) {
		t.Fatal(won, err)
	}
	_, won, err = idempotency.Natural(t.Context(),
		func(context.Context) (int, bool, error) { return 1, false, nil },
		func(context.Context) (int, error) { return 0, errDown })
	if won || !errors.Is(err, errDown) {
		t.Fatal(won, err)
	}
}

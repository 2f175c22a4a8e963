package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/signal"
	"syscall"
	"time"

	"github.com/fiftyhosts/fifty/inventory"
)

const (
	// saleHost is the first argument of a test binary that shall be a host of a sale.
	saleHost = "sale-host"
	saleBuy  = "/buy"

	saleSweeps = 100 * time.Millisecond // between two sweeps of one host
)

// What a shopper does once the units are held.
const (
	fatePays    = "pays"
	fateExtends = "extends" // the hold, and pays
	fateSplits  = "splits"  // pays for one unit of the hot SKU, and gives the rest back
	fateCancels = "cancels"
	fateLeaves  = "leaves" // and is never seen again
)

// saleOrder is one order, under one id.
type saleOrder struct {
	ID    string
	Items inventory.Items
	Fate  string
	TTL   time.Duration
}

// part is what a shopper who splits pays for.
func (o saleOrder) part() inventory.Items { return inventory.Items{saleHot: 1} }

// What became of an order, for good.
const (
	saleSold     = "sold"
	saleSoldOut  = "sold out"
	saleReleased = "released"
	saleLapsed   = "lapsed" // it was paid too late
	saleLeft     = "left"   // held, until that expires
)

// saleAnswer is what a host tells of an order.
type saleAnswer struct {
	Outcome string
	Sold    inventory.Items
}

// runSaleHost serves orders, from the stock in the database and a till that takes its time, until it is told to
// end. It sweeps, too.
func runSaleHost(database, till string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	store, err := openSale(ctx, database, false)
	if err != nil {
		return err
	}
	defer store.close()
	stock := inventory.New(store, inventory.Config{})
	go func() {
		tick := time.NewTicker(saleSweeps)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_, _ = stock.Sweep(ctx) // the next one does what this one could not
			case <-ctx.Done():
				return
			}
		}
	}()
	mux := http.NewServeMux()
	mux.Handle("POST "+saleBuy, saleHandler(stock, till))
	return serveUntil(ctx, mux)
}

func saleHandler(stock *inventory.Stock, till string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var o saleOrder
		if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		// A shopper who hangs up does not undo what is under way.
		a, err := sell(context.WithoutCancel(r.Context()), stock, till, o)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(a)
	})
}

// sell takes an order to its end, from wherever another host has left it. An error says that this host can't
// tell: ask again.
func sell(ctx context.Context, stock *inventory.Stock, till string, o saleOrder) (saleAnswer, error) {
	h, err := stock.Reserve(ctx, o.ID, o.Items, o.TTL)
	if errors.Is(err, inventory.ErrSoldOut) {
		return saleAnswer{Outcome: saleSoldOut}, nil
	}
	if err != nil {
		return saleAnswer{}, err
	}
	if a, settled := settledAs(h); settled {
		return a, nil
	}
	if o.Fate == fateLeaves {
		return saleAnswer{Outcome: saleLeft}, nil
	}
	if o.Fate == fateExtends {
		if _, err := stock.Extend(ctx, o.ID, 2*o.TTL); err != nil && !errors.Is(err, inventory.ErrHoldExpired) && !errors.Is(err, inventory.ErrState) {
			return saleAnswer{}, err
		}
	}
	if err := pay(ctx, till, o.ID); err != nil {
		return saleAnswer{}, err
	}
	switch o.Fate {
	case fateCancels:
		h, err = stock.Release(ctx, o.ID)
	case fateSplits:
		h, err = stock.ConfirmPart(ctx, o.ID, o.part())
	default:
		h, err = stock.Confirm(ctx, o.ID)
	}
	if err != nil && !errors.Is(err, inventory.ErrHoldExpired) {
		return saleAnswer{}, err
	}
	a, settled := settledAs(h)
	if !settled {
		return saleAnswer{}, fmt.Errorf("order %s is %v, %w", o.ID, h.State, err)
	}
	return a, nil
}

// settledAs is what became of a hold, unless it is held or has expired.
func settledAs(h inventory.Hold) (saleAnswer, bool) {
	switch h.State {
	case inventory.Confirmed:
		return saleAnswer{Outcome: saleSold, Sold: h.Sold}, true
	case inventory.Released:
		return saleAnswer{Outcome: saleReleased}, true
	case inventory.Lapsed:
		return saleAnswer{Outcome: saleLapsed}, true
	}
	return saleAnswer{}, false
}

// pay takes the shopper's time. The till knows from it that the units were held.
func pay(ctx context.Context, till, id string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, till+"/"+id, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the till: %s", response.Status)
	}
	return nil
}

package lab

import (
	"context"
	"fmt"
	"net/http"
	"sync"
)

// bank is a payment provider: a process of its own with books of its own, that is asked over HTTP, may be slow to
// answer, and has the money from the moment of the ask.
type bank struct {
	actor *Actor

	mu       sync.Mutex
	payments map[string]*paid
}

// paid is the payment of one order.
type paid struct {
	taken, refunded bool
	arrived         chan struct{} // closed when it is taken
	answer          chan struct{} // closed when it may be answered
}

// ledger is what the bank's books say.
type ledger struct {
	Taken    int `json:"taken"`
	Refunded int `json:"refunded"`
}

func bankOf(a *Actor) *bank {
	return keptOrMade(a, "bank", func() *bank { return &bank{actor: a, payments: make(map[string]*paid)} })
}

// payment is that of an order, which may be still to come.
func (b *bank) payment(id string) *paid {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.payments[id]
	if p == nil {
		p = &paid{arrived: make(chan struct{}), answer: make(chan struct{})}
		b.payments[id] = p
	}
	return p
}

// openBank serves it and returns its address.
func openBank(_ context.Context, a *Actor, _ struct{}) (string, error) {
	s, err := listen(bankOf(a).handler())
	if err != nil {
		return "", err
	}
	return s.URL, nil
}

func (b *bank) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /payments/{id}", b.take)
	mux.HandleFunc("DELETE /payments/{id}", b.refund)
	return mux
}

// take takes the money at once, and answers as soon as it may. A second ask for the same payment takes nothing.
func (b *bank) take(w http.ResponseWriter, r *http.Request) {
	p := b.payment(r.PathValue("id"))
	slow := r.URL.Query().Has("slow")
	b.mu.Lock()
	first := !p.taken
	p.taken = true
	b.mu.Unlock()
	if first && slow {
		b.actor.Say(Step{"POST /payments", "the money is taken; the answer is slow today", Wait})
	}
	if first {
		close(p.arrived)
	}
	if slow {
		select {
		case <-p.answer:
			b.actor.Say(Step{"answers at last", "201", Plain})
		case <-r.Context().Done():
			return
		}
	}
	w.WriteHeader(http.StatusCreated)
}

// refund gives the money back, once.
func (b *bank) refund(w http.ResponseWriter, r *http.Request) {
	p := b.payment(r.PathValue("id"))
	b.mu.Lock()
	defer b.mu.Unlock()
	if !p.taken {
		http.Error(w, "no such payment", http.StatusNotFound)
		return
	}
	p.refunded = true
	w.WriteHeader(http.StatusNoContent)
}

// bankHasIt returns when the bank has been asked for a payment.
func bankHasIt(ctx context.Context, a *Actor, id string) (struct{}, error) {
	select {
	case <-bankOf(a).payment(id).arrived:
		return struct{}{}, nil
	case <-ctx.Done():
		return struct{}{}, context.Cause(ctx)
	}
}

// bankAnswers lets the bank answer a slow payment. It is for once.
func bankAnswers(_ context.Context, a *Actor, id string) (struct{}, error) {
	close(bankOf(a).payment(id).answer)
	return struct{}{}, nil
}

// bankBooks reads the bank's books.
func bankBooks(_ context.Context, a *Actor, _ struct{}) (l ledger, err error) {
	b := bankOf(a)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.payments {
		if p.taken {
			l.Taken++
		}
		if p.refunded {
			l.Refunded++
		}
	}
	return l, nil
}

// askBank is what a host asks the bank for an order: POST takes the money, DELETE gives it back. An error of ctx
// says nothing of what the bank has done.
func askBank(ctx context.Context, method, address, id string, slow bool) error {
	address += "/payments/" + id
	if slow {
		address += "?slow"
	}
	r, err := http.NewRequestWithContext(ctx, method, address, http.NoBody)
	if err != nil {
		return err
	}
	transport := &http.Transport{DisableKeepAlives: true} // the end of the ask is the end of its connection
	resp, err := transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("the bank answered %s %s with %s", method, address, resp.Status)
	}
	return nil
}

package lab

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// newBank is a bank in this process.
func newBank(t *testing.T) (a *Actor, address string) {
	t.Helper()
	a = &Actor{ctx: t.Context(), kept: make(map[string]any)}
	served := httptest.NewServer(bankOf(a).handler())
	t.Cleanup(served.Close)
	return a, served.URL
}

func booksOf(t *testing.T, a *Actor) ledger {
	t.Helper()
	l, err := bankBooks(t.Context(), a, struct{}{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestTheBankTakesTheMoneyOfAnOrderOnceAndGivesItBackOnce(t *testing.T) {
	t.Parallel()
	a, address := newBank(t)
	for range 2 {
		if err := askBank(t.Context(), http.MethodPost, address, "order-1", false); err != nil {
			t.Fatal(err)
		}
	}
	if l := booksOf(t, a); l != (ledger{Taken: 1}) {
		t.Errorf("%+v", l)
	}
	for range 2 {
		if err := askBank(t.Context(), http.MethodDelete, address, "order-1", false); err != nil {
			t.Fatal(err)
		}
	}
	if l := booksOf(t, a); l != (ledger{Taken: 1, Refunded: 1}) {
		t.Errorf("%+v", l)
	}
	err := askBank(t.Context(), http.MethodDelete, address, "order-2", false)
	if err == nil || !strings.Contains(err.Error(), "404 Not Found") {
		t.Errorf("a refund of what was never paid: %v", err)
	}
}

func TestTheBankHasTheMoneyOfACallerWhoHangsUp(t *testing.T) {
	t.Parallel()
	a, address := newBank(t)
	heard := make(chan struct{}) // its step goes nowhere here
	a.out, a.says = stepsTo(heard), make(map[int]chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- askBank(ctx, http.MethodPost, address, "order-1", true) }()
	<-heard
	a.goOn(a.says, 1)
	if _, err := bankHasIt(t.Context(), a, "order-1"); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("a caller who hung up has an answer")
	}
	if l := booksOf(t, a); l != (ledger{Taken: 1}) {
		t.Errorf("%+v", l)
	}
}

// stepsTo is an output that says when something was written.
type stepsTo chan struct{}

func (s stepsTo) Write(p []byte) (int, error) { close(s); return len(p), nil }

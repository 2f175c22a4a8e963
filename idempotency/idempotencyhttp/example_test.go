package idempotencyhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/idempotency/idempotencyhttp"
	"github.com/fiftyhosts/fifty/retry"
	"github.com/fiftyhosts/fifty/store/memory"
)

// account is the scope of the examples: who a verified credential belongs to.
func account(r *http.Request) (string, error) {
	if name, password, ok := r.BasicAuth(); ok && password == "secret" {
		return name, nil
	}
	return "", errors.New("no such user, or another password")
}

// charged sends a charge and returns the answer.
func charged(h http.Handler, key string) string {
	r := httptest.NewRequest(http.MethodPost, "/charges", strings.NewReader("amount=500"))
	r.SetBasicAuth("acme", "secret")
	r.Header.Set("Idempotency-Key", key)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	answer := fmt.Sprintf("%d %s", w.Code, w.Body)
	if w.Header().Get("Idempotency-Replayed") == "true" {
		answer += " (replayed)"
	}
	return strings.Join(strings.Fields(answer), " ")
}

// A handler that acts elsewhere, such as at a payment provider. It runs once per key.
func ExampleMiddleware() {
	keys := idempotency.New(memory.New(memory.Config{}).Keys(), idempotency.Config{})
	protect := idempotencyhttp.Middleware(keys, idempotencyhttp.Config{Scope: account})

	charges := 0
	mux := http.NewServeMux()
	mux.Handle("POST /charges", protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		charges++
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, "charge %d", charges)
	})))

	fmt.Println(charged(mux, "order-17"))
	fmt.Println(charged(mux, "order-17"))
	fmt.Println(charged(mux, "order-18"))
	// Output:
	// 201 charge 1
	// 201 charge 1 (replayed)
	// 201 charge 2
}

// A handler whose work is a write to the database that also holds the keys: both are one commit.
func ExampleInTx() {
	keys := idempotency.NewTx(memory.New(memory.Config{}).Keys(), idempotency.Config{})
	balance := 700

	charge := idempotencyhttp.InTx(keys, idempotencyhttp.Config{Scope: account},
		func(w http.ResponseWriter, r *http.Request, tx *memory.Tx) {
			if balance < 500 {
				w.WriteHeader(http.StatusPaymentRequired) // a refusal: nothing is written, the answer is kept
				return
			}
			tx.OnCommit(func() { balance -= 500 })
			w.WriteHeader(http.StatusCreated)
		})

	fmt.Println(charged(charge, "order-17"))
	fmt.Println(charged(charge, "order-17"))
	fmt.Println(charged(charge, "order-18"))
	fmt.Println(charged(charge, "order-18"))
	fmt.Println("balance", balance)
	// Output:
	// 201
	// 201 (replayed)
	// 402
	// 402 (replayed)
	// balance 200
}

// A proxy knows that nothing was sent when dialling failed. It frees the key, so that a retry may run.
func ExampleSetKeep() {
	keys := idempotency.New(memory.New(memory.Config{}).Keys(), idempotency.Config{})
	up := false

	h := idempotencyhttp.Middleware(keys, idempotencyhttp.Config{Scope: account})(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !up {
				idempotencyhttp.SetKeep(r.Context(), idempotencyhttp.Freed)
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			w.WriteHeader(http.StatusCreated)
		}))

	fmt.Println(charged(h, "order-17"))
	up = true
	fmt.Println(charged(h, "order-17"))
	// Output:
	// 502
	// 201
}

// A client whose first reply is lost. It asks again under the same key, so there is one charge.
func ExampleTransport() {
	keys := idempotency.New(memory.New(memory.Config{}).Keys(), idempotency.Config{})
	protect := idempotencyhttp.Middleware(keys, idempotencyhttp.Config{Scope: account})
	var charges, arrivals atomic.Int64
	shop := protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, "charge %d", charges.Add(1))
	}))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if arrivals.Add(1) == 1 {
			shop.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler) // charged, and the connection is gone
		}
		shop.ServeHTTP(w, r)
	}))
	defer srv.Close()

	client := &http.Client{Transport: idempotencyhttp.Transport(nil, retry.Policy{})}
	// The id of the order is the intent's: even a restart of this program would send the same key.
	ctx := idempotencyhttp.WithKey(context.Background(), "order-17")
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL+"/charges", strings.NewReader("amount=500"))
	if err != nil {
		fmt.Println(err)
		return
	}
	r.SetBasicAuth("acme", "secret")
	resp, err := client.Do(r)
	if errors.Is(err, fifty.ErrUnknownOutcome) {
		fmt.Println("charged or not: ask again with the same key") // and never with a new one
		return
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	fmt.Println(resp.StatusCode, string(body), err)
	fmt.Println("replayed:", resp.Header.Get("Idempotency-Replayed"))
	fmt.Println("charges:", charges.Load())
	// Output:
	// 201 charge 1 <nil>
	// replayed: true
	// charges: 1
}

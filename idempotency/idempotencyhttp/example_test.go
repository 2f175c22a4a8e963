package idempotencyhttp_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/idempotency/idempotencyhttp"
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

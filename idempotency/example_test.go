package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/store/memory"
)

// A charge at a payment provider: an effect outside our database.
func ExampleKeys_Do() {
	keys := idempotency.New(memory.New(memory.Config{}).Keys(), idempotency.Config{})
	charges := 0
	charge := func(ctx context.Context) (idempotency.Response, error) {
		charges++ // the call to the provider
		return idempotency.JSON(http.StatusCreated, map[string]string{"id": "ch_1"})
	}

	req := idempotency.Request{
		Scope:       "account/42",      // the verified caller
		Key:         "order-7/payment", // from the client: once per intent
		Fingerprint: idempotency.FingerprintOf("charge", 500, "EUR"),
	}
	for range 2 {
		res, err := keys.Do(context.Background(), req, charge)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(res.Status, string(res.Body), "replayed:", res.Replayed)
	}
	fmt.Println("charges:", charges)
	// Output:
	// 201 {"id":"ch_1"} replayed: false
	// 201 {"id":"ch_1"} replayed: true
	// charges: 1
}

// A write to the database of the keys: claim, work and answer are one commit.
func ExampleTxKeys_InTx() {
	store := memory.New(memory.Config{})
	keys := idempotency.NewTx(store.Keys(), idempotency.Config{})
	balance := 1000

	req := idempotency.Request{Scope: "account/42", Key: "transfer-1", Fingerprint: idempotency.FingerprintOf(300)}
	for range 2 {
		res, err := keys.InTx(context.Background(), req, func(_ context.Context, tx *memory.Tx) (idempotency.Response, error) {
			tx.OnCommit(func() { balance -= 300 })
			return idempotency.Response{Status: http.StatusNoContent}, nil
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(res.Status, "replayed:", res.Replayed, "balance:", balance)
	}
	// Output:
	// 204 replayed: false balance: 700
	// 204 replayed: true balance: 700
}

// A definite refusal is an answer too: a retry must not turn a no into a surprise yes.
func ExampleRefuse() {
	keys := idempotency.New(memory.New(memory.Config{}).Keys(), idempotency.Config{})
	req := idempotency.Request{Scope: "account/42", Key: "order-8", Fingerprint: idempotency.FingerprintOf(9000)}
	funds := 0
	pay := func(context.Context) (idempotency.Response, error) {
		if funds < 9000 {
			return idempotency.Response{}, idempotency.Refuse(idempotency.Response{Status: http.StatusPaymentRequired})
		}
		return idempotency.Response{Status: http.StatusCreated}, nil
	}
	first, _ := keys.Do(context.Background(), req, pay)
	funds = 10000
	second, _ := keys.Do(context.Background(), req, pay)
	fmt.Println(first.Status, second.Status)
	// Output: 402 402
}

// When nothing happened for certain, the key is free and a retry runs afresh.
func ExampleNotDone() {
	keys := idempotency.New(memory.New(memory.Config{}).Keys(), idempotency.Config{})
	req := idempotency.Request{Scope: "account/42", Key: "order-9", Fingerprint: idempotency.FingerprintOf(1)}
	errBusy := errors.New("too busy to start")

	_, err := keys.Do(context.Background(), req, func(context.Context) (idempotency.Response, error) {
		return idempotency.Response{}, idempotency.NotDone(errBusy)
	})
	fmt.Println(err)
	res, _ := keys.Do(context.Background(), req, func(context.Context) (idempotency.Response, error) {
		return idempotency.Response{Status: http.StatusCreated}, nil
	})
	fmt.Println(res.Status, "replayed:", res.Replayed)
	// Output:
	// too busy to start
	// 201 replayed: false
}

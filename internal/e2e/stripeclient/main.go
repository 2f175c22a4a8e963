// Command stripeclient is a shop that pays with stripe-go, as its documentation says, and knows nothing of
// Fifty. It makes many payments at once, several under one key, and writes one line of JSON for each call.
//
// It is a module of its own, so that stripe-go is no need of Fifty's.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sync"

	"github.com/stripe/stripe-go/v85"
)

// call is what one call gave.
type call struct {
	Intent int64  `json:"intent"`
	ID     string `json:"id,omitempty"`
	Amount int64  `json:"amount,omitempty"`
	Body   string `json:"body,omitempty"` // as it came
	Error  string `json:"error,omitempty"`
}

func main() {
	base := flag.String("base", "", "where the API is, instead of api.stripe.com")
	intents := flag.Int64("intents", 20, "different payments, each with a key of its own")
	calls := flag.Int64("calls", 200, "calls, all at once")
	retries := flag.Int64("retries", 12, "the SDK's MaxNetworkRetries")
	flag.Parse()

	client := stripe.NewClient("sk_test_123", stripe.WithBackends(stripe.NewBackendsWithConfig(&stripe.BackendConfig{
		URL:               stripe.String(*base),
		MaxNetworkRetries: stripe.Int64(*retries),
		LeveledLogger:     &stripe.LeveledLogger{Level: stripe.LevelNull},
	})))
	var group sync.WaitGroup
	var mu sync.Mutex
	out := json.NewEncoder(os.Stdout)
	for n := range *calls {
		group.Go(func() {
			c := pay(client, n%*intents+1)
			mu.Lock()
			defer mu.Unlock()
			if err := out.Encode(c); err != nil {
				fmt.Fprintln(os.Stderr, "stripeclient:", err)
				os.Exit(1)
			}
		})
	}
	group.Wait()
}

// pay creates a payment of as many cents as its number.
func pay(client *stripe.Client, intent int64) call {
	params := &stripe.PaymentIntentCreateParams{
		Amount:   stripe.Int64(intent),
		Currency: stripe.String("usd"),
	}
	params.SetIdempotencyKey(fmt.Sprintf("order-%d", intent))
	payment, err := client.V1PaymentIntents.Create(context.Background(), params)
	if err != nil {
		return call{Intent: intent, Error: err.Error()}
	}
	return call{Intent: intent, ID: payment.ID, Amount: payment.Amount, Body: string(payment.LastResponse.RawJSON)}
}

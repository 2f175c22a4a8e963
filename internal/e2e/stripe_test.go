package e2e

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stripe/stripe-go/v85"

	"github.com/fiftyhosts/fifty/internal/testenv"
)

// TestStripeClientsOwnRetriesMakeOnePostPerKey: stripe-go and stripe-mock, neither of them changed, nor told
// of the gateway between them, over a network that loses one exchange in three.
func TestStripeClientsOwnRetriesMakeOnePostPerKey(t *testing.T) {
	const (
		intents   = 20
		perIntent = 10
		seed      = 7
		budget    = 90
		// What the SDK is told by whoever needs the answer: it waits 0.5 s, then longer, up to 5 s.
		retries = 12
	)
	upstream := newCounter(t, startStripeMock(t))
	gateway := startProxy(t, upstream.url, sqliteURL(t))
	wire := newRelay(t, gateway.url, seededFaults(seed, budget))
	client := stripeClient(wire.url, retries)

	var mu sync.Mutex
	bodies := map[int64][]byte{} // by intent: what its first caller got
	var group sync.WaitGroup
	for n := range intents * perIntent {
		group.Go(func() {
			intent := int64(n%intents + 1)
			body, err := pay(t.Context(), client, intent)
			mu.Lock()
			defer mu.Unlock()
			switch first := bodies[intent]; {
			case err != nil:
				t.Errorf("call %d of intent %d: %v", n, intent, err)
			case first == nil:
				bodies[intent] = body
			case !bytes.Equal(first, body):
				t.Errorf("intent %d: one caller got\n%s\nanother\n%s", intent, first, body)
			}
		})
	}
	group.Wait()

	if posts := upstream.posts.Load(); posts != intents || len(bodies) != intents {
		t.Errorf("stripe-mock got %d POSTs and %d intents were answered, want %d", posts, len(bodies), intents)
	}
	did := wire.counts()
	t.Logf("the network: %v", did)
	for _, f := range []wireFault{loseRequest, dropReply, cutReply, hangUp} {
		if did[f] == 0 {
			t.Errorf("the network never did this: %s", f)
		}
	}
}

func startStripeMock(tb testing.TB) (base string) {
	tb.Helper()
	mock := startTool(tb, testenv.Tool(tb, "stripe-mock"), "-http-addr", "127.0.0.1:0", "-https-addr", "127.0.0.1:0")
	return "http://" + mock.find(`Listening for HTTP at address: (\S+)`)[1]
}

func stripeClient(base string, retries int64) *stripe.Client {
	return stripe.NewClient("sk_test_123", stripe.WithBackends(stripe.NewBackendsWithConfig(&stripe.BackendConfig{
		URL:               stripe.String(base),
		MaxNetworkRetries: stripe.Int64(retries),
		LeveledLogger:     &stripe.LeveledLogger{Level: stripe.LevelNull},
	})))
}

// pay creates a payment of intent cents, as an application would, and returns the answer's body.
func pay(ctx context.Context, client *stripe.Client, intent int64) ([]byte, error) {
	params := &stripe.PaymentIntentCreateParams{
		Amount:   stripe.Int64(intent),
		Currency: stripe.String("usd"),
	}
	params.SetIdempotencyKey(fmt.Sprintf("order-%d", intent))
	payment, err := client.V1PaymentIntents.Create(ctx, params)
	if err != nil {
		return nil, err
	}
	if payment.ID == "" || payment.Amount != intent {
		return nil, fmt.Errorf("got payment %q of %d", payment.ID, payment.Amount)
	}
	return payment.LastResponse.RawJSON, nil
}

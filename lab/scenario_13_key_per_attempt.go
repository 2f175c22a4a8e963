package lab

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/idempotency/idempotencyhttp"
	"github.com/fiftyhosts/fifty/retry"
)

func keyPerAttempt() *Scenario {
	return &Scenario{
		Number: 13, Name: "key-per-attempt", Title: "A new idempotency key for each attempt",
		Wrong: "The server does everything right, and the client's library makes the key where it sends: each retry has " +
			"a new one, so each retry is a new intent.",
		Fix: "The client makes one key per intent and sends it with every attempt: idempotencyhttp.Transport does. The " +
			"server refuses another body under a used key, and idempotency.PerAttempt names clients that do it wrong.",
		Tables: []string{chargesTable},
		Actions: map[string]Action{
			"serve": action(serveShop), "lose": action(loseAnswers), "named": action(namedCallers), "pay": action(payWithRetries),
		},
		Runs: []Run{
			{Kind: Naive, Title: "the retry loop makes the key", Play: playPerAttempt},
			{Kind: Fifty, Title: "one key per intent: idempotencyhttp.Transport with WithKey", Play: playPerIntent},
		},
	}
}

// serveShop is the same server in both runs: Fifty's middleware, with the detector. tone is what its charges are.
func serveShop(_ context.Context, a *Actor, tone Tone) (string, error) {
	keys := idempotency.New(a.DB.Keys, idempotency.Config{
		Owner: a.Name, PerAttempt: idempotency.NewPerAttempt(nil),
		Observer: fifty.ObserverFunc(func(_ context.Context, e fifty.Event) { spotted(a, e) }),
	})
	var s *service
	guarded := idempotencyhttp.Middleware(keys, idempotencyhttp.Config{Scope: caller})(shop(a, tone))
	s, err := listen(losing(a, func() *service { return s }, guarded))
	if err != nil {
		return "", err
	}
	a.Keep("service", s)
	return s.URL, nil
}

// shop charges, once per call.
func shop(a *Actor, tone Tone) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, err := read(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		id, err := charge(r.Context(), a, p)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		a.Say(Step{"insert into charges … " + p.Order, "1 row: the card is charged", tone})
		answer(w, receipt{Charge: id, Account: p.Account, Cents: p.Cents})
	})
}

// spotted keeps whom the detector names.
func spotted(a *Actor, e fifty.Event) {
	if e.Name != "idempotency.key_per_attempt" {
		return
	}
	var who string
	first := false
	for _, attr := range e.Attrs {
		switch attr.Key {
		case "scope":
			who = attr.Value.String()
		case "first":
			first = attr.Value.Bool()
		}
	}
	if !first {
		return
	}
	a.Keep("named", who)
	a.Say(Step{"PerAttempt: one request, three keys", "event idempotency.key_per_attempt names " + who, Good})
}

func namedCallers(_ context.Context, a *Actor, _ struct{}) (string, error) {
	who, _ := a.Kept("named").(string)
	return who, nil
}

// loseAnswers lets the next n answers get lost.
func loseAnswers(_ context.Context, a *Actor, n int) (struct{}, error) {
	s, ok := a.Kept("service").(*service)
	if !ok || n > losses {
		return struct{}{}, errors.New("no service to lose answers of")
	}
	for range n {
		s.lose <- struct{}{}
	}
	return struct{}{}, nil
}

// payment is what a client is to pay, and how.
type payment struct {
	purchase
	URLs  []string `json:"urls"` // of the attempts, in this order
	Naive bool     `json:"naive"`
}

// payWithRetries is a client that doesn't give up.
func payWithRetries(ctx context.Context, a *Actor, p payment) (answered, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptMax)
	defer cancel()
	attempts := 0
	key := "key " + p.Key
	if p.Naive {
		key = "a new key"
	}
	load := newBalancer(p.URLs, func(status int, replayed bool, err error) {
		attempts++
		step := Step{Did: "POST /charges, " + key}
		switch {
		case err != nil:
			step.Said, step.Tone = "no answer; did it happen?", Wait
		case replayed:
			step.Said, step.Tone = fmt.Sprintf("%d, and it is a replay", status), Good
		case status == http.StatusUnprocessableEntity:
			step.Said, step.Tone = "422: this key was used for a different request", Good
		default:
			step.Said = fmt.Sprintf("%d", status)
		}
		a.Say(step)
	})
	var client http.RoundTripper = &keyInLoop{base: load, attemptsMax: len(p.URLs)}
	if !p.Naive {
		client = idempotencyhttp.Transport(load, retry.Policy{
			AttemptsMax: len(p.URLs), Base: time.Millisecond, Cap: 10 * time.Millisecond, ElapsedMax: attemptMax,
		})
		ctx = idempotencyhttp.WithKey(ctx, p.Key)
	}
	r, err := newPurchase(ctx, p.purchase)
	if err != nil {
		return answered{}, err
	}
	got, err := send(client, r)
	got.Attempts = attempts
	return got, err
}

// keyInLoop is a client library that was written with good intentions: it sends a key with every request.
type keyInLoop struct {
	base        http.RoundTripper
	attemptsMax int
}

// RoundTrip sends the request until there is an answer.
func (k *keyInLoop) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	for range k.attemptsMax {
		attempt := r.Clone(r.Context())
		if attempt.Body, err = r.GetBody(); err != nil {
			return nil, err
		}
		attempt.Header.Set(idempotencyhttp.KeyHeader, rand.Text()) // the fault: in the loop, not before it
		if resp, err = k.base.RoundTrip(attempt); err == nil {
			return resp, nil
		}
	}
	return nil, err
}

package lab

import (
	"context"
	"fmt"
	"net/http"
)

// serveAll makes each host a server and returns their addresses in the order of the hosts.
func serveAll(ctx context.Context, s *Stage, do string, tone Tone) (map[*Host]string, error) {
	urls := make(map[*Host]string)
	for _, h := range s.Hosts {
		url, err := Ask[string](ctx, h, do, tone)
		if err != nil {
			return nil, err
		}
		urls[h] = url
	}
	return urls, nil
}

// payLosing lets a client pay by way of the hosts, in that order. All answers but the last one get lost.
func payLosing(ctx context.Context, client *Host, p payment, way []*Host, urls map[*Host]string) (answered, error) {
	for i, h := range way {
		p.URLs = append(p.URLs, urls[h])
		if i == len(way)-1 {
			break
		}
		if _, err := Ask[struct{}](ctx, h, "lose", 1); err != nil {
			return answered{}, err
		}
	}
	return Ask[answered](ctx, client, "pay", p)
}

// openShop makes all hosts servers and starts their client.
func openShop(ctx context.Context, s *Stage, tone Tone) (client *Host, urls map[*Host]string, err error) {
	if urls, err = serveAll(ctx, s, "serve", tone); err != nil {
		return nil, nil, err
	}
	client, err = s.Client(ctx, "client")
	return client, urls, err
}

func playPerAttempt(ctx context.Context, s *Stage) (Verdict, error) {
	client, urls, err := openShop(ctx, s, Bad)
	if err != nil {
		return Verdict{}, err
	}
	s.Tell("one order; a load balancer sends each attempt to another host; all answers but the last get lost")
	got, err := payLosing(ctx, client, payment{purchase: anOrder, Naive: true}, s.Shuffled(), urls)
	if err != nil {
		return Verdict{}, err
	}
	n, err := s.charges(ctx, anOrder.Order)
	return Verdict{
		Fault: n > 1, Text: fmt.Sprintf("%s for one order", counted(n, "charge")),
		Figures: map[string]int{"charges": n, "attempts": got.Attempts},
	}, err
}

// signKeys is how many keys for one request the detector takes for a sign.
const signKeys = 3

func playPerIntent(ctx context.Context, s *Stage) (Verdict, error) {
	client, urls, err := openShop(ctx, s, Good)
	if err != nil {
		return Verdict{}, err
	}
	s.Tell("the same order and the same losses; the order's own id is the key of all attempts")
	way := s.Shuffled()
	got, err := payLosing(ctx, client, payment{purchase: anOrder}, way, urls)
	if err != nil {
		return Verdict{}, err
	}
	s.Tell("the same key for another amount")
	other := anOrder
	other.Cents++
	reused, err := payLosing(ctx, client, payment{purchase: other}, way[:1], urls)
	if err != nil {
		return Verdict{}, err
	}
	s.Tell("a client that was not mended pays another order: no server can tell its retries from new intents, but it is named")
	old := purchase{Key: "order-18", Account: anOrder.Account, Order: "order-18", Cents: 1800}
	var sticky []*Host
	for range signKeys {
		sticky = append(sticky, way[0])
	}
	if _, err := payLosing(ctx, client, payment{purchase: old, Naive: true}, sticky, urls); err != nil {
		return Verdict{}, err
	}
	named, err := Ask[string](ctx, way[0], "named", struct{}{})
	if err != nil {
		return Verdict{}, err
	}
	n, err := s.charges(ctx, anOrder.Order)
	return Verdict{
		Fault: n != 1 || got.Attempts != len(s.Hosts) || !got.Replayed || reused.Status != http.StatusUnprocessableEntity || named != anOrder.Account,
		Text: fmt.Sprintf("%s in %s; the reused key got %d; the detector named %q",
			counted(n, "charge"), counted(got.Attempts, "attempt"), reused.Status, named),
		Figures: map[string]int{"charges": n, "attempts": got.Attempts, "reused_status": reused.Status},
	}, err
}

package lab

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
)

func keysAcrossTenants() *Scenario {
	return &Scenario{
		Number: 13, Name: "keys-across-tenants", Title: "Idempotency keys shared by all tenants", HostsMax: 3,
		Wrong: "The key alone finds the answer. Two tenants number their orders alike, and the second one gets the first " +
			"one's receipt; its own order is never charged.",
		Fix: "A key belongs to a scope, the caller's verified identity: the index is on (scope, key). The middleware asks " +
			"for the scope before it reads the key, and the fingerprint refuses another body under a used key.",
		Tables: []string{
			chargesTable,
			`create table answers (key text not null primary key, answer text not null)`,
		},
		Actions: map[string]Action{"serve-global": action(serveGlobal), "serve": action(serveShop), "pay": action(payWithRetries)},
		Runs: []Run{
			{Kind: Naive, Title: "a table of answers by key", Play: playGlobal},
			{Kind: Fifty, Title: "answers by scope and key: idempotencyhttp.Middleware", Play: playScoped},
		},
	}
}

// serveGlobal remembers answers by key. Its insert is the check, as it should be.
func serveGlobal(_ context.Context, a *Actor, _ Tone) (string, error) {
	s, err := listen(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, err := read(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		made, isNew, err := answerOnce(r.Context(), a, p)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		step := Step{Did: fmt.Sprintf("insert into answers (key) '%s', for %s", p.Key, p.Account)}
		switch {
		case isNew:
			step.Said = "a new key: the card of " + p.Account + " is charged"
		case made.Account != p.Account:
			step.Said, step.Tone = "it is there: answered with the receipt of "+made.Account, Bad
		default:
			step.Said, step.Tone = "it is there: answered with the receipt of "+made.Account, Good
		}
		a.Say(step)
		answer(w, made)
	}))
	if err != nil {
		return "", err
	}
	return s.URL, nil
}

// answerOnce charges for the first arrival of a key, and finds its receipt for all others.
func answerOnce(ctx context.Context, a *Actor, p purchase) (made receipt, isNew bool, err error) {
	mine := receipt{Charge: nextCharge(a), Account: p.Account, Cents: p.Cents}
	text, err := json.Marshal(mine)
	if err != nil {
		return receipt{}, false, err
	}
	err = a.DB.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		n, err := a.DB.ExecTx(ctx, tx, `insert into answers (key, answer) values ($1, $2) on conflict do nothing`, p.Key, string(text))
		if err != nil || n == 0 {
			return err
		}
		isNew = true
		_, err = a.DB.ExecTx(ctx, tx, insertCharge, mine.Charge, p.Order, p.Account, p.Cents)
		return err
	})
	if err != nil || isNew {
		return mine, isNew, err
	}
	var kept string
	if err := a.DB.QueryRow(ctx, `select answer from answers where key = $1`, p.Key).Scan(&kept); err != nil {
		return receipt{}, false, err
	}
	return made, false, json.Unmarshal([]byte(kept), &made)
}

// The two tenants' first orders. Both count from 1.
var (
	annasOrder = purchase{Key: "1", Account: "anna", Order: "anna-1", Cents: 4200}
	bensOrder  = purchase{Key: "1", Account: "ben", Order: "ben-1", Cents: 4200}
)

// payBoth lets both tenants pay their first order, and Anna ask a second time.
func payBoth(ctx context.Context, s *Stage, urls map[*Host]string) (anna, ben, again answered, err error) {
	tenants := make(map[string]*Host)
	for _, name := range []string{"anna", "ben"} {
		if tenants[name], err = s.Client(ctx, name); err != nil {
			return anna, ben, again, err
		}
	}
	way := s.Shuffled()
	s.Tell("anna and ben are two tenants; each numbers its own orders, and uses the number as the key")
	ask := func(p purchase, h *Host) (got answered) {
		if err != nil {
			return answered{}
		}
		got, err = payLosing(ctx, tenants[p.Account], payment{purchase: p}, []*Host{h}, urls)
		return got
	}
	anna = ask(annasOrder, way[0])
	ben = ask(bensOrder, way[1])
	again = ask(annasOrder, way[len(way)-1])
	return anna, ben, again, err
}

// countBoth counts the charges of both orders.
func countBoth(ctx context.Context, s *Stage) (annas, bens int, err error) {
	annas, err = s.charges(ctx, annasOrder.Order)
	if err == nil {
		bens, err = s.charges(ctx, bensOrder.Order)
	}
	return annas, bens, err
}

func playGlobal(ctx context.Context, s *Stage) (Verdict, error) {
	urls, err := serveAll(ctx, s, "serve-global", Bad)
	if err != nil {
		return Verdict{}, err
	}
	_, ben, _, err := payBoth(ctx, s, urls)
	if err != nil {
		return Verdict{}, err
	}
	annas, bens, err := countBoth(ctx, s)
	return Verdict{
		Fault:   ben.Receipt.Account == "anna" && bens == 0,
		Text:    fmt.Sprintf("ben was given the receipt of %s, and his order has %s", ben.Receipt.Account, counted(bens, "charge")),
		Figures: map[string]int{"charges_anna": annas, "charges_ben": bens},
	}, err
}

func playScoped(ctx context.Context, s *Stage) (Verdict, error) {
	urls, err := serveAll(ctx, s, "serve", Good)
	if err != nil {
		return Verdict{}, err
	}
	anna, ben, again, err := payBoth(ctx, s, urls)
	if err != nil {
		return Verdict{}, err
	}
	annas, bens, err := countBoth(ctx, s)
	right := annas == 1 && bens == 1 && anna.Receipt.Account == "anna" && ben.Receipt.Account == "ben" &&
		again.Replayed && again.Receipt == anna.Receipt
	return Verdict{
		Fault:   !right,
		Text:    fmt.Sprintf("%s for anna, %s for ben, each got the receipt of their own", counted(annas, "charge"), counted(bens, "charge")),
		Figures: map[string]int{"charges_anna": annas, "charges_ben": bens},
	}, err
}

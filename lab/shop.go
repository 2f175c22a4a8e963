package lab

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/fiftyhosts/fifty/idempotency"
)

// The shop of the scenarios charges cards for orders. Each row of charges is money that was taken, so the
// database itself counts the effects.
const chargesTable = `create table charges (
	id text not null primary key, order_id text not null, account text not null, cents bigint not null)`

// purchase is what a caller asks for, under a key.
type purchase struct {
	Key     string `json:"key"`
	Account string `json:"account"`
	Order   string `json:"order"`
	Cents   int64  `json:"cents"`
}

func (p purchase) request() idempotency.Request {
	return idempotency.Request{
		Scope: p.Account, Key: p.Key, Fingerprint: idempotency.FingerprintOf("charge", p.Order, p.Cents),
	}
}

// receipt is the answer to it.
type receipt struct {
	Charge  string `json:"charge"`
	Account string `json:"account"`
	Cents   int64  `json:"cents"`
}

// reply is what an action tells the conductor of one arrival.
type reply struct {
	Charge   string `json:"charge,omitempty"` // of the answer, whoever made it
	Made     bool   `json:"made,omitempty"`   // this arrival charged
	Told     string `json:"told,omitempty"`   // instead of an answer: in flight, expired
	Replayed bool   `json:"replayed,omitempty"`
}

// What an arrival is told instead of an answer.
const (
	toldInFlight = "in flight"
	toldExpired  = "expired"
)

// nextCharge names a charge after the host that makes it and how many it has made, so that two runs with one
// seed tell the same story.
func nextCharge(a *Actor) string {
	n, _ := a.Kept("charges").(int)
	a.Keep("charges", n+1)
	return fmt.Sprintf("ch-%d-%d", a.Number, n+1)
}

const insertCharge = `insert into charges (id, order_id, account, cents) values ($1, $2, $3, $4)`

// charge takes the money.
func charge(ctx context.Context, a *Actor, p purchase) (id string, err error) {
	id = nextCharge(a)
	_, err = a.DB.Exec(ctx, insertCharge, id, p.Order, p.Account, p.Cents)
	return id, err
}

// chargeTx is charge in a transaction.
func chargeTx(ctx context.Context, a *Actor, tx *sql.Tx, p purchase) (id string, err error) {
	id = nextCharge(a)
	_, err = a.DB.ExecTx(ctx, tx, insertCharge, id, p.Order, p.Account, p.Cents)
	return id, err
}

// replyOf is what an arrival got from package idempotency, and the step for the timeline.
func replyOf(res idempotency.Result, err error, did string) (reply, Step, error) {
	switch {
	case errors.Is(err, idempotency.ErrInFlight):
		return reply{Told: toldInFlight}, Step{did, "409: a request with this key is in flight; nothing is run", Wait}, nil
	case errors.Is(err, idempotency.ErrExpired):
		return reply{Told: toldExpired}, Step{did, "410: this key has expired; nothing is run", Good}, nil
	case err != nil:
		return reply{}, Step{}, err
	}
	answer, err := idempotency.Decode[receipt](res)
	if err != nil {
		return reply{}, Step{}, err
	}
	out := reply{Charge: answer.Charge, Replayed: res.Replayed, Made: !res.Replayed}
	if res.Replayed {
		return out, Step{did, "the first answer, replayed: " + answer.Charge, Good}, nil
	}
	return out, Step{did, "201: " + answer.Charge, Good}, nil
}

// charges counts the money that was taken for an order.
func (s *Stage) charges(ctx context.Context, order string) (int, error) {
	return s.Count(ctx, `select count(*) from charges where order_id = $1`, order)
}

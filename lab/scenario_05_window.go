package lab

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
)

// storyMinute is how long a minute of this story takes.
const storyMinute = 20 * time.Millisecond

// The story, in minutes. The second day of a real one is its second hour here.
const (
	retryMinute  = 10 // a client that was asleep comes back
	replayMinute = 60 // an operator replays a dead letter
)

func minutes(n int) time.Duration { return time.Duration(n) * storyMinute }

const day = 24 * 60 // minutes

func windowTooSmall() *Scenario {
	return &Scenario{
		Number: 5, Name: "window-too-small", Title: "Dedup window too small", HostsMax: 3,
		Wrong: "Keys are remembered for 5 minutes. A client retries after 10, and an operator replays a dead letter " +
			"after an hour: both are new to the table, and the card is charged again.",
		Fix: "Size the window to the latest retry, replays by hand included. Past the window refuse, don't run again: " +
			"a tombstone, and a key that carries its time. Best of all a natural key, which has no window.",
		Tables: []string{
			chargesTable,
			`create table seen (key text not null primary key, at_ms bigint not null)`,
			`create table payments (invoice text not null primary key, charge text not null)`,
		},
		Actions: map[string]Action{
			"seen": action(seenThenCharge), "key": action(keyThenCharge), "sweep": action(sweepKeys),
			"natural": action(naturalCharge),
		},
		Runs: []Run{
			{Kind: Naive, Title: "a table of seen keys, cleared after 5 minutes", Play: playSeen},
			{Kind: Fifty, Title: "a window as long as the latest retry: Retention 24 h, Tombstone 30 days", Play: playWide},
			{Kind: Fifty, Title: "past the window a tombstone refuses: Retention 5 min, Tombstone 30 days", Play: playTombstone},
			{Kind: Fifty, Title: "past the tombstone a time-ordered key refuses: Retention 5 min, Tombstone 30 min", Play: playTimeOrdered},
			{Kind: Fifty, Title: "no window at all: one payment per invoice, idempotency.Natural", Play: playNatural},
		},
	}
}

const seenMinutes = 5

// seenThenCharge is a table of seen keys as it should be written, but for its window.
func seenThenCharge(ctx context.Context, a *Actor, p purchase) (reply, error) {
	window := minutes(seenMinutes).Milliseconds()
	cleared, err := a.DB.Exec(ctx, `delete from seen where at_ms < now_ms() - $1`, window)
	if err != nil {
		return reply{}, err
	}
	if cleared > 0 {
		a.Say(Step{"delete from seen where … older than 5 minutes", fmt.Sprintf("%s forgotten", counted(int(cleared), "key")), Plain})
	}
	var out reply
	err = a.DB.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		isNew, err := a.DB.ExecTx(ctx, tx, `insert into seen (key, at_ms) values ($1, now_ms()) on conflict do nothing`, p.Key)
		if err != nil || isNew == 0 {
			return err
		}
		out.Charge, err = chargeTx(ctx, a, tx, p)
		return err
	})
	if err != nil {
		return reply{}, err
	}
	did := fmt.Sprintf("insert into seen … '%s' on conflict do nothing", p.Key)
	if out.Charge == "" {
		a.Say(Step{did, "it is there: not charged again", Good})
		return out, nil
	}
	a.Say(Step{did, "a new key: the card is charged, " + out.Charge, Bad})
	return out, nil
}

// windowed is a purchase with the window that its key has.
type windowed struct {
	purchase
	Retention time.Duration `json:"retention"`
	Tombstone time.Duration `json:"tombstone"`
	MakeKey   bool          `json:"make_key"` // a time-ordered one, now
}

func (w windowed) keys(a *Actor) *idempotency.TxKeys[*sql.Tx] {
	return idempotency.NewTx(a.DB.Keys, idempotency.Config{Owner: a.Name, Retention: w.Retention, Tombstone: w.Tombstone})
}

// keyed is the reply to it, with the key that was used.
type keyed struct {
	reply
	Key string `json:"key"`
}

// keyThenCharge is the same with Fifty: claim, charge and answer are one commit.
func keyThenCharge(ctx context.Context, a *Actor, w windowed) (keyed, error) {
	if w.MakeKey {
		w.Key = timeOrderedKey(time.Now())
	}
	did := "InTx: key " + w.Key
	if _, ok := idempotency.Made(w.Key); ok {
		did = "InTx: the same UUIDv7"
	}
	if w.MakeKey {
		did = "InTx: a UUIDv7, a key that carries its time"
	}
	res, err := w.keys(a).InTx(ctx, w.request(), func(ctx context.Context, tx *sql.Tx) (idempotency.Response, error) {
		id, err := chargeTx(ctx, a, tx, w.purchase)
		if err != nil {
			return idempotency.Response{}, err
		}
		return idempotency.JSON(201, receipt{Charge: id, Account: w.Account, Cents: w.Cents})
	})
	out, step, err := replyOf(res, err, did)
	if err == nil {
		a.Say(step)
	}
	return keyed{out, w.Key}, err
}

// swept is what a sweep left of a key.
type swept struct {
	State string `json:"state"` // "" when nothing is left
}

// sweepKeys tidies as a host does now and then, and looks at what is left of a key.
func sweepKeys(ctx context.Context, a *Actor, w windowed) (swept, error) {
	keys := w.keys(a)
	if _, err := keys.Sweep(ctx); err != nil {
		return swept{}, err
	}
	rec, err := keys.Find(ctx, w.Account, w.Key)
	step := Step{Did: "sweeps what is over"}
	switch {
	case errors.Is(err, idempotency.ErrNotFound):
		step.Said = "nothing is left of the key, not even a tombstone"
		a.Say(step)
		return swept{}, nil
	case err != nil:
		return swept{}, err
	case rec.State == idempotency.Tombstone:
		step.Said = "the answer is gone, a tombstone is left"
	default:
		step.Said = "the answer is still there"
	}
	a.Say(step)
	return swept{rec.State.String()}, nil
}

// naturalCharge needs no key: the business allows one payment per invoice.
func naturalCharge(ctx context.Context, a *Actor, p purchase) (reply, error) {
	id, won, err := idempotency.Natural(ctx,
		func(ctx context.Context) (string, bool, error) {
			var id string
			err := a.DB.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
				mine := nextCharge(a)
				isNew, err := a.DB.ExecTx(ctx, tx, `insert into payments (invoice, charge) values ($1, $2) on conflict do nothing`, p.Order, mine)
				if err != nil || isNew == 0 {
					return err
				}
				id = mine
				_, err = a.DB.ExecTx(ctx, tx, insertCharge, id, p.Order, p.Account, p.Cents)
				return err
			})
			return id, id != "", err
		},
		func(ctx context.Context) (string, error) {
			var id string
			err := a.DB.QueryRow(ctx, `select charge from payments where invoice = $1`, p.Order).Scan(&id)
			if errors.Is(err, sql.ErrNoRows) {
				return "", idempotency.ErrNotFound
			}
			return id, err
		})
	if err != nil {
		return reply{}, err
	}
	did := fmt.Sprintf("insert into payments (invoice) '%s' …", p.Order)
	if won {
		a.Say(Step{did, "the card is charged, " + id, Good})
	} else {
		a.Say(Step{did, "it is paid already: " + id, Good})
	}
	return reply{Charge: id, Made: won, Replayed: !won}, nil
}

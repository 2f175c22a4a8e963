package postgres_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/txn"
)

// byBatch makes an attempt together with another one, of a key of its own.
func byBatch(s *scene, a idempotency.Attempt) (idempotency.Claimed, error) {
	all, err := s.store.Keys().Claim(s.ctx, []idempotency.Attempt{attempt("beside " + rand.Text()), a})
	switch {
	case err != nil:
		return idempotency.Claimed{}, err
	case !all[0].Won:
		return idempotency.Claimed{}, fmt.Errorf("the one beside it: %+v", all[0])
	default:
		return all[1], nil
	}
}

// nobodys is a claim of a key that nobody has.
func nobodys() idempotency.Claim {
	return idempotency.Claim{Scope: "acme", Key: "nobody's " + rand.Text(), Token: 1, Attempt: "nobody"}
}

func (s *scene) endsMany(c idempotency.Claim, want bool) error {
	all, err := s.store.Keys().Complete(s.ctx, []idempotency.Completion{
		{Claim: nobodys(), State: idempotency.Free}, {Claim: c, State: idempotency.Free},
	})
	if err != nil {
		return err
	}
	return errors.Join(wantLost(all[0], true), wantLost(all[1], want))
}

func (s *scene) renewsMany(c idempotency.Claim, want bool) error {
	all, err := s.store.Keys().Renew(s.ctx, []idempotency.Claim{nobodys(), c}, 10*time.Hour)
	if err != nil {
		return err
	}
	return errors.Join(wantLost(all[0], true), wantLost(all[1], want))
}

// passesOver has an owner come in a batch while another transaction has its row: it must be told to come alone,
// and the one beside it must not wait.
func passesOver(by func(s *scene, both []idempotency.Claim) ([]error, error)) func(*scene) error {
	return func(s *scene) error {
		if err := s.put(idempotency.InFlight, "1 hour"); err != nil {
			return err
		}
		mine := idempotency.Claim{Scope: s.row.scope, Key: "k", Token: s.row.token, Attempt: theirs}
		beside := mine
		beside.Key = "neighbour"
		return s.holder.Txns().Transact(s.ctx, txn.Options{}, func(ctx context.Context, tx pgx.Tx) error {
			const lock = `select from fifty.keys where scope = $1 and key = 'k' for update`
			if _, err := tx.Exec(ctx, lock, s.row.scope); err != nil {
				return err
			}
			all, err := by(s, []idempotency.Claim{mine, beside})
			if err != nil || !errors.Is(all[0], idempotency.ErrAlone) || all[1] != nil {
				return fmt.Errorf("%v, %w; want ErrAlone and nothing", all, err)
			}
			return nil
		})
	}
}

func batchGuards() []guard {
	const hour = "1 hour"
	all := windowBatchGuards()
	all = append(all, guard{
		name: "claim.insert_many of an open key", waits: true, check: holding(byBatch, ""),
		changes: []change{{"claim.insert_many", "pg_try_advisory_xact_lock_shared(a.lock)", "a.lock is not null"}},
	})
	for statement, by := range map[string]holderCall{"complete_many": (*scene).endsMany, "renew_many": (*scene).renewsMany} {
		stranger := func(change func(*idempotency.Claim)) func(*scene) error {
			return held(by, idempotency.InFlight, hour, true, change)
		}
		all = append(
			all,
			guard{name: statement + " of its scope", changes: []change{{statement, "scope = a.scope and", "a.scope <> '' and"}}, check: held(by, idempotency.InFlight, hour, false, nil)},
			guard{name: statement + " of its key", changes: []change{{statement, "and key = a.key", "and a.key <> ''"}}, check: held(by, idempotency.InFlight, hour, false, nil)},
			guard{name: statement + " with its token", changes: []change{{statement, "token = a.token", "a.token > 0"}}, check: stranger(func(c *idempotency.Claim) { c.Token++ })},
			guard{name: statement + " by its attempt", changes: []change{{statement, "attempt = a.attempt", "a.attempt <> ''"}}, check: stranger(func(c *idempotency.Claim) { c.Attempt = "a stranger" })},
		)
	}
	ends := func(s *scene, both []idempotency.Claim) ([]error, error) {
		return s.store.Keys().Complete(s.ctx, []idempotency.Completion{
			{Claim: both[0], State: idempotency.Free}, {Claim: both[1], State: idempotency.Free},
		})
	}
	renews := func(s *scene, both []idempotency.Claim) ([]error, error) {
		return s.store.Keys().Renew(s.ctx, both, time.Hour)
	}
	return append(
		all,
		guard{name: "complete_many what is not decided", changes: []change{{"complete_many", "and state in (1, 3)", ""}}, check: held((*scene).endsMany, idempotency.Done, hour, true, nil)},
		guard{name: "complete_many what is unknown", changes: []change{{"complete_many", "and state in (1, 3)", "and state = 1"}}, check: held((*scene).endsMany, idempotency.Unknown, hour, false, nil)},
		guard{name: "renew_many what is in flight", changes: []change{{"renew_many", "and state = 1", ""}}, check: held((*scene).renewsMany, idempotency.Unknown, hour, true, nil)},
		guard{name: "renew_many what has not expired", changes: []change{{"renew_many", "where k.expires > clock_timestamp()", ""}}, check: held((*scene).renewsMany, idempotency.InFlight, "-1 second", true, nil)},
		guard{name: "complete_many without waiting", waits: true, changes: []change{{"complete_many", "for update skip locked", "for update"}}, check: passesOver(ends)},
		guard{name: "renew_many without waiting", waits: true, changes: []change{{"renew_many", "for update skip locked", "for update"}}, check: passesOver(renews)},
	)
}

func windowBatchGuards() []guard {
	const statement = "claim.insert_many"
	return []guard{
		{
			name: statement + " of a key that is not too old", check: refuses(byBatch, 40*day, idempotency.ErrExpired),
			changes: []change{{statement, "a.made > clock_timestamp() - $10::bigint * interval '1 microsecond'", "$10::bigint > 0"}},
		},
		{
			name: statement + " of a key that is not ahead", check: refuses(byBatch, -time.Hour, fifty.ErrInvalid),
			changes: []change{{statement, "and a.made <= clock_timestamp() + interval '300000000 microseconds'", ""}},
		},
	}
}

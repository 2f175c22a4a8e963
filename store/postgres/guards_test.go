package postgres_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/store/postgres"
	"github.com/fiftyhosts/fifty/txn"
)

// A guard is a condition in the SQL. Its check passes on the shipped statements; without the condition it
// must fail, or nothing would notice when somebody drops it.
type guard struct {
	name    string
	changes []change
	check   func(s *scene) error
	waits   bool // without the condition a caller waits for a lock until its context ends
}

// waitMax is how long a caller of a broken store may wait for a lock until it counts as waiting for ever.
const waitMax = time.Second

// scene is a key with two neighbours, on a store of its own.
type scene struct {
	t     *testing.T
	ctx   context.Context
	pool  func(sql string, args ...any) error
	count func(sql string, args ...any) (int, error)
	store *postgres.Store[pgx.Tx]
	row   row

	holder *postgres.Store[pgx.Tx] // a whole store on the same database
}

// row is what is in the table under (scope, key) before the store is asked.
type row struct {
	scope   string
	state   idempotency.State
	token   int64
	attempt string
	expires string // an interval from now
}

const theirs = "the attempt that was there"

func (s *scene) request() idempotency.Request {
	r := request("k")
	r.Scope = s.row.scope
	return r
}

// put writes the row, the same one under another key, and the same one in another scope.
func (s *scene) put(state idempotency.State, expires string) error {
	s.row = row{scope: rand.Text(), state: state, token: 7, attempt: theirs, expires: expires}
	for _, id := range [][2]string{{s.row.scope, "k"}, {s.row.scope, "neighbour"}, {s.row.scope + " neighbour", "k"}} {
		err := s.pool(`insert into fifty.keys (scope, key, fingerprint, state, token, attempt, owner, resume, expires)
			values ($1, $2, $3, $4, $5, $6, 'other', true, clock_timestamp() + $7::text::interval)`,
			id[0], id[1], []byte(s.request().Fingerprint), int(state), s.row.token, s.row.attempt, expires)
		if err != nil {
			return err
		}
	}
	return nil
}

// becomes changes the row just before the statement called point goes to the server.
func (s *scene) becomes(point, set string) {
	s.store.SetHook(once(point, func() {
		if err := s.pool(`update fifty.keys set `+set+` where scope = $1 and key = 'k'`, s.row.scope); err != nil {
			s.t.Error(err)
		}
	}))
}

// neighbours says whether they are as they were put.
func (s *scene) neighbours() error {
	for _, id := range [][2]string{{s.row.scope, "neighbour"}, {s.row.scope + " neighbour", "k"}} {
		rec, err := s.store.Keys().Find(s.ctx, id[0], id[1])
		if err != nil {
			return err
		}
		if rec.State != s.row.state || rec.Token != s.row.token || rec.Attempt != s.row.attempt || rec.ExpiresIn > 2*time.Hour {
			return fmt.Errorf("the neighbour %q is %+v", id, rec)
		}
	}
	return nil
}

// ask is an attempt that may resume, made in one of three ways.
type ask func(s *scene, a idempotency.Attempt) (idempotency.Claimed, error)

func byClaim(s *scene, a idempotency.Attempt) (idempotency.Claimed, error) {
	all, err := s.store.Keys().Claim(s.ctx, []idempotency.Attempt{a})
	if err != nil {
		return idempotency.Claimed{}, err
	}
	return all[0], nil
}

func byClaimTx(s *scene, a idempotency.Attempt) (got idempotency.Claimed, err error) {
	err = s.store.Txns().Transact(s.ctx, txn.Options{}, func(ctx context.Context, tx pgx.Tx) error {
		got, err = s.store.Keys().ClaimTx(ctx, tx, a)
		return err
	})
	return got, err
}

func byInTx(s *scene, a idempotency.Attempt) (idempotency.Claimed, error) {
	return s.store.Keys().InTx(s.ctx, a, func(context.Context, pgx.Tx) (idempotency.Response, error) {
		return created("ours"), nil
	})
}

// takes has an attempt take what is put, and finds the neighbours as they were.
func takes(by ask) func(*scene) error {
	return func(s *scene) error {
		if err := s.put(idempotency.Free, "1 hour"); err != nil {
			return err
		}
		a := attempt("k")
		a.Request = s.request()
		got, err := by(s, a)
		if err != nil || !got.Won || got.Record.Token != s.row.token+1 {
			return fmt.Errorf("asked for a free key: %+v, %v", got, err)
		}
		return s.neighbours()
	}
}

// leaves has an attempt see an expired claim that it may take over, and finds that it does not once the row
// has become something else.
func leaves(by ask, point, set string) func(*scene) error {
	return func(s *scene) error {
		if err := s.put(idempotency.InFlight, "-1 second"); err != nil {
			return err
		}
		s.becomes(point, set)
		a := attempt("k")
		a.Request, a.Resume = s.request(), true
		got, err := by(s, a)
		if err != nil || got.Won {
			return fmt.Errorf("%+v, %v; want not won", got, err)
		}
		rec, err := s.store.Keys().Find(s.ctx, s.row.scope, "k")
		if err != nil || rec.Attempt != theirs {
			return fmt.Errorf("the record is %+v, %v", rec, err)
		}
		return nil
	}
}

// What an expired claim can have become: another owner's, which has expired too, for another intent; what
// its late owner completed; and, if a clock were ever turned back, valid again.
const (
	another   = `token = token + 1, fingerprint = '\x0100'`
	completed = `state = 2`
	valid     = `expires = clock_timestamp() + interval '1 hour'`
)

func guardsOf(by ask, statement, token, state string) []guard {
	expiry := "and (state <> 1 or expires <= clock_timestamp())"
	if statement == "intx.answer_over" {
		expiry = "and (state <> 1 or expires <= clock_timestamp() or attempt = $4::text)"
	}
	return []guard{
		{name: statement + " of its scope", changes: []change{{statement, "scope = $1::text and", "$1::text <> '' and"}}, check: takes(by)},
		{name: statement + " of its key", changes: []change{{statement, "and key = $2::text", "and $2::text <> ''"}}, check: takes(by)},
		{name: statement + " of the token that was seen", changes: []change{{statement, "token = " + token, token + " > 0"}}, check: leaves(by, statement, another)},
		{name: statement + " of the state that was seen", changes: []change{{statement, "state = " + state, state + " > 0"}}, check: leaves(by, statement, completed)},
		{name: statement + " of what is still expired", changes: []change{{statement, expiry, ""}}, check: leaves(by, statement, valid)},
		{name: statement + " counts the token up", changes: []change{{statement, "token = token + 1", "token = token"}}, check: takes(by)},
	}
}

// ends says what became of c, which its owner or a stranger sends.
func (s *scene) ends(c idempotency.Claim, want bool) error {
	all, err := s.store.Keys().Complete(s.ctx, []idempotency.Completion{{Claim: c, State: idempotency.Free}})
	if err != nil {
		return err
	}
	return wantLost(all[0], want)
}

func (s *scene) renews(c idempotency.Claim, want bool) error {
	all, err := s.store.Keys().Renew(s.ctx, []idempotency.Claim{c}, 10*time.Hour)
	if err != nil {
		return err
	}
	return wantLost(all[0], want)
}

func wantLost(err error, lost bool) error {
	if errors.Is(err, idempotency.ErrLost) != lost || (err != nil && !lost) {
		return fmt.Errorf("got %v, want lost %v", err, lost)
	}
	return nil
}

// holderCall is Complete or Renew, by what its caller must hear.
type holderCall func(s *scene, c idempotency.Claim, wantLost bool) error

// held has the owner, or a stranger made of it, make a call about a row in a state.
func held(by holderCall, state idempotency.State, expires string, wantLost bool, change func(*idempotency.Claim)) func(*scene) error {
	return func(s *scene) error {
		if err := s.put(state, expires); err != nil {
			return err
		}
		c := idempotency.Claim{Scope: s.row.scope, Key: "k", Token: s.row.token, Attempt: theirs}
		if change != nil {
			change(&c)
		}
		before, err := s.store.Keys().Find(s.ctx, s.row.scope, "k")
		if err != nil {
			return err
		}
		if err := by(s, c, wantLost); err != nil {
			return err
		}
		after, err := s.store.Keys().Find(s.ctx, s.row.scope, "k")
		if err != nil {
			return err
		}
		if wantLost && (after.State != before.State || after.ExpiresIn > before.ExpiresIn) {
			return fmt.Errorf("it was %+v, and became %+v", before, after)
		}
		return s.neighbours()
	}
}

func holderGuards(statement string, by holderCall) []guard {
	const hour = "1 hour"
	return []guard{
		{name: statement + " of its scope", changes: []change{{statement, "scope = $1::text and", "$1::text <> '' and"}}, check: held(by, idempotency.InFlight, hour, false, nil)},
		{name: statement + " of its key", changes: []change{{statement, "and key = $2::text", "and $2::text <> ''"}}, check: held(by, idempotency.InFlight, hour, false, nil)},
		{
			name: statement + " with its token", changes: []change{{statement, "token = $3::bigint", "$3::bigint > 0"}},
			check: held(by, idempotency.InFlight, hour, true, func(c *idempotency.Claim) { c.Token++ }),
		},
		{
			name: statement + " by its attempt", changes: []change{{statement, "attempt = $4::text", "$4::text <> ''"}},
			check: held(by, idempotency.InFlight, hour, true, func(c *idempotency.Claim) { c.Attempt = "a stranger" }),
		},
	}
}

// holding has an attempt meet a transaction that has claimed the key: from the start, or from just before
// the statement called point. It must be told so, and not wait: the transaction goes on only afterwards.
func holding(by ask, point string) func(*scene) error {
	return func(s *scene) error {
		if err := s.put(idempotency.Free, "1 hour"); err != nil {
			return err
		}
		other, a := attempt("k"), attempt("k")
		other.Request, a.Request = s.request(), s.request()
		if point == "" {
			other.Request.Key, a.Request.Key = "new", "new"
		}
		return s.holder.Txns().Transact(s.ctx, txn.Options{}, func(ctx context.Context, tx pgx.Tx) error {
			var holds idempotency.Claimed
			var err error
			hold := func() { holds, err = s.holder.Keys().ClaimTx(ctx, tx, other) }
			if point == "" {
				hold()
			} else {
				s.store.SetHook(once(point, hold))
			}
			got, askErr := by(s, a)
			if err != nil || !holds.Won {
				return fmt.Errorf("the transaction does not hold the key: %+v, %v", holds, err)
			}
			if askErr != nil || got.Won || got.Record.State != idempotency.InFlight {
				return fmt.Errorf("%+v, %v; want in flight", got, askErr)
			}
			return nil
		})
	}
}

func lockGuards() []guard {
	const shared, exclusive = "pg_try_advisory_xact_lock_shared", "pg_try_advisory_xact_lock"
	held := func(lock, number string) (string, string) {
		return lock + "(" + number + "::bigint)", number + "::bigint is not null"
	}
	lock := func(name, statement, lock, number string, check func(*scene) error) guard {
		old, replacement := held(lock, number)
		return guard{name, []change{{statement, old, replacement}}, check, true}
	}
	return []guard{
		lock("claim.insert of an open key", "claim.insert", shared, "$8", holding(byClaim, "")),
		lock("claim.take of an open key", "claim.take", shared, "$8", holding(byClaim, "claim.take")),
		lock("claimtx.insert of an open key", "claimtx.insert", exclusive, "$8", holding(byClaimTx, "")),
		// claimtx.take asks again for a lock that its transaction has since claimtx.look.
		lock("intx.enter of an open key", "intx.enter", exclusive, "$2", holding(byInTx, "")),
	}
}

func guards() []guard {
	all := append(guardsOf(byClaim, "claim.take", "$11::bigint", "$12::bigint"),
		guardsOf(byClaimTx, "claimtx.take", "$11::bigint", "$12::bigint")...)
	all = append(all, guardsOf(byInTx, "intx.answer_over", "$12::bigint", "$13::bigint")...)
	all = append(append(all, lockGuards()...), lateGuards()...)
	all = append(all, holderGuards("complete", (*scene).ends)...)
	all = append(all, holderGuards("renew", (*scene).renews)...)
	all = append(all, holderGuards("step.save", (*scene).saves)...)
	all = append(all, stepGuards()...)
	all = append(all, answerGuards()...)
	all = append(all, windowGuards("claim.insert", byClaim)...)
	all = append(all, windowGuards("claimtx.insert", byClaimTx)...)
	all = append(all, sweepGuards()...)
	all = append(all, resolveGuards()...)
	all = append(all, listGuards()...)
	all = append(all, batchGuards()...)
	return append(
		all,
		guard{name: "complete what is not decided", changes: []change{{"complete", "and state in (1, 3)", ""}}, check: held((*scene).ends, idempotency.Done, "1 hour", true, nil)},
		guard{name: "complete what is unknown", changes: []change{{"complete", "and state in (1, 3)", "and state = 1"}}, check: held((*scene).ends, idempotency.Unknown, "1 hour", false, nil)},
		guard{name: "complete what has expired", changes: []change{{"complete", "and state in (1, 3)", "and expires > clock_timestamp()"}}, check: held((*scene).ends, idempotency.InFlight, "-1 second", false, nil)},
		guard{name: "renew what is in flight", changes: []change{{"renew", "and state = 1", ""}}, check: held((*scene).renews, idempotency.Unknown, "1 hour", true, nil)},
		guard{name: "renew what has not expired", changes: []change{{"renew", "and mine.expires > clock_timestamp()", ""}}, check: held((*scene).renews, idempotency.InFlight, "-1 second", true, nil)},
	)
}

func TestPostgresEveryConditionOfEveryGuardIsNeeded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, g := range guards() {
		t.Run(g.name, func(t *testing.T) {
			play := func(changes []change, max time.Duration) error {
				ctx, cancel := context.WithTimeout(t.Context(), max)
				defer cancel()
				return g.check(&scene{
					t: t, ctx: ctx, holder: b.Store,
					pool: func(sql string, args ...any) error {
						_, err := b.pool.Exec(t.Context(), sql, args...)
						return err
					},
					count: func(sql string, args ...any) (n int, err error) {
						err = b.pool.QueryRow(t.Context(), sql, args...).Scan(&n)
						return n, err
					},
					store: postgres.New(b.pool, postgres.Config{}).Break(breaking(t, changes)),
				})
			}
			if err := play(nil, patience); err != nil {
				t.Fatalf("with the condition: %v", err)
			}
			max := patience
			if g.waits {
				max = waitMax
			}
			err := play(g.changes, max)
			if err == nil {
				t.Fatal("without the condition nothing is noticed")
			}
			t.Logf("without it: %v", err)
		})
	}
}

package postgres_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/idempotency/idempotencytest"
	"github.com/fiftyhosts/fifty/internal/testenv"
	"github.com/fiftyhosts/fifty/store/postgres"
)

// change is one edit of the shipped SQL.
type change struct{ statement, old, new string }

// breaking makes changes; each must find its place.
func breaking(t *testing.T, changes []change) func(*postgres.Statements) {
	return func(sql *postgres.Statements) {
		for _, c := range changes {
			if !sql.Replace(c.statement, c.old, c.new) {
				t.Errorf("%s does not contain %q: plant the fault elsewhere", c.statement, c.old)
			}
			if c.statement == "sweep" && strings.Contains(c.new, paused) {
				// The pause may last: else it would be a lock that the sweep gives up on after a moment.
				sql.Replace("sweep.enter", sweepPatience, "('lock_timeout', '0')")
			}
		}
	}
}

// sweepPatience is how long a sweep waits for a lock.
const sweepPatience = "('lock_timeout', '100')"

// fault is a store that is broken on purpose: its SQL is the shipped one, but for the changes. Conditions
// that are dropped one at a time are in guards_test.go; here are whole mistakes, which the suite must
// notice by each of the cases in only.
type fault struct {
	name    string
	ddl     string
	changes []change
	wrap    func(postgres.Keys[pgx.Tx]) idempotency.Store
	only    []string
}

const (
	noKey   = `alter table fifty.keys drop constraint keys_pkey`
	upsert  = "on conflict (scope, key) do update set state = 1, token = keys.token + 1,\n\tattempt = excluded.attempt, owner = excluded.owner, expires = excluded.expires"
	locked  = "pg_try_advisory_xact_lock($2::bigint)"
	notHeld = "$2::bigint is not null" // that is: always
)

// readThenInsert looks, and writes whatever the look has not seen: between the two anything may happen.
type readThenInsert struct{ postgres.Keys[pgx.Tx] }

func (k readThenInsert) Claim(ctx context.Context, attempts []idempotency.Attempt) ([]idempotency.Claimed, error) {
	answers := make([]idempotency.Claimed, len(attempts))
	for i, a := range attempts {
		rec, err := k.Find(ctx, a.Request.Scope, a.Request.Key)
		switch {
		case err == nil && rec.State != idempotency.Free:
			answers[i] = idempotency.Claimed{Won: idempotency.Judge(rec, a) == idempotency.Mine, Record: rec}
		case err == nil || errors.Is(err, idempotency.ErrNotFound):
			all, err := k.Keys.Claim(ctx, attempts[i:i+1])
			if err != nil {
				return nil, err
			}
			answers[i] = all[0]
		default:
			return nil, err
		}
	}
	return answers, nil
}

var keyFaults = []fault{
	{
		name: "read, then insert", changes: []change{{"claim.insert", "on conflict do nothing", upsert}},
		wrap: func(k postgres.Keys[pgx.Tx]) idempotency.Store { return readThenInsert{k} },
		only: []string{"in every order one of two claims wins", "in every order one of two Do runs"},
	},
	{
		name: "in flight is taken for absent", changes: []change{{"claim.insert", "on conflict do nothing", upsert}},
		only: []string{"a duplicate sees the claim in flight and changes nothing", "in every order one of two claims wins"},
	},
	{
		name: "the scope is ignored", ddl: noKey + `; create unique index on fifty.keys (key)`,
		changes: []change{
			{"claim.look", "k.scope = $1::text", "$1::text <> ''"},
			{"claim.take", "scope = $1::text", "$1::text <> ''"},
			{"find", "k.scope = $1::text", "$1::text <> ''"},
			{"complete", "scope = $1::text", "$1::text <> ''"},
			{"renew", "scope = $1::text", "$1::text <> ''"},
		},
		only: []string{"one key in two scopes is two keys", "a claim of one scope has no say in another"},
	},
	{
		name: "nothing is unique", ddl: noKey,
		only: []string{"a duplicate sees the claim in flight and changes nothing", "in every order one of two claims wins"},
	},
	{
		name: "keys are folded to lower case", ddl: noKey + `; create unique index on fifty.keys (scope, lower(key))`,
		changes: []change{{"claim.look", "k.key = $2::text", "lower(k.key) = lower($2::text)"}},
		only:    []string{"keys are compared byte by byte"},
	},
	{
		name: "a takeover of whatever is there now",
		changes: []change{
			{"claim.take", "and token = $11::bigint and state = $12::bigint", "and $11::bigint > 0 and $12::bigint > 0"},
			{"claim.take", "and (state <> 1 or expires <= clock_timestamp())", ""},
		},
		only: []string{
			"in every order one of two takeovers wins", "in every order one of two claims on a free key wins",
			"in every order a takeover and the old owner's late result exclude each other",
			"in every order a takeover takes what it saw, and not what became of it",
		},
	},
	{
		name: "a renewal that revives", changes: []change{{"renew", "and mine.expires > clock_timestamp()", ""}},
		only: []string{"a renewal never revives a claim that has expired"},
	},
	{
		name:    "an unconditional completion",
		changes: []change{{"complete", "and token = $3::bigint and attempt = $4::text\n  and state in (1, 3)", "and $3::bigint > 0 and $4::text <> ''"}},
		only: []string{
			"an owner that was taken over can't renew or complete", "an answer that was given is never taken back",
			"in every order a takeover and the old owner's late result exclude each other",
		},
	},
	{
		name:    "a completion only before the expiry",
		changes: []change{{"complete", "and state in (1, 3)", "and state in (1, 3) and expires > clock_timestamp()"}},
		only:    []string{"a late result counts while nobody took over"},
	},
	{
		name: "a sweep that lets tokens fall", changes: []change{{"sweep", "then setval('\"fifty\".token_floor', d.token)", "then d.token"}},
		only: []string{"a key whose record was removed is new, without steps, and has a higher token"},
	},
	{
		name: "a sweep that leaves the steps", changes: []change{{"sweep", "where s.scope = k.scope and s.key = k.key\n)", "where false\n)"}},
		only: []string{
			"a key whose record was removed is new, without steps, and has a higher token",
			"an answer that is kept no longer leaves a tombstone, without answer and steps",
		},
	},
	{
		name: "a new key whatever its window", changes: []change{{"claim.insert", "coalesce(\n        $9::timestamptz", "true or coalesce(\n        $9::timestamptz"}},
		only: []string{"a new key outside its window is refused, and leaves nothing"},
	},
	{
		name: "a step of anybody's", changes: []change{{"step.save", "and token = $3::bigint and attempt = $4::text", "and $3::bigint > 0 and $4::text <> ''"}},
		only: []string{"an owner that was taken over saves no step"},
	},
	{
		name: "letting go that keeps the lease", changes: []change{{"complete", "case $5::smallint when 1", "case 0 when 1"}},
		only: []string{"a claim that was let go is taken at once by the next that can resume, and by no other"},
	},
}

var txFaults = []fault{
	{
		name: "the work before the claim", changes: []change{{"intx.lock", locked, notHeld}, {"intx.enter", locked, notHeld}},
		only: []string{"a duplicate of an InTx at work is told at once, or waits and gets the answer"},
	},
	{
		name: "an answer over another's",
		changes: []change{
			{"intx.lock", locked, notHeld},
			{"intx.enter", locked, notHeld},
			{"intx.answer", "$9::timestamptz)\n", "$9::timestamptz)\non conflict (scope, key) do update set body = excluded.body, attempt = excluded.attempt\n"},
		},
		only: []string{"in every order two InTx leave one effect and one answer"},
	},
	{
		name: "a refusal that keeps the work", changes: []change{{"claimtx.undo", "rollback to savepoint fifty_claim", "savepoint fifty_claim"}},
		only: []string{"DoTx undoes a refused work and keeps the refusal"},
	},
	{
		name: "a claim whose savepoint stays", changes: []change{{"claimtx.release", "release savepoint fifty_claim", "savepoint fifty_left"}},
		only: []string{"a DoTx within the work of another shares its fate"},
	},
	{
		name: "a savepoint that undoes nothing", changes: []change{{"savepoint.undo", "rollback to savepoint fifty_savepoint", "savepoint fifty_savepoint"}},
		only: []string{"a savepoint that fails is undone, and the rest of the transaction stays usable"},
	},
}

// planted is a database for the fault.
func (f fault) planted(t *testing.T) harness {
	t.Helper()
	h := newHarness(t, testenv.Postgres(t).Database(t))
	if f.ddl != "" {
		if _, err := h.watch.Exec(t.Context(), f.ddl); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

func (f fault) caughtBy(t *testing.T, got []string) {
	t.Helper()
	slices.Sort(got)
	want := slices.Sorted(slices.Values(f.only))
	if !slices.Equal(got, want) {
		t.Errorf("noticed by %q, want by %q", got, want)
	}
}

func TestPostgresSuiteCatchesEveryPlantedFault(t *testing.T) {
	t.Parallel()
	for _, f := range keyFaults {
		t.Run(f.name, func(t *testing.T) {
			h := f.planted(t)
			newTx := h.pgx(newPool(t, h.url), breaking(t, f.changes))
			newStore := func(tb testing.TB, hook idempotencytest.Hook) idempotency.Store {
				store := newTx(tb, hook).Store
				if f.wrap != nil {
					store = f.wrap(store.(postgres.Keys[pgx.Tx])).(idempotency.TxStore[pgx.Tx])
				}
				return store
			}
			f.caughtBy(t, idempotencytest.Catch(t, newStore, h.features(), f.only...))
		})
	}
}

func TestPostgresSuiteCatchesEveryPlantedFaultInTransactions(t *testing.T) {
	t.Parallel()
	for _, f := range txFaults {
		t.Run(f.name, func(t *testing.T) {
			h := f.planted(t)
			newTx := h.pgx(newPool(t, h.url), breaking(t, f.changes))
			f.caughtBy(t, idempotencytest.CatchTx(t, newTx, h.features(), f.only...))
		})
	}
}

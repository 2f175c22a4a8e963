package postgres_test

import (
	"testing"

	"github.com/fiftyhosts/fifty/idempotency"
)

// What a host of the version before sends, written out as it was: during a rolling upgrade it works on the
// tables of this version, beside hosts of this version.
const (
	oldInsert = `
insert into fifty.keys (scope, key, fingerprint, state, token, attempt, owner, resume, expires)
select $1::text, $2::text, $3::bytea, 1, 1, $4::text, $5::text, $6::boolean,
       clock_timestamp() + $7::bigint * interval '1 microsecond'
where pg_try_advisory_xact_lock_shared($8::bigint)
on conflict do nothing
returning token`

	oldTake = `
update fifty.keys
set fingerprint = $3::bytea, state = 1, token = token + 1, attempt = $4::text, owner = $5::text,
    resume = $6::boolean, expires = clock_timestamp() + $7::bigint * interval '1 microsecond',
    status = null, header = null, body = null, not_replayable = false, changed = clock_timestamp()
where scope = $1::text and key = $2::text
  and token = $9::bigint and state = $10::bigint
  and (state <> 1 or expires <= clock_timestamp())
  and pg_try_advisory_xact_lock_shared($8::bigint)
returning token`

	oldRenew = `
with mine as materialized (
    select scope, key, expires
    from fifty.keys
    where scope = $1::text and key = $2::text
      and token = $3::bigint and attempt = $4::text
      and state = 1
    for update
)
update fifty.keys k
set expires = clock_timestamp() + $5::bigint * interval '1 microsecond', changed = clock_timestamp()
from mine
where k.scope = mine.scope and k.key = mine.key
  and mine.expires > clock_timestamp()`

	oldComplete = `
update fifty.keys
set state = $5::smallint, status = $6::integer, header = $7::bytea, body = $8::bytea,
    not_replayable = $9::boolean, changed = clock_timestamp()
where scope = $1::text and key = $2::text
  and token = $3::bigint and attempt = $4::text
  and state in (1, 3)`

	oldFind = `
select coalesce(k.state, 0)::bigint, coalesce(k.token, 0), coalesce(k.fingerprint, ''), coalesce(k.attempt, ''),
       coalesce(k.owner, ''), coalesce(k.resume, false),
       coalesce((extract(epoch from k.expires - clock_timestamp()) * 1000000)::bigint, 0),
       coalesce(k.status, 0)::bigint, k.header, k.body, coalesce(k.not_replayable, false)
from fifty.keys k
where k.scope = $1::text and k.key = $2::text`

	oldAnswer = `
insert into fifty.keys
    (scope, key, fingerprint, state, token, attempt, owner, resume, status, header, body, not_replayable)
values
    ($1::text, $2::text, $3::bytea, 2, 1, $4::text, $5::text, $6::boolean, $7::integer, $8::bytea, $9::bytea, $10::boolean)`

	oldAnswerOver = `
update fifty.keys
set fingerprint = $3::bytea, state = 2, token = token + 1, attempt = $4::text, owner = $5::text,
    resume = $6::boolean, expires = null, status = $7::integer, header = $8::bytea, body = $9::bytea,
    not_replayable = $10::boolean, changed = clock_timestamp()
where scope = $1::text and key = $2::text
  and token = $11::bigint and state = $12::bigint
  and (state <> 1 or expires <= clock_timestamp() or attempt = $4::text)
returning token`
)

func TestPostgresHostOfTheVersionBeforeWorksBesideThisOne(t *testing.T) {
	t.Parallel()
	b := setup(t)
	hour := int64(3600_000_000)
	insert := func(key string) {
		t.Helper()
		b.exec(t, oldInsert, "acme", key, []byte(request(key).Fingerprint), "old "+key, "old host", true, hour, b.LockNumber("acme", key))
	}
	wantState := func(key string, state idempotency.State, token int64) idempotency.Record {
		t.Helper()
		rec, err := b.Keys().Find(t.Context(), "acme", key)
		if err != nil || rec.State != state || rec.Token != token {
			t.Fatalf("%q: %+v, %v", key, rec, err)
		}
		var oldState, oldToken int64
		ignored := make([]any, 9)
		for i := range ignored {
			ignored[i] = new(any)
		}
		if err := b.pool.QueryRow(t.Context(), oldFind, "acme", key).Scan(append([]any{&oldState, &oldToken}, ignored...)...); err != nil || oldState != int64(state) || oldToken != token {
			t.Fatalf("%q, as the old host reads it: %d, %d, %v", key, oldState, oldToken, err)
		}
		return rec
	}

	insert("claimed")
	wantState("claimed", idempotency.InFlight, 1)
	b.exec(t, oldRenew, "acme", "claimed", 1, "old claimed", 2*hour)
	b.exec(t, oldComplete, "acme", "claimed", 1, "old claimed", 2, 201, nil, []byte("old"), false)
	if rec := wantState("claimed", idempotency.Done, 1); string(rec.Response.Body) != "old" {
		t.Errorf("%+v", rec)
	}
	b.exec(t, oldAnswer, "acme", "in tx", []byte(request("k").Fingerprint), "old in tx", "old host", false, 201, nil, []byte("old"), false)
	wantState("in tx", idempotency.Done, 1)

	// A claim of the old host is taken over here, with steps, and one of ours there.
	insert("old owner")
	b.exec(t, `update fifty.keys set expires = clock_timestamp() where key = 'old owner'`)
	if taken := claim(t, b.Keys(), resumable("old owner")); !taken.Won || taken.Record.Token != 2 {
		t.Errorf("%+v", taken)
	}
	saveStep(t, b.Keys(), b.vanished(t, "our owner"), "charge")
	b.exec(t, oldTake, "acme", "our owner", []byte(request("k").Fingerprint), "old", "old host", true, hour, b.LockNumber("acme", "our owner"), 1, 1)
	if rec := wantState("our owner", idempotency.InFlight, 2); stepNames(rec) != "charge" {
		t.Errorf("%+v", rec)
	}
	ours := claim(t, b.Keys(), timed("free", 0))
	if err := complete(t, b.Keys(), idempotency.Completion{Claim: claimOf(ours.Record), State: idempotency.Free}); err != nil {
		t.Fatal(err)
	}
	b.exec(t, oldAnswerOver, "acme", "free", []byte(request("k").Fingerprint), "old", "old host", false, 201, nil, []byte("old"), false, 1, 4)
	wantState("free", idempotency.Done, 2)

	// What the old host left is swept, and its tombstones are read there.
	b.exec(t, `update fifty.keys set created = created - interval '2 days', changed = changed - interval '2 days'`)
	if n := b.sweep(t); n != 3 {
		t.Errorf("swept %d, want 3", n)
	}
	wantState("claimed", idempotency.Tombstone, 1)
	insert("claimed") // a duplicate there
	wantState("claimed", idempotency.Tombstone, 1)
}

package postgres_test

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
)

// aboutKeys is the subject of the sweep over keys.
func aboutKeys[Tx any]() subject[Tx] {
	return subject[Tx]{
		tables: trailTables, snapshot: keysSnapshot, usual: []error{idempotency.ErrInFlight}, delays: true,
		sound: func(c *cut[Tx]) error {
			if err := c.trail(); err != nil {
				return err
			}
			return c.notPoisoned()
		},
	}
}

// trailTables are what a sweep counts effects in, and a trail of all that becomes of any key.
const trailTables = `
create table ledger (key text not null, run text not null);
create table peer (step text primary key, run text not null);
create table trail (
    id          bigint generated always as identity,
    key         text,
    was_token   bigint,
    token       bigint,
    was_attempt text,
    attempt     text,
    was_state   smallint,
    state       smallint,
    was_body    bytea,
    body        bytea
);
create function leave_trail() returns trigger language plpgsql as $$
begin
    insert into trail (key, was_token, token, was_attempt, attempt, was_state, state, was_body, body)
    values (coalesce(new.key, old.key), old.token, new.token, old.attempt, new.attempt, old.state, new.state, old.body, new.body);
    return null;
end $$;
create trigger trail after insert or update or delete on fifty.keys
    for each row execute function leave_trail();
`

// What no key may have on its trail: a token that shrinks, also over the removal of its record; another owner
// under the same token; an answer that is taken back, replaced or given twice; two records at once.
const trailFaults = `
with steps as (
    select t.*, max(token) over (partition by key order by id rows between unbounded preceding and 1 preceding) as highest
    from trail t
    where starts_with(t.key, $1)
)
select coalesce(string_agg(fault, ', '), '')
from (
    select 'a token shrank' as fault from steps where token < highest
    union all
    select 'a new owner has an old token' from steps where token <= highest and attempt <> was_attempt
    union all
    select 'a record was made twice' from steps where was_token is null and token <= highest
    union all
    select 'an answer was taken back' from steps where was_state = 2 and state not in (2, 5)
    union all
    select 'an answer was replaced' from steps where was_state = 2 and state = 2 and was_body is distinct from body
    union all
    select 'answered twice' from (select key from steps where state = 2 and was_state is distinct from 2 group by key having count(*) > 1) twice
    union all
    select 'two records' from (select key from fifty.keys where starts_with(key, $1) group by key having count(*) > 1) two
) faults`

func (c *cut[Tx]) trail() error {
	var faults string
	if err := c.pool.QueryRow(c.ctx, trailFaults, c.key).Scan(&faults); err != nil {
		return err
	}
	if faults != "" {
		return broken("the trail of the key: %s", faults)
	}
	return nil
}

// keysSnapshot is all that there is of the key, its steps, effects and decisions.
const keysSnapshot = `
select coalesce(string_agg(line, e'\n' order by line), '')
from (
    select 'key ' || k::text as line from fifty.keys k where starts_with(k.key, $1)
    union all select 'step ' || s::text from fifty.steps s where starts_with(s.key, $1)
    union all select 'decision ' || a::text from fifty.audit a where starts_with(a.key, $1)
    union all select 'effect ' || l::text from ledger l where starts_with(l.key, $1)
) lines`

// snapshot is all that there is of the point.
func (c *cut[Tx]) snapshot() (all string, err error) {
	err = c.pool.QueryRow(c.ctx, c.about.snapshot, c.key).Scan(&all)
	return all, err
}

// untilPartlyDone waits until the server has executed what it got of a request whose end is held. If that has
// failed, the server waits for the end as if it had got nothing: then it is believed when it has waited for long.
func (c *cut[Tx]) untilPartlyDone() error {
	const long = 50
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for idle := 0; ; <-tick.C {
		var state string
		err := c.pool.QueryRow(c.ctx, `
			select coalesce(min(state) filter (where wait_event = 'ClientRead'), '')
			from pg_stat_activity
			where datname = current_database() and application_name = $1`, cutHost).Scan(&state)
		if idle++; state != "idle" {
			idle = 0
		}
		if err != nil || state == "active" || idle == long {
			return err
		}
	}
}

// until waits until sql, which reads a boolean, is true.
func (c *cut[Tx]) until(sql string, args ...any) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		var yes bool
		if err := c.pool.QueryRow(c.ctx, sql, args...).Scan(&yes); err != nil || yes {
			return err
		}
		select {
		case <-tick.C:
		case <-c.ctx.Done():
			return fmt.Errorf("it never became true: %s: %w", sql, c.ctx.Err())
		}
	}
}

// settled waits until all have been heard, or until one of them waits for a lock of somebody who waits for
// words from its host: of a zombie that has a part of its request. It says whether all have been heard.
func (c *cut[Tx]) settled(all []*(<-chan said)) (bool, error) {
	const twice = 2 // once may be a neighbour that is just about to go on
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for seen := 0; seen < twice; {
		open := 0
		for _, done := range all {
			select {
			case s := <-*done:
				*done = already(s)
			default:
				open++
			}
		}
		if open == 0 {
			return true, nil
		}
		var blocked bool
		err := c.pool.QueryRow(c.ctx, `
			select exists (
				select from pg_stat_activity a
				join pg_stat_activity holder on holder.pid = any (pg_blocking_pids(a.pid))
				where a.datname = current_database() and a.wait_event_type = 'Lock' and holder.wait_event = 'ClientRead'
			)`).Scan(&blocked)
		if err != nil {
			return false, err
		}
		if seen++; !blocked {
			seen = 0
		}
		select {
		case <-tick.C:
		case <-c.ctx.Done():
			return false, fmt.Errorf("nobody waits for a lock, and nobody comes to an end: %w", c.ctx.Err())
		}
	}
	return false, nil
}

// runs numbers the runs of a point's function, on whichever host, so that each has an answer of its own.
type runs struct {
	mu sync.Mutex
	n  int
}

func (r *runs) next() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n++
	return "run " + strconv.Itoa(r.n)
}

func (r *runs) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n
}

// notPoisoned finds each key of the point answered, or open: after the lease somebody can take it over, or an
// operator can free it. Whoever has it then has a higher token than any before.
func (c *cut[Tx]) notPoisoned() error {
	keys, err := c.pool.Query(c.ctx, `select distinct key from trail where starts_with(key, $1)`, c.key)
	if err != nil {
		return err
	}
	var names []string
	for keys.Next() {
		var name string
		if err := keys.Scan(&name); err != nil {
			return err
		}
		names = append(names, name)
	}
	if err := keys.Err(); err != nil {
		return err
	}
	for _, name := range names {
		if err := c.notPoisonedKey(name); err != nil {
			return err
		}
	}
	return nil
}

func (c *cut[Tx]) notPoisonedKey(name string) error {
	var highest int64
	if err := c.pool.QueryRow(c.ctx, `select coalesce(max(token), 0) from trail where key = $1`, name).Scan(&highest); err != nil {
		return err
	}
	keys := c.second.Keys()
	rec, err := keys.Find(c.ctx, "acme", name)
	switch {
	case errors.Is(err, idempotency.ErrNotFound):
	case err != nil:
		return err
	case rec.State == idempotency.Done, rec.State == idempotency.Tombstone:
		return nil
	case rec.State == idempotency.InFlight:
		if err := c.expire(name); err != nil {
			return err
		}
	}
	a := resumable(name)
	if rec.State == idempotency.Unknown || rec.State == idempotency.InFlight && !rec.Resume {
		r := idempotency.Resolution{Scope: "acme", Key: name, Token: rec.Token, By: "ana", Note: "nothing happened"}
		if err := idempotency.NewOperator(keys).Resolve(c.ctx, r); err != nil {
			return broken("an operator can't free the key: %w", err)
		}
	}
	all, err := keys.Claim(c.ctx, []idempotency.Attempt{a})
	if err != nil || !all[0].Won || all[0].Record.Token <= highest {
		return broken("the key is poisoned: it was %+v, and a claim gets %+v, %v", rec, all, err)
	}
	return nil
}

// expire lets the lease of a key run out.
func (c *cut[Tx]) expire(key string) error {
	_, err := c.pool.Exec(c.ctx, `update fifty.keys set expires = clock_timestamp() where key = $1 and state = 1`, key)
	return err
}

package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/internal/wall"
)

var _ idempotency.OperatorStore = Keys{}

// List returns records; see idempotency.OperatorStore. Like Find it waits for no writer, but for the first
// time that it sees a claim to have expired.
func (k Keys) List(ctx context.Context, f idempotency.Filter) ([]idempotency.Record, error) {
	s := k.store
	all, seen, err := s.list(ctx, f, s.clock.now(0))
	if err != nil || seen == 0 || s.nested(ctx) {
		return all, err
	}
	err = s.write(ctx, "list", func(ctx context.Context, tx *sql.Tx) error {
		t, err := s.instant(ctx, tx, "list")
		if err != nil {
			return err
		}
		t.see(seen)
		return t.keep(ctx)
	})
	if err != nil {
		return nil, err
	}
	// An owner may have renewed before that. From here on none can, so what is listed as expired stays so.
	all, _, err = s.list(ctx, f, 0)
	return all, err
}

// list lists records by the time now, or by the file's if that is later. seen is the latest expiry that was
// judged and is not written down yet.
func (s *Store) list(ctx context.Context, f idempotency.Filter, now int64) (all []idempotency.Record, seen int64, err error) {
	st, scope, key := s.sql.list, f.AfterScope, f.AfterKey
	if f.Scope != "" {
		switch {
		case f.AfterScope > f.Scope:
			return nil, 0, nil
		case f.AfterScope < f.Scope:
			key = ""
		}
		st, scope = s.sql.listScope, f.Scope
	}
	err = s.read(ctx, "list", func(r row) error {
		var mark int64
		var scope, key string
		found, err := scan(r, "", "", &mark, &scope, &key)
		if err != nil {
			return err
		}
		found.Request.Scope, found.Request.Key = scope, key
		rec := found.record(max(now, mark))
		if rec.Expired() && found.expires > mark {
			seen = max(seen, found.expires)
		}
		all = append(all, rec)
		return nil
	}, st, scope, key, f.Unresolved, now, micros(f.OlderThan), max(f.Limit, 0))
	return all, seen, err
}

// Resolve decides a key; see idempotency.OperatorStore.
func (k Keys) Resolve(ctx context.Context, r idempotency.Resolution) error {
	state, response := idempotency.Free, idempotency.Response{}
	if r.Response != nil {
		state, response = idempotency.Done, *r.Response
	}
	header, err := encodeHeader(response.Header)
	if err != nil {
		return fmt.Errorf("sqlite: resolve: header: %w", err)
	}
	var refused error
	err = k.store.write(ctx, "resolve", func(ctx context.Context, tx *sql.Tx) error {
		t, err := k.store.instant(ctx, tx, "resolve")
		if err != nil {
			return err
		}
		found, there, err := t.look(ctx, idempotency.Request{Scope: r.Scope, Key: r.Key})
		if err != nil {
			return err
		}
		if !there {
			return fmt.Errorf("sqlite: resolve: %w", idempotency.ErrNotFound)
		}
		// Linearization point: the update, which only an undecided record fits. The owner's token and attempt
		// are gone, so its completion, should it come, is refused; should it have come, this is.
		n, err := t.exec(ctx, t.store.sql.decide, r.Scope, r.Key, r.Token, t.now,
			state, response.Status, header, response.Body, response.NotReplayable)
		if err != nil {
			return err
		}
		if n == 0 {
			refused = &idempotency.DecidedError{Record: found.record(t.now)}
			return t.keep(ctx)
		}
		_, err = t.exec(ctx, t.store.sql.audit, r.Scope, r.Key, t.now, r.By, r.Note, found.State, state, found.Token+1)
		if err != nil {
			return err
		}
		if state == idempotency.Free {
			if err := t.unstep(ctx, keyID{r.Scope, r.Key}); err != nil {
				return err
			}
		}
		return t.keep(ctx)
	})
	if err != nil {
		return err
	}
	return refused
}

// Audit returns decisions; see idempotency.OperatorStore.
func (k Keys) Audit(ctx context.Context, scope, key string) (all []idempotency.Decision, err error) {
	err = k.store.read(ctx, "audit", func(r row) error {
		var d idempotency.Decision
		var at int64
		err := r.Scan(&at, &d.By, &d.Note, &d.From, &d.To, &d.Token)
		d.At = time.UnixMicro(at).UTC()
		all = append(all, d)
		return err
	}, k.store.sql.audited, scope, key)
	if err != nil {
		return nil, err
	}
	return all, nil
}

// Erase takes answers away; see idempotency.OperatorStore. It looks for them without the write lock, and takes it
// for as much at a time as a sweep does. A record that is only completed while it runs may be left for the next call.
//
// SQLite leaves what was erased in the file's free pages, and in its log, until something else is written
// there. To be rid of it at once run VACUUM and PRAGMA wal_checkpoint(TRUNCATE) on DB, in a quiet hour.
func (k Keys) Erase(ctx context.Context, scope string, limit int) (erased int, err error) {
	var took time.Duration
	for after := ""; erased < limit; {
		if err := pause(ctx, took); err != nil {
			return erased, explain("erase", err)
		}
		keys, err := k.store.erasable(ctx, scope, after, min(limit-erased, batchRecords))
		if err != nil || len(keys) == 0 {
			return erased, err
		}
		var n int
		n, took, err = k.store.erase(ctx, keys)
		erased += n
		if err != nil {
			return erased, err
		}
		after = keys[len(keys)-1].key
	}
	return erased, nil
}

// erasable returns the next keys of a scope that have something to erase.
func (s *Store) erasable(ctx context.Context, scope, after string, limit int) ([]keyID, error) {
	var next batch
	err := s.read(ctx, "erase", func(r row) error {
		id := keyID{scope: scope}
		var size int64
		err := r.Scan(&id.key, &size)
		next.add(id, size)
		return err
	}, s.sql.erasable, scope, after, limit)
	return next.keys, err
}

// erase takes the answers of keys away, in one transaction, and returns how many still had one, and how long it
// had the file.
func (s *Store) erase(ctx context.Context, keys []keyID) (erased int, took time.Duration, err error) {
	var began time.Time
	err = s.tidy(ctx, "erase", func(ctx context.Context, tx *sql.Tx) error {
		began = wall.Now()
		x := s.session(tx, "erase")
		for _, id := range keys {
			// Linearization point: the update, on the condition that the record is done now.
			n, err := x.exec(ctx, s.sql.erase, id.scope, id.key)
			if err != nil {
				return err
			}
			if n == 0 {
				continue
			}
			erased++
			if err := x.unstep(ctx, id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, 0, err
	}
	return erased, wall.Since(began), nil
}

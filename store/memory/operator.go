package memory

import (
	"cmp"
	"context"
	"slices"

	"github.com/fiftyhosts/fifty/idempotency"
)

var _ idempotency.OperatorStore = Keys{}

// List returns records; see idempotency.OperatorStore.
func (k Keys) List(ctx context.Context, f idempotency.Filter) ([]idempotency.Record, error) {
	if err := k.store.step(ctx, "list"); err != nil {
		return nil, err
	}
	k.store.mu.Lock()
	defer k.store.mu.Unlock()
	now := k.store.moment()
	var all []idempotency.Record
	after := keyID{f.AfterScope, f.AfterKey}
	for id, e := range k.store.keys {
		if !e.recorded() || (f.Scope != "" && id.scope != f.Scope) || compareIDs(id, after) <= 0 {
			continue
		}
		rec := e.rec.record(now)
		if (f.Unresolved && !unresolved(rec)) || rec.Age < f.OlderThan {
			continue
		}
		all = append(all, rec)
	}
	slices.SortFunc(all, func(a, b idempotency.Record) int { return compareIDs(idOf(a.Request), idOf(b.Request)) })
	return all[:min(len(all), f.Limit)], nil
}

func compareIDs(a, b keyID) int {
	return cmp.Or(cmp.Compare(a.scope, b.scope), cmp.Compare(a.key, b.key))
}

// unresolved says that a person may decide.
func unresolved(rec idempotency.Record) bool {
	return rec.State == idempotency.Unknown || rec.Expired()
}

// Resolve decides a key; see idempotency.OperatorStore.
func (k Keys) Resolve(ctx context.Context, r idempotency.Resolution) error {
	if err := k.store.step(ctx, "resolve"); err != nil {
		return err
	}
	s, id := k.store, keyID{r.Scope, r.Key}
	if err := s.lockSettled(ctx, 1, func(int) keyID { return id }); err != nil {
		return err
	}
	defer s.mu.Unlock()
	now := s.now()
	e := s.keys[id]
	if !e.recorded() {
		return idempotency.ErrNotFound
	}
	if rec := e.rec.record(s.at(now)); !unresolved(rec) || (r.Token != 0 && r.Token != rec.Token) {
		return &idempotency.DecidedError{Record: rec}
	}
	// Linearization point: the decision under the mutex. The owner's token and attempt are gone, so its
	// completion, should it come, is refused.
	from, decided := e.rec.State, &e.rec
	decided.Token, decided.Attempt, decided.changed = decided.Token+1, "", s.at(now)
	if r.Response != nil {
		decided.State, decided.Response = idempotency.Done, clone(*r.Response)
	} else {
		decided.State, decided.Steps = idempotency.Free, nil
	}
	s.ended(e)
	s.decisions[id] = append(s.decisions[id], idempotency.Decision{
		At: now, By: r.By, Note: r.Note, From: from, To: decided.State, Token: decided.Token,
	})
	return nil
}

// Erase takes answers away; see idempotency.OperatorStore.
func (k Keys) Erase(ctx context.Context, scope string, limit int) (erased int, err error) {
	if err := k.store.step(ctx, "erase"); err != nil {
		return 0, err
	}
	k.store.mu.Lock()
	defer k.store.mu.Unlock()
	for id, e := range k.store.keys {
		if erased == limit {
			break
		}
		if id.scope != scope || !e.recorded() || e.rec.State != idempotency.Done || bare(e.rec.Record) {
			continue
		}
		e.rec.Response, e.rec.Steps = idempotency.Response{Status: e.rec.Response.Status, NotReplayable: true}, nil
		erased++
	}
	return erased, nil
}

// bare says that nothing is left to erase: an answer that was not kept may have left steps all the same.
func bare(rec idempotency.Record) bool { return rec.Response.NotReplayable && len(rec.Steps) == 0 }

// Audit returns decisions; see idempotency.OperatorStore.
func (k Keys) Audit(ctx context.Context, scope, key string) ([]idempotency.Decision, error) {
	if err := k.store.step(ctx, "audit"); err != nil {
		return nil, err
	}
	k.store.mu.Lock()
	defer k.store.mu.Unlock()
	return slices.Clone(k.store.decisions[keyID{scope, key}]), nil
}

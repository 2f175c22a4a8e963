package memory

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/txn"
)

// Keys keeps the records of idempotency keys. It is safe for concurrent use.
type Keys struct{ store *Store }

// Keys returns the store's idempotency keys.
func (s *Store) Keys() Keys { return Keys{s} }

var _ idempotency.TxStore[*Tx] = Keys{}

type keyID struct{ scope, key string }

// entry is one key: its committed record, if any, and the transaction that has claimed it, if any. It is read
// and written with the store locked.
type entry struct {
	rec stored
	tx  *Tx
}

// recorded says that the key has a committed record.
func (e *entry) recorded() bool { return e != nil && e.rec.State != 0 }

// stored is a record with its times by the store's clock. The steps, the header and the bodies
// that it refers to are never changed, only replaced.
type stored struct {
	idempotency.Record
	expires moment
	created moment // first claimed
	changed moment // came into its state
	made    moment // of a time-ordered key
}

func (r *stored) record(now moment) (rec idempotency.Record) {
	r.read(&rec, now)
	return rec
}

// read is record in place.
func (r *stored) read(rec *idempotency.Record, now moment) {
	*rec = r.Record
	rec.Age, rec.ExpiresIn = time.Duration(now-r.created), 0
	if rec.State == idempotency.InFlight {
		rec.ExpiresIn = time.Duration(r.expires - now)
	}
	rec.Response = clone(rec.Response)
	rec.Steps = slices.Clone(rec.Steps)
	for i := range rec.Steps {
		rec.Steps[i].Result = bytes.Clone(rec.Steps[i].Result)
	}
}

func clone(r idempotency.Response) idempotency.Response {
	r.Body = bytes.Clone(r.Body)
	if r.Header != nil {
		header := make(map[string][]string, len(r.Header))
		for name, values := range r.Header {
			header[name] = slices.Clone(values)
		}
		r.Header = header
	}
	return r
}

func idOf(r idempotency.Request) keyID { return keyID{r.Scope, r.Key} }

func ofClaim(c idempotency.Claim) keyID { return keyID{c.Scope, c.Key} }

// claim makes rec what a gets when it wins, with one token more than the key ever had. The store is locked.
func (s *Store) claim(rec *stored, a *idempotency.Attempt, now moment) {
	if rec.State == 0 { // new
		rec.Token, rec.created = s.tokenFloor, now
	}
	rec.Request, rec.State, rec.Token = a.Request, idempotency.InFlight, rec.Token+1
	rec.Attempt, rec.Owner, rec.Resume = a.ID, a.Owner, a.Resume
	rec.Response = idempotency.Response{}
	rec.expires, rec.changed, rec.made = now+moment(a.Lease), now, s.at(a.Made)
}

// Claim decides for each attempt; see idempotency.Store.
func (k Keys) Claim(ctx context.Context, attempts []idempotency.Attempt) ([]idempotency.Claimed, error) {
	if err := k.store.step(ctx, "claim"); err != nil {
		return nil, err
	}
	k.store.mu.Lock()
	defer k.store.mu.Unlock()
	answers := make([]idempotency.Claimed, len(attempts))
	for i := range attempts {
		k.claim(&attempts[i], &answers[i])
	}
	return answers, nil
}

// claim decides for one attempt. The store is locked.
func (k Keys) claim(a *idempotency.Attempt, answer *idempotency.Claimed) {
	now := k.store.now()
	e, won := k.look(a, now, answer)
	if !won {
		return
	}
	// Linearization point: the put under the mutex. A later caller finds this record and is a duplicate.
	at := k.store.at(now)
	k.store.claim(&e.rec, a, at)
	answer.Won = true
	e.rec.read(&answer.Record, at)
}

// look says whether a may take its key; if so its entry is there and nothing else has changed. If not, found
// is the answer. The store is locked, so what it saw stays true until the caller has acted on it.
func (k Keys) look(a *idempotency.Attempt, now time.Time, found *idempotency.Claimed) (e *entry, take bool) {
	id := idOf(a.Request)
	e = k.store.keys[id]
	switch {
	case e == nil:
		if found.Err = a.CheckWindow(now); found.Err != nil {
			return nil, false
		}
		e = &entry{}
		k.store.keys[id] = e
		return e, true
	case e.tx != nil:
		// Nobody knows yet what the transaction will leave, not even the fingerprint.
		found.Record = idempotency.Record{Request: a.Request, State: idempotency.InFlight, ExpiresIn: a.Lease}
		return e, false
	}
	e.rec.read(&found.Record, k.store.at(now))
	switch idempotency.Judge(found.Record, *a) {
	case idempotency.Take:
		if found.Record.State == idempotency.Free {
			found.Err = a.CheckWindow(now)
		}
		return e, found.Err == nil
	case idempotency.Mine:
		found.Won = true
	}
	return e, false
}

// owned returns the record if the claim is its owner's; the store is locked.
func (k Keys) owned(c idempotency.Claim) (*entry, bool) {
	e := k.store.keys[keyID{c.Scope, c.Key}]
	if !e.recorded() || e.rec.Token != c.Token || e.rec.Attempt != c.Attempt {
		return nil, false
	}
	return e, true
}

// Renew moves expiries; see idempotency.Store.
func (k Keys) Renew(ctx context.Context, claims []idempotency.Claim, lease time.Duration) ([]error, error) {
	if err := k.store.step(ctx, "renew"); err != nil {
		return nil, err
	}
	if err := k.store.lockSettled(ctx, len(claims), func(i int) keyID { return ofClaim(claims[i]) }); err != nil {
		return nil, err
	}
	defer k.store.mu.Unlock()
	now := k.store.moment()
	errs := make([]error, len(claims))
	for i, c := range claims {
		e, ok := k.owned(c)
		switch {
		case !ok || (e.rec.State != idempotency.InFlight && e.rec.State != idempotency.Unknown):
			errs[i] = &idempotency.LostError{Claim: c, Superseded: true}
		case e.rec.State == idempotency.Unknown || now >= e.rec.expires:
			errs[i] = &idempotency.LostError{Claim: c}
		default:
			// Linearization point: the new expiry, given only to a claim that has not expired.
			e.rec.expires = now + moment(lease)
		}
	}
	return errs, nil
}

// Complete ends claims; see idempotency.Store.
func (k Keys) Complete(ctx context.Context, completions []idempotency.Completion) ([]error, error) {
	if err := k.store.step(ctx, "complete"); err != nil {
		return nil, err
	}
	id := func(i int) keyID { return ofClaim(completions[i].Claim) }
	if err := k.store.lockSettled(ctx, len(completions), id); err != nil {
		return nil, err
	}
	defer k.store.mu.Unlock()
	errs := make([]error, len(completions))
	for i := range completions {
		c := &completions[i]
		e, ok := k.owned(c.Claim)
		switch {
		case ok && e.rec.State == c.State && c.State != idempotency.InFlight: // said before; its reply was lost
		case ok && (e.rec.State == idempotency.InFlight || e.rec.State == idempotency.Unknown):
			// Linearization point: the answer under the mutex, given only by the owner, expired or not.
			e.rec.complete(c, k.store.moment())
			k.store.ended(e)
		default:
			errs[i] = &idempotency.LostError{Claim: c.Claim, Superseded: true}
		}
	}
	return errs, nil
}

// ended remembers when a record that came into another state will be due for a sweep. The store is locked.
func (s *Store) ended(e *entry) {
	if e.rec.State == idempotency.Done || e.rec.State == idempotency.Free {
		s.due.add(turn{e: e, rec: e.rec.changed, at: e.rec.changed})
	}
}

// complete makes r what a completion says.
func (r *stored) complete(c *idempotency.Completion, now moment) {
	r.State, r.Response, r.changed = c.State, clone(c.Response), now
	if c.State == idempotency.InFlight && now < r.expires { // let go
		r.expires = now
	}
}

// SaveStep writes a step down; see idempotency.Store.
func (k Keys) SaveStep(ctx context.Context, c idempotency.Claim, step idempotency.StepRecord) error {
	if err := k.store.step(ctx, "save step"); err != nil {
		return err
	}
	if err := k.store.lockSettled(ctx, 1, func(int) keyID { return ofClaim(c) }); err != nil {
		return err
	}
	defer k.store.mu.Unlock()
	e, ok := k.owned(c)
	if !ok || e.rec.State != idempotency.InFlight {
		return &idempotency.LostError{Claim: c, Superseded: true}
	}
	step.Result = bytes.Clone(step.Result)
	// Linearization point: the step under the mutex, written only by the owner.
	steps := slices.Clone(e.rec.Steps)
	at := slices.IndexFunc(steps, func(s idempotency.StepRecord) bool { return s.Name == step.Name })
	switch {
	case at < 0:
		steps = append(steps, step)
	case len(step.Result) > 0 || len(steps[at].Result) == 0: // else it was held up: the result stands
		steps[at] = step
	}
	e.rec.Steps = steps
	return nil
}

// Find returns a record; see idempotency.Store.
func (k Keys) Find(ctx context.Context, scope, key string) (idempotency.Record, error) {
	if err := k.store.step(ctx, "find"); err != nil {
		return idempotency.Record{}, err
	}
	k.store.mu.Lock()
	defer k.store.mu.Unlock()
	e := k.store.keys[keyID{scope, key}]
	if !e.recorded() {
		return idempotency.Record{}, idempotency.ErrNotFound
	}
	return e.rec.record(k.store.moment()), nil
}

// Classify says what an error means; see Txns.Classify.
func (k Keys) Classify(err error) txn.Class { return k.store.Txns().Classify(err) }

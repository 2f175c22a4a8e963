package idempotencytest_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/idempotency/idempotencytest"
)

// How long a statement waits for a row that a transaction has changed: as long as it takes, or hardly,
// where a fault makes one wait in vain.
const (
	patient   = time.Minute
	impatient = 50 * time.Millisecond
)

var errLockWait = errors.New("reference: the row is locked")

// reference is a store that works as an SQL database does: each of its statements is atomic, and what
// lies between two of them is not. It is right unless it has a fault.
type reference struct {
	hook  idempotencytest.Hook
	bench *bench
	fault fault

	mu       sync.Mutex
	changed  *sync.Cond // a lock was let go
	rows     map[rowID]*row
	locks    map[rowID]*refTx
	effects  map[string]int
	floor    int64                              // no row that was deleted had a higher token
	orphans  map[rowID][]idempotency.StepRecord // steps whose row was deleted: only a fault leaves any
	audit    map[rowID][]idempotency.Decision
	passedBy map[rowID]*row // rows that a sweep found locked
}

type rowID struct{ scope, key string }

// row is never changed, only replaced.
type row struct {
	idempotency.Record
	expires time.Time
	created time.Time // first claimed
	changed time.Time // came into its state
	made    time.Time // of a time-ordered key
}

// bench is what all stores of a test share: a clock that only the test moves, and how many statements wait
// for a lock.
type bench struct {
	lockWait time.Duration // how long one may wait

	mu      sync.Mutex
	now     time.Time
	waiting int
}

func newBench(lockWait time.Duration) *bench {
	return &bench{lockWait: lockWait, now: time.Unix(1_000_000_000, 0)}
}

func (b *bench) features() idempotencytest.Features {
	return idempotencytest.Features{Advance: b.advance, Now: b.read, Blocked: b.blocked}
}

func (b *bench) read() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

func (b *bench) advance(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = b.now.Add(d)
}

func (b *bench) waits(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting += n
}

func (b *bench) blocked(context.Context) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting
}

func newReference(hook idempotencytest.Hook, b *bench, f fault) *reference {
	s := &reference{
		hook: hook, bench: b, fault: f,
		rows: map[rowID]*row{}, locks: map[rowID]*refTx{}, effects: map[string]int{},
		orphans: map[rowID][]idempotency.StepRecord{}, audit: map[rowID][]idempotency.Decision{},
		passedBy: map[rowID]*row{},
	}
	s.changed = sync.NewCond(&s.mu)
	return s
}

func (s *reference) has(f fault) bool { return s.fault == f }

// step is the instant before a statement.
func (s *reference) step(ctx context.Context, point string) error {
	s.hook(ctx, point)
	if s.has(contextIgnored) {
		return nil
	}
	return ctx.Err()
}

func (s *reference) now() time.Time {
	if s.has(hostsClock) {
		return time.Now()
	}
	return s.bench.read()
}

func (s *reference) id(scope, key string) rowID {
	switch s.fault {
	case scopeIgnored:
		scope = ""
	case keyFolded:
		key = strings.ToLower(key)
	case keyTrimmed:
		key = strings.TrimRight(key, " ")
	case scopeFolded:
		scope = strings.ToLower(scope)
	case runTogether:
		return rowID{key: scope + key}
	}
	return rowID{scope, key}
}

func (s *reference) idOf(c idempotency.Claim) rowID { return s.id(c.Scope, c.Key) }

// read is the record of a row as a statement gives it back.
func (s *reference) read(r *row) idempotency.Record {
	rec := r.Record
	rec.Age, rec.ExpiresIn = s.age(r), 0
	if rec.State == idempotency.InFlight {
		rec.ExpiresIn = r.expires.Sub(s.now())
		if s.has(zeroIsLive) && rec.ExpiresIn == 0 {
			rec.ExpiresIn = 1
		}
	}
	if !s.has(answerShared) {
		rec.Response = cloned(rec.Response)
	}
	rec.Steps = s.readSteps(rec.Steps)
	return rec
}

func cloned(r idempotency.Response) idempotency.Response {
	r.Body = bytes.Clone(r.Body)
	r.Header = maps.Clone(r.Header)
	for name, values := range r.Header {
		r.Header[name] = slices.Clone(values)
	}
	return r
}

// claimedBy is the row of a claim that a has won, after before.
func (s *reference) claimedBy(a idempotency.Attempt, before *row) *row {
	now := s.now()
	r := &row{Record: idempotency.Record{
		Request: a.Request, State: idempotency.InFlight, Token: s.floor + 1, Attempt: a.ID, Owner: a.Owner, Resume: a.Resume,
		Steps: s.orphans[s.id(a.Request.Scope, a.Request.Key)],
	}, expires: now.Add(s.lease(a.Lease)), created: now, changed: now, made: a.Made}
	if before == nil {
		return r
	}
	r.Token, r.Steps, r.created = before.Token+1, before.Steps, before.created
	switch {
	case s.has(ageOfOwner):
		r.created = now
	case s.has(stepsLostByTakeover) && before.State == idempotency.InFlight,
		s.has(stepsLostByFree) && before.State == idempotency.Free:
		r.Steps = nil
	case s.has(tokenKept), s.has(tokenRestarts) && before.State == idempotency.Free:
		r.Token = before.Token
	case s.has(oldFingerprintKept):
		r.Request.Fingerprint = before.Request.Fingerprint
	case s.has(oldAttemptKept):
		r.Attempt = before.Attempt
	case s.has(oldLeaseKept):
		r.expires = before.expires
	}
	return r
}

func (s *reference) lease(d time.Duration) time.Duration {
	switch s.fault {
	case leaseInSeconds:
		d = d.Truncate(time.Second)
	case zeroIsForEver:
		if d = d.Truncate(time.Millisecond); d == 0 {
			d = 1 << 60
		}
	case leaseTooLong:
		d *= 1000
	}
	return d
}

// judge is idempotency.Judge with the faults of those who wrote it themselves.
func (s *reference) judge(rec idempotency.Record, a idempotency.Attempt) idempotency.Verdict {
	switch {
	case s.has(inFlightAbsent) && rec.State == idempotency.InFlight,
		s.has(unknownAbsent) && rec.State == idempotency.Unknown,
		s.has(ownFreeTaken) && rec.State == idempotency.Free,
		s.has(ownExpiredTaken) && rec.Attempt == a.ID && (rec.Expired() || rec.State == idempotency.Unknown),
		s.has(expiredTaken) && rec.Expired():
		return idempotency.Take
	case s.has(freeClosed) && rec.State == idempotency.Free,
		s.has(mineForgotten) && rec.Attempt == a.ID:
		return idempotency.Answer
	case s.has(ownAnyIntent) && rec.Attempt == a.ID:
		return idempotency.Mine
	case s.has(unresumableTaken) && rec.Expired():
		rec.Resume = true
	case s.has(unresumableTakes) && rec.Expired():
		a.Resume = true
	case s.has(fingerprintIgnored):
		a.Request.Fingerprint = rec.Request.Fingerprint
	}
	return idempotency.Judge(rec, a)
}

// Claim decides for one attempt after the other.
func (s *reference) Claim(ctx context.Context, attempts []idempotency.Attempt) ([]idempotency.Claimed, error) {
	switch s.fault {
	case batchLooksOnce:
		return s.claimByOneLook(ctx, attempts)
	case locksInGivenOrder:
		return s.claimUnderLocks(ctx, attempts)
	}
	answers := make([]idempotency.Claimed, len(attempts))
	firsts := map[rowID]int{}
	for i, a := range attempts {
		var err error
		first, again := firsts[s.id(a.Request.Scope, a.Request.Key)]
		if !again {
			firsts[s.id(a.Request.Scope, a.Request.Key)] = i
		}
		if s.has(batchOneWindow) {
			a.Window = attempts[0].Window
		}
		switch {
		case again && s.has(batchFirstTells):
			answers[i] = idempotency.Claimed{Record: answers[first].Record}
		case again && s.has(batchAllWin):
			answers[i] = answers[first]
		case s.has(readThenInsert):
			answers[i], err = s.claimAfterLook(ctx, a)
		default:
			answers[i], err = s.claim(ctx, a, nil)
		}
		if err != nil {
			return nil, err
		}
	}
	switch {
	case s.has(batchReversed):
		slices.Reverse(answers)
	case s.has(batchErrShared):
		for _, a := range answers {
			if a.Err != nil {
				return slices.Repeat([]idempotency.Claimed{a}, len(answers)), nil
			}
		}
	}
	return answers, nil
}

// claim is insert, look and conditional update, by itself or in tx.
func (s *reference) claim(ctx context.Context, a idempotency.Attempt, tx *refTx) (idempotency.Claimed, error) {
	k := s.id(a.Request.Scope, a.Request.Key)
	const tries = 10
	for range tries {
		floor, err := s.floorAhead(ctx)
		if err != nil {
			return idempotency.Claimed{}, err
		}
		if err := s.step(ctx, "claim.insert"); err != nil {
			return idempotency.Claimed{}, err
		}
		if got, decided, err := s.insert(k, a, tx, floor); decided || err != nil {
			return got, err
		}
		if err := s.step(ctx, "claim.look"); err != nil {
			return idempotency.Claimed{}, err
		}
		rec, ok := s.look(k, tx)
		if !ok {
			continue
		}
		switch s.judge(rec, a) {
		case idempotency.Answer:
			if s.has(loserToldNothing) {
				rec = idempotency.Record{Request: a.Request, State: idempotency.InFlight, ExpiresIn: 1}
			}
			return idempotency.Claimed{Record: rec}, nil
		case idempotency.Mine:
			return idempotency.Claimed{Won: true, Record: rec}, nil
		}
		if err := s.step(ctx, "claim.take"); err != nil {
			return idempotency.Claimed{}, err
		}
		if got, decided, err := s.take(k, a, rec, tx); decided || err != nil {
			return got, err
		}
	}
	return idempotency.Claimed{}, errors.New("reference: the record keeps changing")
}

// insert wins when there is no row. It decides also when a transaction holds the key.
func (s *reference) insert(k rowID, a idempotency.Attempt, tx *refTx, floor int64) (idempotency.Claimed, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.heldBy(k, tx) {
		if s.has(duplicateWaits) || s.has(claimTxWaits) && tx != nil && !tx.own {
			return idempotency.Claimed{}, false, s.wait(k, tx)
		}
		told := idempotency.Record{Request: a.Request, State: idempotency.InFlight, ExpiresIn: a.Lease}
		if s.has(toldAsExpired) {
			told.ExpiresIn = 0
		}
		return idempotency.Claimed{Record: told}, true, nil
	}
	if s.row(k, tx) != nil {
		return idempotency.Claimed{}, false, nil
	}
	if err := s.checkWindow(a, tx, "insert"); err != nil {
		return s.refused(err)
	}
	won := s.claimedBy(a, nil)
	if floor >= 0 {
		won.Token = floor + 1
	}
	if !s.has(claimAfterWork) {
		s.put(k, won, tx)
	}
	return idempotency.Claimed{Won: true, Record: s.read(won)}, true, nil
}

func (s *reference) look(k rowID, tx *refTx) (idempotency.Record, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.has(looksInAnyScope) {
		for other := range s.rows {
			if other.key == k.key && other.scope < k.scope {
				k = other
			}
		}
	}
	r := s.row(k, tx)
	if r == nil {
		return idempotency.Record{}, false
	}
	return s.read(r), true
}

// take wins when the record is still what was seen of it.
func (s *reference) take(k rowID, a idempotency.Attempt, seen idempotency.Record, tx *refTx) (idempotency.Claimed, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.heldBy(k, tx) {
		return idempotency.Claimed{}, false, nil
	}
	r := s.row(k, tx)
	still := r != nil &&
		(r.Token == seen.Token || s.has(takesAnyToken)) &&
		(r.State == seen.State || s.has(takesAnyState)) &&
		(r.State != idempotency.InFlight || s.read(r).Expired() || s.has(inFlightAbsent))
	if s.has(takesBlindly) {
		still = r != nil
	}
	if !still {
		return idempotency.Claimed{}, false, nil
	}
	if r.State == idempotency.Free || s.has(windowOfAll) {
		if err := s.checkWindow(a, tx, "take"); err != nil {
			return s.refused(err)
		}
	}
	won := s.claimedBy(a, r)
	for _, other := range s.alike(k, r) {
		moved := *s.rows[other]
		moved.State, moved.Attempt, moved.Token, moved.expires = won.State, won.Attempt, won.Token, won.expires
		s.rows[other] = &moved
	}
	s.put(k, won, tx)
	told := s.read(won)
	if s.has(stepsReadEarly) {
		told.Steps = seen.Steps
	}
	return idempotency.Claimed{Won: true, Record: told}, true, nil
}

// Find reads what is committed.
func (s *reference) Find(ctx context.Context, scope, key string) (idempotency.Record, error) {
	if err := s.step(ctx, "find"); err != nil {
		return idempotency.Record{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rows[s.id(scope, key)]
	if r == nil {
		return idempotency.Record{}, idempotency.ErrNotFound
	}
	return s.read(r), nil
}

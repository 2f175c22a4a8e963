package postgres

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
)

const (
	// batchMax is how many members a statement takes at once. Each claim holds an advisory lock for as long as
	// its statement runs, of which a server has some thousands.
	batchMax = 256

	// singlesMax is how many members of a batch are done by themselves, one after the other, while the others
	// wait for their answers. Further ones get an idempotency.ErrAlone.
	singlesMax = 8
)

// BatchMax says that a batch of so many costs one commit; see idempotency.BatchStore.
func (k Keys[Tx]) BatchMax() int { return batchMax }

// keyID is what a record is found by.
type keyID struct{ scope, key string }

func (id keyID) compare(other keyID) int {
	return cmp.Or(strings.Compare(id.scope, other.scope), strings.Compare(id.key, other.key))
}

// inBatches does members in parts of batchMax at most. When a part fails behind one that took effect, the outcome
// of the whole is open.
func inBatches[In, Out any](ctx context.Context, members []In, do func(context.Context, []In) ([]Out, error)) ([]Out, error) {
	all := make([]Out, 0, len(members))
	for part := range slices.Chunk(members, batchMax) {
		out, err := do(ctx, part)
		if err != nil {
			return nil, ofBatch(len(all), err)
		}
		all = append(all, out...)
	}
	return all, nil
}

// claims are several attempts on their way to their keys.
type claims[Tx any] struct {
	keys     Keys[Tx]
	attempts []idempotency.Attempt
	answers  []idempotency.Claimed
	locks    []int64       // the numbers of the keys' locks, of those that the statement takes
	at       map[keyID]int // the first attempt at each key
	open     []int         // those that are not answered yet, in the order of their keys; each key once
	odd      []int         // those that the statement can't take: of another window
	again    []int         // those of a key that came before, in the order in which they came
	window   time.Duration // of those that carry a time
	singles  int           // how many were done by themselves
}

// claimMany decides attempts by one statement where their keys are new, and by two where they are not theirs to
// take. What fails for one then is its Claimed.Err.
func (k Keys[Tx]) claimMany(ctx context.Context, attempts []idempotency.Attempt) ([]idempotency.Claimed, error) {
	b := &claims[Tx]{
		keys: k, attempts: attempts, answers: make([]idempotency.Claimed, len(attempts)),
		locks: make([]int64, len(attempts)), at: make(map[keyID]int, len(attempts)),
	}
	b.sort()
	if err := b.insert(ctx); err != nil {
		return nil, err
	}
	b.look(ctx)
	for _, i := range b.odd {
		b.answers[i] = b.single(func() (idempotency.Claimed, error) { return k.claim(ctx, attempts[i]) })
	}
	for _, i := range b.again {
		b.answers[i] = b.behind(ctx, i)
	}
	return b.answers, nil
}

// sort says what becomes of each attempt.
func (b *claims[Tx]) sort() {
	for i, a := range b.attempts {
		id := b.id(i)
		if _, ok := b.at[id]; ok {
			b.again = append(b.again, i)
			continue
		}
		b.at[id] = i
		switch {
		case a.Made.IsZero() || a.Window == b.window:
		case b.window == 0:
			b.window = a.Window
		default:
			b.odd = append(b.odd, i)
			continue
		}
		b.open = append(b.open, i)
	}
	slices.SortFunc(b.open, func(i, j int) int { return b.id(i).compare(b.id(j)) })
}

func (b *claims[Tx]) id(i int) keyID {
	r := b.attempts[i].Request
	return keyID{r.Scope, r.Key}
}

// insert lets the attempts win whose keys are new.
func (b *claims[Tx]) insert(ctx context.Context) error {
	n := len(b.open)
	scopes, keys, prints, ids, owners := make([]string, n), make([]string, n), make([][]byte, n), make([]string, n), make([]string, n)
	resumes, leases, locks, mades := make([]bool, n), make([]int64, n), make([]int64, n), make([]*time.Time, n)
	for at, i := range b.open {
		a := &b.attempts[i]
		scopes[at], keys[at], prints[at] = a.Request.Scope, a.Request.Key, []byte(a.Request.Fingerprint)
		ids[at], owners[at], resumes[at], leases[at] = a.ID, a.Owner, a.Resume, a.Lease.Microseconds()
		b.locks[i] = b.keys.store.lockNumber(a.Request.Scope, a.Request.Key)
		locks[at] = b.locks[i]
		if !a.Made.IsZero() {
			mades[at] = &a.Made
		}
	}
	var won keyID
	var token int64
	insert := b.keys.store.statements.claimInsertMany.
		with(scopes, keys, prints, ids, owners, resumes, leases, locks, mades, b.window.Microseconds()).
		into(&won.scope, &won.key, &token)
	tokens := make(map[keyID]int64, n)
	insert.each = func() error { tokens[won] = token; return nil }
	if err := b.keys.store.run(ctx, insert); err != nil {
		return err
	}
	open := b.open[:0]
	for _, i := range b.open {
		token, ok := tokens[b.id(i)]
		if !ok {
			open = append(open, i)
			continue
		}
		b.answers[i] = idempotency.Claimed{Won: true, Record: claimedBy(b.attempts[i], token)}
	}
	b.open = open
	return nil
}

// look decides about those whose keys have a record, or are held by a transaction. When it fails, nothing
// happened for them, and the others are won all the same.
func (b *claims[Tx]) look(ctx context.Context) {
	if len(b.open) == 0 {
		return
	}
	k, s := b.keys, b.keys.store.statements
	n := len(b.open)
	scopes, keys, locks := make([]string, n), make([]string, n), make([]int64, n)
	asked := make([]asking, n)
	texts := claimStatements{s.claimInsert, s.claimLook, s.claimTake}
	for at, i := range b.open {
		a := &b.attempts[i]
		scopes[at], keys[at], locks[at] = a.Request.Scope, a.Request.Key, b.locks[i]
		asked[at] = asking{attempt: *a, lock: locks[at], texts: texts}
	}
	var place int64
	var seen asking
	look := s.claimLookMany.with(scopes, keys, locks).into(append([]any{&place, &seen.open, &seen.now}, seen.row.columns()...)...)
	look.each = func() error {
		q := &asked[place-1]
		q.open, q.now, q.row = seen.open, seen.now, seen.row
		seen.row = record{} // its slices are q's now
		return nil
	}
	err := k.store.run(ctx, look)
	for at, i := range b.open {
		if err != nil {
			b.answers[i].Err = err
			continue
		}
		settled, claimed, err := asked[at].judge()
		if !settled && err == nil {
			claimed = b.single(func() (idempotency.Claimed, error) { return k.pursue(ctx, &asked[at]) })
		} else if err != nil {
			claimed = idempotency.Claimed{Err: err}
		}
		b.answers[i] = claimed
	}
}

// behind decides about an attempt whose key came before, as if it had come after that.
func (b *claims[Tx]) behind(ctx context.Context, i int) idempotency.Claimed {
	a, first := b.attempts[i], b.answers[b.at[b.id(i)]]
	if first.Err == nil {
		if first.Record.Attempt == "" {
			return idempotency.Claimed{Record: heldByTransaction(a)}
		}
		switch idempotency.Judge(first.Record, a) {
		case idempotency.Mine:
			return idempotency.Claimed{Won: true, Record: first.Record}
		case idempotency.Answer:
			return idempotency.Claimed{Record: first.Record}
		}
	}
	return b.single(func() (idempotency.Claimed, error) { return b.keys.claim(ctx, a) })
}

// single does what a batch can't do together: a takeover, above all, which is a race for a record.
func (b *claims[Tx]) single(do func() (idempotency.Claimed, error)) idempotency.Claimed {
	if b.singles++; b.singles > singlesMax {
		return idempotency.Claimed{Err: idempotency.ErrAlone}
	}
	claimed, err := do()
	if err != nil {
		return idempotency.Claimed{Err: err}
	}
	return claimed
}

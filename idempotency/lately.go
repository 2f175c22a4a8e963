package idempotency

import (
	"context"
	"hash/maphash"
	"sync/atomic"
)

// How many keys a process remembers that it saw: 512 KiB of hashes. They lie in sets, so that few keys are pushed
// out before there are so many; a set is a line of the processor's cache.
const (
	latelySets = 1 << 13
	latelyWays = 8
)

// AnswerStore is a Store that can read an answer for less than a claim costs.
type AnswerStore interface {
	Store

	// FindAnswer returns the Request, State and Response of a key that is Done, or ErrNotFound for any other. It
	// reads where writes are decided, never a replica.
	FindAnswer(ctx context.Context, scope, key string) (Record, error)
}

// lately are the keys that this process saw lately, so that the next arrival of one reads first: it is probably
// a retry. Only hashes are kept, never answers, and a newer key may take an older one's place; whatever is
// missing or wrong here costs a read and decides nothing.
type lately struct {
	store AnswerStore
	seed  maphash.Seed
	seen  [latelySets][latelyWays]atomic.Uint64
	storm storm
}

// latelyOf is nil for a store whose claims are as cheap as a read.
func latelyOf(store Store) *lately {
	s, ok := store.(AnswerStore)
	if !ok {
		return nil
	}
	return &lately{store: s, seed: maphash.MakeSeed()}
}

// see notes a key, and says whether it was noted before.
func (l *lately) see(req Request) bool {
	hash := maphash.String(l.seed, req.Scope)*31 ^ maphash.String(l.seed, req.Key)
	set := &l.seen[hash%latelySets]
	place := &set[hash>>32%latelyWays] // of a set that is full, any may go
	for i := range set {
		switch set[i].Load() {
		case hash:
			return true
		case 0:
			place = &set[i]
		}
	}
	place.Store(hash)
	return false
}

// saw notes that this process sees the key, and says whether it did before.
func (k *Keys) saw(req Request) bool { return k.lately != nil && k.lately.see(req) }

// answered returns the record of a request that is probably a retry, if it is done and of the same fingerprint.
// Nothing else may be decided by a read, so all else, an error too, goes on to the claim.
func (k *Keys) answered(ctx context.Context, req Request, seen bool) (Record, bool) {
	if k.lately == nil || !seen && !k.lately.storm.rages() {
		return Record{}, false
	}
	ctx, cancel := context.WithTimeout(ctx, k.cfg.StoreMax/2)
	defer cancel()
	rec, err := k.lately.store.FindAnswer(ctx, req.Scope, req.Key)
	if err != nil || rec.State != Done || !req.Fingerprint.Matches(rec.Request.Fingerprint) {
		return Record{}, false
	}
	k.learn(seen, true)
	return rec, true
}

// learn notes what was found under a key that this process had not seen: another host's answer, or anything else.
func (k *Keys) learn(seen, answered bool) {
	if k.lately != nil && !seen {
		k.lately.storm.note(answered)
	}
}

package idempotency

import (
	"container/list"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/fiftyhosts/fifty/internal/wall"
)

// Bounds of what is remembered to find clients that make a key per attempt.
const (
	intentsMax      = 10_000      // the least recently seen is forgotten
	intentWindow    = time.Minute // two requests further apart are taken for two intents
	intentKeysMin   = 3           // so many keys for one request in that time are a sign
	warnedScopesMax = 1_000       // past it signs are only counted
)

// PerAttempt finds the sign of a client that makes a new key for each attempt (H11): the same request of the
// same caller under several keys within a short time, seen by this process. Such a client is not protected,
// and it can't be told from one that means the request several times; so it is counted and told to the
// operator, once per caller, and never refused. Its memory is bounded. It is safe for concurrent use.
type PerAttempt struct {
	now func() time.Time

	mu      sync.Mutex
	intents map[[sha256.Size]byte]*list.Element
	recent  *list.List // of *intent, the most recently seen first
	warned  map[string]struct{}
}

type intent struct {
	id   [sha256.Size]byte
	from time.Time
	keys map[string]struct{} // at most intentKeysMin
}

// NewPerAttempt makes a PerAttempt. now defaults to time.Now.
func NewPerAttempt(now func() time.Time) *PerAttempt {
	if now == nil {
		now = wall.Now
	}
	return &PerAttempt{
		now:     now,
		intents: make(map[[sha256.Size]byte]*list.Element),
		recent:  list.New(),
		warned:  make(map[string]struct{}),
	}
}

// See notes a request. sign says that it is one key too many; first, that its caller was not named before.
func (a *PerAttempt) See(req Request) (sign, first bool) {
	id := sha256.Sum256([]byte(req.Scope + "\x00" + string(req.Fingerprint)))
	now := a.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	it := a.intent(id, now)
	if _, known := it.keys[req.Key]; known {
		return false, false
	}
	if len(it.keys) < intentKeysMin {
		it.keys[req.Key] = struct{}{}
	}
	if len(it.keys) < intentKeysMin {
		return false, false
	}
	if _, told := a.warned[req.Scope]; told || len(a.warned) >= warnedScopesMax {
		return true, false
	}
	a.warned[req.Scope] = struct{}{}
	return true, true
}

// intent returns the entry of a request, new when there is none or its window is over.
func (a *PerAttempt) intent(id [sha256.Size]byte, now time.Time) *intent {
	if e, ok := a.intents[id]; ok {
		a.recent.MoveToFront(e)
		it := e.Value.(*intent)
		if now.Sub(it.from) > intentWindow {
			it.from, it.keys = now, make(map[string]struct{})
		}
		return it
	}
	if a.recent.Len() >= intentsMax {
		oldest := a.recent.Back()
		delete(a.intents, a.recent.Remove(oldest).(*intent).id)
	}
	it := &intent{id: id, from: now, keys: make(map[string]struct{})}
	a.intents[id] = a.recent.PushFront(it)
	return it
}

package memory

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/internal/wall"
)

// Config is that of New. The zero value works.
type Config struct {
	// Now is the store's clock, which decides every expiry. Only its steps matter, so it may be wrong, but
	// it must not go backwards. Defaults to time.Now, whose readings are monotonic.
	Now func() time.Time
}

// Store holds all state of one process. It is safe for concurrent use.
type Store struct {
	now    func() time.Time
	began  time.Time                               // when it was made
	before func(ctx context.Context, point string) // a test's look at each step, before the mutex

	mu         sync.Mutex
	keys       map[keyID]*entry
	taken      int   // of them, by transactions
	due        queue // done or free
	buried     queue // tombstones
	tokenFloor int64 // no key that was removed had a higher token
	decisions  map[keyID][]idempotency.Decision
	secrets    map[string][]byte
	waiting    int // callers that wait for a transaction

	stock *shelves
}

// New makes an empty Store.
func New(cfg Config) *Store {
	if cfg.Now == nil {
		cfg.Now = wall.Now
	}
	return &Store{
		now: cfg.Now, began: cfg.Now(), keys: map[keyID]*entry{},
		decisions: map[keyID][]idempotency.Decision{}, secrets: map[string][]byte{}, stock: newShelves(),
	}
}

// Migrate has nothing to do: it is here so that a Store can stand in for any other.
func (s *Store) Migrate(ctx context.Context) error { return ctx.Err() }

// secretSize is the length of a secret in bytes.
const secretSize = 32

// Secret returns 32 random bytes, the same for every call with that name. They are gone with the process.
func (s *Store) Secret(ctx context.Context, name string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	secret, ok := s.secrets[name]
	if !ok {
		secret = make([]byte, secretSize)
		rand.Read(secret) // never fails: it ends the program instead
		s.secrets[name] = secret
	}
	return append([]byte(nil), secret...), nil
}

// moment is a time of the store's clock, in nanoseconds since the Store was made: a third of a time.Time, and
// nothing in it for the collector to follow.
type moment int64

// at is t as a moment. What is further than 292 years away is the first or the last one.
func (s *Store) at(t time.Time) moment { return moment(t.Sub(s.began)) }

// moment is the present.
func (s *Store) moment() moment { return s.at(s.now()) }

// step lets a test hold the caller here, and stops a caller whose ctx is done: nothing has changed yet.
func (s *Store) step(ctx context.Context, point string) error {
	if s.before != nil {
		s.before(ctx, point)
	}
	return ctx.Err()
}

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

// The load of one round of a soak.
const (
	soakCallers = 3  // of one key, at the same moment
	soakKeysMax = 30 // keys of each path
)

var soakPaths = []string{soakHold, soakRetry, soakSteps}

// acknowledged is what clients were told, for good: no later answer may differ.
type acknowledged struct {
	mu   sync.Mutex
	keys []soakKey
	told map[string]answer // by the name of the key
}

// next makes an intent that nobody had before.
func (a *acknowledged) next(path string) soakKey {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := len(a.keys) + 1
	k := soakKey{path: path, name: fmt.Sprintf("%s-%d", strings.TrimPrefix(path, "/"), n), amount: n}
	a.keys = append(a.keys, k)
	return k
}

// add notes a final answer. Another one than before, or one that is none, is an error.
func (a *acknowledged) add(k soakKey, got answer) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	before, again := a.told[k.name]
	switch {
	case got.status != http.StatusCreated:
		return fmt.Errorf("key %s: not a final answer: %v", k.name, got)
	case again && !sameAnswer(before, got):
		return fmt.Errorf("key %s: an acknowledged outcome was lost: a caller was told %v, and a later one %v", k.name, before, got)
	case !again:
		a.told[k.name] = got
	}
	return nil
}

func (a *acknowledged) has(k soakKey) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := a.told[k.name]
	return ok
}

// all are the intents so far, from the nth on.
func (a *acknowledged) all(n int) []soakKey {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.keys[n:])
}

func (k soakKey) body() string {
	return fmt.Sprintf(`{"account":"alice","amount":%d,"currency":"EUR"}`, k.amount)
}

func (k soakKey) send(ctx context.Context, base string) (answer, error) {
	header := map[string]string{"Content-Type": "application/json", "Idempotency-Key": k.name}
	return request(ctx, http.MethodPost, base+k.path, header, k.body())
}

// persist sends an intent to the members in turn until it has a final answer, which it notes, or is told that
// an operator must decide. It goes on after no answer, one of 500 or above, and "in progress".
func (s *soak) persist(ctx context.Context, k soakKey, members []*member, from int) (answer, error) {
	var got answer
	var err error
	for try := range triesMax {
		base := members[(from+try)%len(members)].address()
		if base != "" {
			got, err = k.send(ctx, base)
			switch {
			case err != nil, got.status >= http.StatusInternalServerError, got.problem() == problemInFlight:
			case got.problem() == problemUnresolved && k.path == soakHold:
				return got, nil
			default:
				return got, s.told.add(k, got)
			}
		}
		if err := pause(ctx, askAgain/2+rand.N(askAgain/2)); err != nil {
			return got, err
		}
	}
	return got, fmt.Errorf("key %s: no answer in %d tries, the last %v, %w", k.name, triesMax, got, err)
}

// persistAtOnce lets callers persist together, each from another member on.
func (s *soak) persistAtOnce(k soakKey, members []*member) []answer {
	answers := make([]answer, soakCallers)
	var group sync.WaitGroup
	for i := range soakCallers {
		group.Go(func() {
			var err error
			if answers[i], err = s.persist(s.t.Context(), k, members, i); err != nil {
				s.t.Error(err)
			}
		})
	}
	group.Wait()
	return answers
}

// load sends key after key on each path, until stop is closed or there were enough. It returns when all callers
// have their answers.
func (s *soak) load(stop <-chan struct{}) {
	var group sync.WaitGroup
	for _, path := range soakPaths {
		group.Go(func() {
			for range soakKeysMax {
				select {
				case <-stop:
					return
				case <-s.t.Context().Done():
					return
				default:
					s.persistAtOnce(s.told.next(path), s.fleet.serving(path))
				}
			}
		})
	}
	group.Wait()
}

// settle lets an operator decide all that is unresolved, by what the bank has. It returns how many decisions
// there were.
func (s *soak) settle() (decisions int) {
	t := s.t
	t.Helper()
	byName := map[string]soakKey{}
	for _, k := range s.told.all(0) {
		byName[k.name] = k
	}
	open := unresolvedKeys(t, s.database)
	for _, name := range slices.Sorted(maps.Keys(open)) {
		k := byName[name]
		if k.path != soakHold || s.told.has(k) {
			t.Errorf("listed as unresolved is %+v, whose caller has an answer or shall get one", open[name])
			continue
		}
		if s.decide(k, open[name]) {
			decisions++
		}
	}
	if left := unresolvedKeys(t, s.database); len(left) > 0 {
		t.Errorf("after an operator's decisions %v are unresolved", left)
	}
	return decisions
}

// decide resolves what the bank has booked, and releases what it has not. false means that there was nothing to
// decide any more: a host has found out that it had never begun.
func (s *soak) decide(k soakKey, rec keyRecord) bool {
	s.t.Helper()
	if charge, requests := s.bank.charged(soakHold, k.name); requests > 0 {
		text, err := json.Marshal(charge)
		if err != nil {
			s.t.Fatal(err)
		}
		rec.resolve(s.t, s.database, http.StatusCreated, string(text))
		return true
	}
	p := start(s.t, "keys", "release", k.name, "--scope", rec.Scope, "--by", "carol", "--note", "it is not in the ledger", "--yes", "--db", s.database)
	code := p.exitCode()
	if code != 0 && code != 1 {
		s.t.Errorf("%s: exit code %d", p.host.Name(), code)
	}
	return code == 0
}

// wantOutcomes asks for each intent again, on some of the members or on all that serve it: each has its final
// answer, which is the one that its callers were told.
func (s *soak) wantOutcomes(keys []soakKey, each int) {
	work := make(chan soakKey)
	var group sync.WaitGroup
	const askers = 4
	for range askers {
		group.Go(func() {
			for k := range work {
				members := s.fleet.serving(k.path)
				for i := range min(each, len(members)) {
					if _, err := s.persist(s.t.Context(), k, members, k.amount+i); err != nil {
						s.t.Error(err)
					}
				}
				if !s.told.has(k) {
					s.t.Errorf("key %s has no final answer", k.name)
				}
			}
		})
	}
	for _, k := range keys {
		work <- k
	}
	close(work)
	group.Wait()
}

// wantEffects checks that each intent took effect exactly once: on the path that holds by the requests that the
// bank got, on the others by what it booked. It returns how often a step or request was taken over: the bank
// got it again.
func (s *soak) wantEffects(t *testing.T) (takeovers int) {
	t.Helper()
	keys := map[string]int{} // by the bank's path
	for _, k := range s.told.all(0) {
		for path, name := range k.atBank() {
			keys[path]++
			charge, requests := s.bank.charged(path, name)
			if requests < 1 || requests > 1 && path == soakHold || charge.Amount != int64(k.amount) {
				t.Errorf("key %s: %s got %d requests, and booked %+v", k.name, path, requests, charge)
			}
			if path != soakHold {
				takeovers += requests - 1
			}
		}
	}
	for path, n := range keys {
		s.bank.banks[path].wantBooked(t, n)
	}
	return takeovers
}

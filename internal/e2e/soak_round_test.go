package e2e

import (
	"context"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
)

// Bounds of what happens in a round.
const (
	soakArrivalsMax = 40                     // requests at the bank before a kill
	soakQuietMax    = 300 * time.Millisecond // without a request, after which a kill comes anyway
	soakDownMax     = 200 * time.Millisecond // between a kill and the return
	soakFreezesMax  = 20                     // tries to stop a host at a moment when it holds no lock of the database
	soakProbe       = 2 * time.Second        // for others to get through beside a host that stands still, at first
)

// soakProbeMax is how long others have to get through in that try. It grows: on a machine that is busy the host may
// hold no lock, and all are slow.
func soakProbeMax(try int) time.Duration { return soakProbe << min(try/4, 3) }

// round breaks things under load, lets all come back, and checks what was promised.
func (s *soak) round(n int) {
	s.t.Helper()
	from := len(s.told.all(0))
	stop, loaded := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(loaded)
		s.load(stop)
	}()
	s.t.Cleanup(func() { <-loaded }) // the test's context has ended by then
	for _, breakIt := range s.plan(n) {
		breakIt()
	}
	close(stop)
	<-loaded

	s.resolved += s.settle()
	s.wantOutcomes(s.told.all(from), 2)
	s.takeovers = s.wantEffects(s.t)
}

// plan is what is broken in a round: an owner that is killed and one that stands still past its lease, on each
// path in turn, and kills at random points.
func (s *soak) plan(n int) []func() {
	rnd := rand.New(rand.NewPCG(s.seed, uint64(n))) //nolint:gosec // a test that can be repeated
	frozen, killed := soakPaths[n%len(soakPaths)], soakPaths[(n+2)%len(soakPaths)]
	victim := func(of []*member) *member { return of[rnd.IntN(len(of))] }
	some := func(most time.Duration) time.Duration { return time.Duration(rnd.Int64N(int64(most))) }

	owner, still := victim(s.fleet.serving(killed)), victim(s.fleet.serving(frozen))
	all := []func(){
		func() { s.killOwner(killed, owner) },
		func() { s.freezeOwner(frozen, still) },
	}
	for range 2 {
		m, arrivals, down := victim(s.fleet.all()), rnd.IntN(soakArrivalsMax), some(soakDownMax)
		all = append(all, func() { s.killAt(arrivals, m, down) })
	}
	if s.server != nil {
		arrivals, down := rnd.IntN(soakArrivalsMax), some(soakDownMax)
		all = append(all, func() { s.killDatabaseAt(arrivals, down) })
	}
	rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// killAt kills a member when the bank has got so many more requests.
func (s *soak) killAt(arrivals int, m *member, down time.Duration) {
	s.t.Helper()
	s.await(arrivals)
	m.die()
	s.kills++
	_ = pause(s.t.Context(), down)
	m.comeBack()
}

func (s *soak) killDatabaseAt(arrivals int, down time.Duration) {
	s.t.Helper()
	s.await(arrivals)
	s.server.Kill()
	s.databaseKills++
	_ = pause(s.t.Context(), down)
	s.server.Start()
}

func (s *soak) await(arrivals int) {
	quiet := time.NewTimer(soakQuietMax)
	defer quiet.Stop()
	for range arrivals {
		select {
		case <-s.bank.arrivals:
			quiet.Reset(soakQuietMax)
		case <-quiet.C:
			return
		}
	}
}

// ownedBy sends a new intent to a member, whose work at the bank is then done and not answered before open is
// called. The caller insists on an answer of that member; ended waits until it has one.
func (s *soak) ownedBy(path string, m *member) (k soakKey, open, ended func()) {
	s.t.Helper()
	k = s.told.next(path)
	last := k.name
	if path == soakSteps {
		last = idempotency.StepKey(idempotency.Request{Scope: soakScope, Key: k.name}, soakCharge)
	}
	gate := s.bank.holdBack(s.t, last)
	var caller sync.WaitGroup
	caller.Go(func() {
		if _, err := s.persist(s.t.Context(), k, []*member{m}, 0); err != nil {
			s.t.Error(err)
		}
	})
	s.t.Cleanup(caller.Wait)
	select {
	case <-gate.booked:
	case <-time.After(waitMax):
		s.t.Fatalf("key %s did not reach the bank within %v", k.name, waitMax)
	}
	return k, gate.open, caller.Wait
}

func without(of []*member, m *member) []*member {
	return slices.DeleteFunc(slices.Clone(of), func(o *member) bool { return o == m })
}

// killOwner kills a member whose work is done and not answered. Others of its callers go on: they get the one
// answer, or on the path that holds are told that nobody knows it.
func (s *soak) killOwner(path string, m *member) {
	s.t.Helper()
	k, open, ended := s.ownedBy(path, m)
	m.die()
	s.kills++
	open()
	answers := s.persistAtOnce(k, without(s.fleet.serving(path), m))
	m.comeBack()
	ended()
	for _, a := range answers {
		if unresolved := a.problem() == problemUnresolved; unresolved != (path == soakHold) {
			s.t.Errorf("key %s, whose owner was killed: a caller got %v", k.name, a)
		}
	}
}

// freezeOwner lets a member stand still past its lease while its work is done and not answered. Meanwhile another
// takes over, or on the path that holds an operator decides. What the owner then says comes too late.
func (s *soak) freezeOwner(path string, m *member) {
	s.t.Helper()
	k, open, ended := s.ownedBy(path, m)
	thaw := s.freeze(m)
	others := without(s.fleet.serving(path), m)
	answers := s.persistAtOnce(k, others)
	if path == soakHold {
		for _, a := range answers {
			if a.problem() != problemUnresolved {
				s.t.Errorf("key %s, whose owner stands still: a caller got %v", k.name, a)
			}
		}
		rec, listed := unresolvedKeys(s.t, s.database)[k.name]
		if !listed {
			s.t.Fatalf("key %s is unresolved and not listed", k.name)
		}
		rec.resolve(s.t, s.database, http.StatusCreated, `{"id":"ch_1","decided":"by a person"}`)
		s.resolved++
		s.persistAtOnce(k, others)
	}
	if !s.told.has(k) {
		s.t.Fatalf("key %s has no final answer while its owner stands still", k.name)
	}
	open()
	thaw()
	ended() // with the same answer
	m.find(regexp.QuoteMeta(supersededEvent) + `.*\b` + regexp.QuoteMeta(k.name) + `\b`)
}

// freeze lets a member stand still, at a moment when it holds no lock of the database: others get through.
func (s *soak) freeze(m *member) (thaw func()) {
	s.t.Helper()
	thaw = freezeFree(s.t, m, s.fleet.gateways, func() func(context.Context, []*member) error {
		probe := s.told.next(soakRetry)
		return func(ctx context.Context, members []*member) error {
			_, err := s.persist(ctx, probe, members, 0)
			return err
		}
	})
	s.freezes++
	return thaw
}

// freezeFree stops one of the members at a moment when the others get through. newProbe makes what they are asked.
func freezeFree(t *testing.T, m *member, all []*member, newProbe func() func(context.Context, []*member) error) (thaw func()) {
	t.Helper()
	for try := range soakFreezesMax {
		thaw = m.freeze()
		ask := newProbe()
		ctx, cancel := context.WithTimeout(t.Context(), soakProbeMax(try))
		err := ask(ctx, without(all, m))
		late := ctx.Err() != nil
		cancel()
		switch {
		case err == nil:
			return thaw
		case !late:
			t.Fatal(err)
		}
		thaw()
		// Had it no time before the next try, it would be stopped again where it was.
		if err := ask(t.Context(), all); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatalf("in %d freezes of %s no other host got through to the database", soakFreezesMax, m.host.Name())
	return thaw
}

package e2e

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/faults/interleave"
	"github.com/fiftyhosts/fifty/internal/testenv"
)

// A soak runs hosts on one database under duplicate load and breaks them, round after round. The seed decides
// which are killed and stopped, in which order and after how many requests; the machine decides the rest.
const (
	roundsVariable = "FIFTY_SOAK_ROUNDS" // scripts/soak.sh sets it
	roundsDefault  = 3
	roundsMax      = 10_000
)

func TestSoakOfKilledHostsOnSQLiteLosesNoOutcomeAndRepeatsNoEffect(t *testing.T) {
	t.Parallel()
	(&soak{t: t, database: sqliteURL(t)}).run()
}

func TestSoakOfKilledHostsOnPostgresLosesNoOutcomeAndRepeatsNoEffect(t *testing.T) {
	t.Parallel()
	(&soak{t: t, database: testenv.Postgres(t).Database(t)}).run()
}

func TestSoakOfKilledHostsOnAPostgresThatIsKilledTooLosesNoOutcomeAndRepeatsNoEffect(t *testing.T) {
	t.Parallel()
	server := testenv.NewPostgres(t)
	(&soak{t: t, database: server.Database(t), server: server}).run()
}

// soak is one, with what it counts. Only fleet, bank and told are for other goroutines than the test's.
type soak struct {
	t        *testing.T
	seed     uint64
	database string
	server   *testenv.Server // to be killed, or nil
	bank     *soakBank
	fleet    *fleet
	told     *acknowledged

	kills, databaseKills, freezes int
	takeovers, resolved           int
}

func (s *soak) run() {
	t := s.t
	t.Helper()
	rounds := soakRounds(t)
	s.seed = seedOf(t)
	began := time.Now()
	s.bank = newSoakBank(t)
	s.fleet = newFleet(t, s.database, s.bank.url)
	s.told = &acknowledged{told: map[string]answer{}}
	for n := range rounds {
		s.round(n)
		if t.Failed() {
			t.Fatalf("round %d of %d, seed %d, went wrong", n+1, rounds, s.seed)
		}
	}
	s.wantOutcomes(s.told.all(0), 1) // also what was told long ago
	s.takeovers = s.wantEffects(t)

	refused := s.fleet.superseded.count()
	t.Logf("soak: %s: seed %d, rounds %d, keys %d, hosts killed %d, hosts stopped past their lease %d, database killed %d: takeovers %d, refused stale writes %d, resolved unknown %d, in %v",
		t.Name(), s.seed, rounds, len(s.told.all(0)), s.kills, s.freezes, s.databaseKills, s.takeovers, refused, s.resolved, time.Since(began).Round(time.Second))
	for what, n := range map[string]int{"takeover": s.takeovers, "refused stale write": refused, "resolved unknown": s.resolved} {
		if n == 0 {
			t.Errorf("in %d rounds there was no %s, so the soak proves nothing about it", rounds, what)
		}
	}
	if s.server != nil && s.databaseKills == 0 {
		t.Errorf("in %d rounds the database was not killed", rounds)
	}
}

// soakRounds is how many rounds a soak has: few, or what the environment says.
func soakRounds(t *testing.T) int {
	t.Helper()
	if text := os.Getenv(roundsVariable); text != "" {
		return int(number(t, roundsVariable, text, roundsMax))
	}
	return roundsDefault
}

// seedOf is the seed of a test that chooses at random: a new one, or that of the environment. It is told with
// the test's log.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	seed := 1 + uint64(rand.Uint32())
	if text := os.Getenv(interleave.SeedVariable); text != "" {
		seed = number(t, interleave.SeedVariable, text, 1<<63)
	}
	t.Logf("seed %d; again: %s=%d go test -run '^%s$' ./internal/e2e", seed, interleave.SeedVariable, seed, t.Name())
	return seed
}

func number(t *testing.T, name, text string, most uint64) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n > most || n == 0 {
		t.Fatalf("%s is %q; it must be a whole number from 1 to %d", name, text, most)
	}
	return n
}

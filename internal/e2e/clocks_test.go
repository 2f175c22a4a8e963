package e2e

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/jackc/pgx/v5"

	"github.com/fiftyhosts/fifty/internal/testenv"
)

const problemExpired, problemKeyInvalid = "urn:fifty:problem:expired", "urn:fifty:problem:key-invalid"

func TestClocksFourHoursApartOnPostgresGiveEachKeyOneChargeAndOneAnswer(t *testing.T) {
	t.Parallel()
	database := testenv.Postgres(t).Database(t)
	service := startSandbox(t, sqliteURL(t))
	gateways := urlsOf(startApart(t, service.url, database))
	for n := 1; n <= faultKeys; n++ {
		if _, err := sendAtOnce(t.Context(), orderOf(n), gateways); err != nil {
			t.Fatalf("key %d: %v", n, err)
		}
	}
	wantOneChargeOfEachAmount(t, ledger(t, service.url, "alice"))
}

// TestClocksFourHoursApartOnPostgresSeeTheSameLease: whichever host owns the work, all see it in flight while it
// works; and once it has died, nobody finds it unresolved before the store's clock says so.
func TestClocksFourHoursApartOnPostgresSeeTheSameLease(t *testing.T) {
	t.Parallel()
	testLeases(t, testenv.Postgres(t).Database(t), clocks, problemUnresolved, 1, holds)
}

// TestClocksFourHoursApartOnPostgresTakeOverByTheStoresClock: the same on a route that goes on by itself.
func TestClocksFourHoursApartOnPostgresTakeOverByTheStoresClock(t *testing.T) {
	t.Parallel()
	testLeases(t, testenv.Postgres(t).Database(t), clocks, "", 2, retries)
}

// testLeases kills owners on each of the hosts' clocks while they work. problem is what the others get past the lease,
// or "" for the bank's answer; requests is how often the bank is asked in all.
func testLeases(t *testing.T, database string, clocks []time.Duration, problem string, requests int, fields []string) {
	t.Helper()
	plan := slices.Repeat([]bankFault{waitAfter, fine}[:requests], len(clocks))
	upstream, _ := newBank(t, scripted(fine, plan...))
	others := startEach(t, clocks, upstream.url, database, fields...)
	for n, skew := range clocks {
		owner := startSkewedRoute(t, skew, upstream.url, database, fields...)
		c := orderOf(n + 1)
		testLeaseOf(t, skew, owner, c, upstream, others, database, problem)
		for range requests - 1 {
			upstream.waitForRequest(t)
		}
		if n := upstream.requestsOf(c.key); n != requests {
			t.Errorf("owner at %v: the bank was asked %d times, want %d", skew, n, requests)
		}
	}
	upstream.wantBooked(t, len(clocks))
}

// testLeaseOf kills an owner whose clock is off by skew while it works.
func testLeaseOf(t *testing.T, skew time.Duration, owner *host, c charge, upstream *bank, others []*host, database, problem string) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if a, err := c.send(t.Context(), owner.url); err == nil {
			t.Errorf("the caller of a killed gateway got %v", a)
		}
	}()
	upstream.waitForRequest(t)
	for i, other := range others {
		a := c.mustSend(t, other.url)
		seconds, err := strconv.Atoi(a.header.Get("Retry-After"))
		if a.problem() != problemInFlight || err != nil || time.Duration(seconds)*time.Second > 2*lease {
			t.Errorf("owner at %v, host %d: a duplicate during the work got %v", skew, i, a)
		}
	}
	owner.kill()
	<-ended
	expires := storeTime(t, database, fmt.Sprintf("select expires from fifty.keys where key = '%s'", c.key))
	for i, other := range others {
		for decided := false; !decided; {
			before := storeTime(t, database, "select clock_timestamp()")
			a := c.mustSend(t, other.url)
			after := storeTime(t, database, "select clock_timestamp()")
			switch decided = a.problem() != problemInFlight; {
			case !decided && before.After(expires):
				t.Fatalf("owner at %v, host %d: in flight %v after the end of the lease", skew, i, before.Sub(expires))
			case !decided:
				if err := pause(t.Context(), askAgain); err != nil {
					t.Fatal(err)
				}
			case after.Before(expires):
				t.Fatalf("owner at %v, host %d: %v left of the lease, and a duplicate got %v", skew, i, expires.Sub(after), a)
			case a.problem() != problem:
				t.Errorf("owner at %v, host %d: past the lease a duplicate got %v", skew, i, a)
			case problem == "":
				a.bankAnswer(t)
			}
		}
	}
}

// storeTime asks Postgres for one time.
func storeTime(tb testing.TB, database, statement string) (at time.Time) {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), database)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if err := conn.QueryRow(tb.Context(), statement).Scan(&at); err != nil {
		tb.Fatalf("%s: %v", statement, err)
	}
	return at
}

// TestClocksFourHoursApartOnPostgresKeepAnswersAndTombstonesByTheStoresClock: retention and tombstone are both
// shorter than the skew, so a host that went by its own clock would drop them early, or never.
func TestClocksFourHoursApartOnPostgresKeepAnswersAndTombstonesByTheStoresClock(t *testing.T) {
	t.Parallel()
	const retention, tombstone = time.Hour, 2 * time.Hour
	database := testenv.Postgres(t).Database(t)
	upstream, _ := newBank(t, scripted(fine))
	gateways := startApart(t, upstream.url, database, fmt.Sprintf("retention: %v", retention), fmt.Sprintf("tombstone: %v", tombstone))
	sweep := func(skew time.Duration) { sweepOn(t, skew, database, retention, tombstone) }
	want := func(c charge, what string, ok func(answer) bool) {
		t.Helper()
		for i, g := range gateways {
			if a := c.mustSend(t, g.url); !ok(a) {
				t.Errorf("%s: the host at %v says %v", what, clocks[i], a)
			}
		}
	}
	replays := func(a answer) bool { return a.status == http.StatusCreated && a.header.Get(replayedHeader) == "true" }
	expired := func(a answer) bool { return a.problem() == problemExpired }

	for i, skew := range clocks {
		c := orderOf(i + 1)
		c.mustSend(t, gateways[i].url).bankAnswer(t)
		for _, other := range clocks {
			sweep(other)
		}
		want(c, "an answer that is due to stay", replays)

		age(t, database, "created", retention+time.Minute)
		age(t, database, "changed", retention+time.Minute)
		sweep(skew)
		want(c, "an answer past its retention", expired)

		for _, other := range clocks {
			sweep(other)
		}
		want(c, "a tombstone that is due to stay", expired)

		age(t, database, "buried", tombstone+time.Minute)
		sweep(skew)
		a := c.mustSend(t, gateways[i].url)
		if got := a.bankAnswer(t); got.Request != 2 || a.header.Get(replayedHeader) != "" {
			t.Errorf("an opaque key past its tombstone got %v from the host at %v, want it to be new", a, skew)
		}
		query(t, database, "delete from fifty.keys")
	}
}

// age makes the records older, by the store's clock.
func age(tb testing.TB, database, column string, by time.Duration) {
	tb.Helper()
	query(tb, database, fmt.Sprintf("update fifty.keys set %s = %s - interval '%d seconds'", column, column, int(by.Seconds())))
}

// TestClocksFourHoursApartOnPostgresJudgeTimeOrderedKeysAlike: the window is shorter than the skew, and a key may
// be five minutes ahead.
func TestClocksFourHoursApartOnPostgresJudgeTimeOrderedKeysAlike(t *testing.T) {
	t.Parallel()
	database := testenv.Postgres(t).Database(t)
	upstream, _ := newBank(t, scripted(fine))
	gateways := startApart(t, upstream.url, database, "retention: 1h", "tombstone: 2h")
	for client, problem := range map[time.Duration]string{
		0: "", -time.Hour: "", 2 * time.Minute: "",
		-3 * time.Hour: problemExpired, -hoursApart: problemExpired,
		time.Hour: problemKeyInvalid, hoursApart: problemKeyInvalid,
	} {
		for i, g := range gateways {
			c := charge{key: uuidv7(time.Now().Add(client)), account: "alice", amount: 1200}
			a := c.mustSend(t, g.url)
			if a.problem() != problem {
				t.Errorf("a key from a client at %v got %v from the host at %v", client, a, clocks[i])
			}
			if problem == "" {
				a.bankAnswer(t)
			}
		}
	}
}

// uuidv7 is a time-ordered key as a client makes it.
func uuidv7(at time.Time) string {
	var id [16]byte
	_, _ = rand.Read(id[:])
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(at.UnixMilli())) //nolint:gosec // after 1970
	copy(id[:6], ms[2:])
	id[6], id[8] = id[6]&0x0f|0x70, id[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// TestPostgresClockFourHoursFromItsHostsChangesNothing: the store decides by its own clock, so its difference to
// the hosts' is nothing that anyone sees. Only time-ordered keys are compared with it, by all hosts alike.
func TestPostgresClockFourHoursFromItsHostsChangesNothing(t *testing.T) {
	t.Parallel()
	right := []time.Duration{0, 0}                           // the hosts'
	for skew, problems := range map[time.Duration][2]string{ // for keys that the right clock, and the server's, made
		hoursApart:  {problemExpired, ""},
		-hoursApart: {problemKeyInvalid, ""},
	} {
		server := testenv.NewSkewedPostgres(t, skew)
		if ahead := server.Ahead(t); (ahead - skew).Abs() > skewTolerance {
			t.Fatalf("the server's clock is ahead by %v, want %v", ahead, skew)
		}
		service := startSandbox(t, sqliteURL(t))
		gateways := urlsOf(startEach(t, right, service.url, server.Database(t), "retention: 1h", "tombstone: 2h"))
		for n := 1; n <= faultKeys; n++ {
			if _, err := sendAtOnce(t.Context(), orderOf(n), gateways); err != nil {
				t.Fatalf("server at %v: key %d: %v", skew, n, err)
			}
		}
		wantOneChargeOfEachAmount(t, ledger(t, service.url, "alice"))
		for i, off := range []time.Duration{0, skew} {
			for _, gateway := range gateways {
				c := charge{key: uuidv7(time.Now().Add(off)), account: "bob", amount: 1200}
				if a := c.mustSend(t, gateway); a.problem() != problems[i] {
					t.Errorf("server at %v: a key from a client at %v got %v", skew, off, a)
				}
			}
		}
		testLeases(t, server.Database(t), right[:1], problemUnresolved, 1, holds)
		testLeases(t, server.Database(t), right[:1], "", 2, retries)
	}
}

// TestTokensAreJudgedByTheHostsClock is what the documentation says, and the one thing that a wrong clock changes.
func TestTokensAreJudgedByTheHostsClock(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	keys := filepath.Join(t.TempDir(), "keys.pem")
	if err := os.WriteFile(keys, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	upstream, _ := newBank(t, scripted(fine))
	config := writeConfig(t, strings.Replace(routeConfig(upstream.url), "credential: ", "jwt: {keys: "+keys+"}", 1))
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: private}, nil)
	if err != nil {
		t.Fatal(err)
	}
	token := func(expires time.Duration) string {
		text, err := jwt.Signed(signer).Claims(jwt.Claims{Subject: "alice", Expiry: jwt.NewNumericDate(time.Now().Add(expires))}).Serialize()
		if err != nil {
			t.Fatal(err)
		}
		return "Bearer " + text
	}
	for skew, want := range map[time.Duration]map[time.Duration]int{ // of the host, of the token's expiry
		0:           {time.Hour: http.StatusCreated, -time.Hour: http.StatusUnauthorized},
		hoursApart:  {time.Hour: http.StatusUnauthorized, 2 * hoursApart: http.StatusCreated},
		-hoursApart: {time.Hour: http.StatusCreated, -time.Hour: http.StatusCreated, -2 * hoursApart: http.StatusUnauthorized},
	} {
		gateway := startSkewedServe(t, skew, config, sqliteURL(t))
		for expires, status := range want {
			c := charge{key: "order-1", account: "alice", amount: 1200, credential: token(expires)}
			if a := c.mustSend(t, gateway.url); a.status != status {
				t.Errorf("a token that expires in %v got %v from the host at %v, want %d", expires, a, skew, status)
			}
		}
	}
}

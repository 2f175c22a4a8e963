package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fiftyhosts/fifty/faults/hosts"
	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/internal/testenv"
	"github.com/fiftyhosts/fifty/store/postgres"
)

// stepsHost is the first argument of a test binary that shall be a service built on the library.
const stepsHost = "steps-host"

// orderRequest is the intent that the hosts of these tests work on.
var orderRequest = idempotency.Request{Scope: "shop", Key: "order-1", Fingerprint: idempotency.FingerprintOf("order", 1200)}

// runStepsHost is a service whose one request reserves at a bank and then charges there. With the argument
// "stop" it stands still between the two.
func runStepsHost(database, peer, mode string) error {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, database)
	if err != nil {
		return err
	}
	defer pool.Close()
	store := postgres.New(pool, postgres.Config{})
	if err := store.Migrate(ctx); err != nil {
		return err
	}
	keys := idempotency.New(store.Keys(), idempotency.Config{Lease: lease, Wait: true, WaitMax: waitMax})
	res, err := keys.DoSteps(ctx, orderRequest, func(ctx context.Context, s *idempotency.Steps) (idempotency.Response, error) {
		reserved, err := idempotency.Step(ctx, s, "reserve", bookAt(peer, `{"amount":1200}`))
		if err != nil {
			return idempotency.Response{}, err
		}
		if mode == "stop" {
			fmt.Println("reserved")
			<-make(chan struct{})
		}
		charged, err := idempotency.Step(ctx, s, "charge", bookAt(peer, `{"amount":1200}`))
		if err != nil {
			return idempotency.Response{}, err
		}
		return idempotency.JSON(http.StatusCreated, []bankAnswer{reserved, charged})
	})
	if err != nil {
		return err
	}
	fmt.Printf("status %d, replayed %v: %s\n", res.Status, res.Replayed, res.Body)
	return nil
}

// bookAt books at a bank under the key of the step.
func bookAt(peer, body string) func(ctx context.Context, key string) (bankAnswer, error) {
	return func(ctx context.Context, key string) (bankAnswer, error) {
		a, err := request(ctx, http.MethodPost, peer, map[string]string{"Idempotency-Key": key}, body)
		if err != nil {
			return bankAnswer{}, err
		}
		if a.status != http.StatusCreated {
			return bankAnswer{}, fmt.Errorf("the bank answered %v", a)
		}
		var got bankAnswer
		return got, json.Unmarshal(a.body, &got)
	}
}

// TestServiceOnPostgresKilledBetweenStepsGoesOnBehindTheLastFinishedOne: three processes, the first killed
// between its steps and the second within its last one. What the first finished is not asked for again, and
// what the second sent is repeated under the same key.
func TestServiceOnPostgresKilledBetweenStepsGoesOnBehindTheLastFinishedOne(t *testing.T) {
	t.Parallel()
	database := testenv.Postgres(t).Database(t)
	bank, _ := newBank(t, scripted(fine, fine, waitAfter))
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	host := func(mode string) *process {
		return launch(t, hosts.Config{Path: binary, Args: []string{stepsHost, database, bank.url, mode}})
	}

	first := host("stop")
	first.find("reserved")
	bank.waitForRequest(t)
	first.kill()

	second := host("go")
	bank.waitForRequest(t) // past the first one's lease
	second.kill()

	var said []string
	for _, replayed := range []bool{false, true} {
		third := host("go")
		said = append(said, third.find(fmt.Sprintf(`status 201, replayed %v: (.*)\n`, replayed))[1])
		if code := third.exitCode(); code != 0 {
			t.Errorf("a host ended with %d", code)
		}
	}
	if said[0] != said[1] {
		t.Errorf("the answer was %s, and then %s", said[0], said[1])
	}
	bank.wantBooked(t, 2)
	for step, want := range map[string]int{"reserve": 1, "charge": 2} {
		key := idempotency.StepKey(orderRequest, step)
		if n := bank.requestsOf(key); n != want {
			t.Errorf("the bank got %d requests of step %s, want %d", n, step, want)
		}
		if id := bank.chargeOf(key).ID; id == "" || !strings.Contains(said[0], id) {
			t.Errorf("step %s booked %q, the answer is %s", step, id, said[0])
		}
	}
}

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/server/sandbox"
)

const (
	problemInFlight   = "urn:fifty:problem:in-flight"
	problemUnresolved = "urn:fifty:problem:unresolved"
	problemUnknown    = "urn:fifty:problem:unknown"
	replayedHeader    = "Idempotency-Replayed"

	credential = "Bearer alice-secret"
	askAgain   = 50 * time.Millisecond // at most so long between two tries, to keep the tests short
	triesMax   = 1000
)

// browser is the client of all tests: enough connections, and an end to every request.
var browser = &http.Client{
	Timeout:   waitMax,
	Transport: &http.Transport{MaxIdleConns: 0, MaxIdleConnsPerHost: 512},
}

// charge is what a caller intends: one charge, under one key.
type charge struct {
	key, account string
	amount       int
	fault        string // Sandbox-Fault
	credential   string // the Authorization header; empty means credential
}

func (c charge) body() string {
	return fmt.Sprintf(`{"account":%q,"amount":%d,"currency":"EUR"}`, c.account, c.amount)
}

// answer is what a caller got.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) String() string { return fmt.Sprintf("%d %s %v", a.status, a.body, a.header) }

// problem is the type of a problem, or "".
func (a answer) problem() string {
	var p struct{ Type string }
	if a.header.Get("Content-Type") != "application/problem+json" || json.Unmarshal(a.body, &p) != nil {
		return ""
	}
	return p.Type
}

func (a answer) charge(tb testing.TB) sandbox.Charge {
	tb.Helper()
	var c sandbox.Charge
	if err := json.Unmarshal(a.body, &c); err != nil || a.status != http.StatusCreated || c.ID == "" {
		tb.Errorf("not a charge: %v", a)
	}
	return c
}

// request sends one request with a credential and reads the whole answer.
func request(ctx context.Context, method, url string, header map[string]string, body string) (answer, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	r.Header.Set("Authorization", credential)
	for name, value := range header {
		r.Header.Set(name, value)
	}
	response, err := browser.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, text}, err
}

// send sends the charge once to the gateway at base.
func (c charge) send(ctx context.Context, base string) (answer, error) {
	header := map[string]string{"Content-Type": "application/json", "Idempotency-Key": c.key}
	if c.credential != "" {
		header["Authorization"] = c.credential
	}
	if c.fault != "" {
		header[sandbox.FaultHeader] = c.fault
	}
	return request(ctx, http.MethodPost, base+"/charges", header, c.body())
}

// insist sends the charge until it gets another answer than "in progress", as a good client does: with the
// same key, not sooner than it is told (here: than askAgain), and not for ever.
func (c charge) insist(ctx context.Context, base string) (answer, error) {
	for range triesMax {
		a, err := c.send(ctx, base)
		if err != nil || a.problem() != problemInFlight {
			return a, err
		}
		seconds, err := strconv.Atoi(a.header.Get("Retry-After"))
		if err != nil || seconds < 1 {
			return a, fmt.Errorf("in-flight without a good Retry-After: %v", a)
		}
		wait := min(time.Duration(seconds)*time.Second, askAgain)
		if err := pause(ctx, wait/2+rand.N(wait/2)); err != nil {
			return a, err
		}
	}
	return answer{}, fmt.Errorf("key %s was still in flight at try %d", c.key, triesMax)
}

// persist sends the charge to the gateways in turn until it is told something that another try won't change:
// it tries again after no answer, one of 500 or above, and "in progress".
func (c charge) persist(ctx context.Context, gateways ...string) (answer, error) {
	var a answer
	var err error
	for try := range triesMax {
		a, err = c.send(ctx, gateways[try%len(gateways)])
		if err == nil && a.status < http.StatusInternalServerError && a.problem() != problemInFlight {
			return a, nil
		}
		if err := pause(ctx, askAgain/2+rand.N(askAgain/2)); err != nil {
			return a, err
		}
	}
	return a, fmt.Errorf("key %s got no answer in %d tries, the last of them %v, %w", c.key, triesMax, a, err)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// mustSend is send for a request whose answer must arrive.
func (c charge) mustSend(tb testing.TB, base string) answer {
	tb.Helper()
	a, err := c.send(tb.Context(), base)
	if err != nil {
		tb.Fatalf("key %s: %v", c.key, err)
	}
	return a
}

// ledger reads all charges of a sandbox, or through a gateway; account may be empty.
func ledger(tb testing.TB, base, account string) []sandbox.Charge {
	tb.Helper()
	const pagesMax = 100
	var all []sandbox.Charge
	for range pagesMax {
		url := fmt.Sprintf("%s/charges?limit=1000&account=%s", base, account)
		if len(all) > 0 {
			url += "&after=" + all[len(all)-1].ID
		}
		a, err := request(tb.Context(), http.MethodGet, url, nil, "")
		if err != nil {
			tb.Fatal(err)
		}
		var page struct {
			Charges []sandbox.Charge
			More    bool
		}
		if err := json.NewDecoder(bytes.NewReader(a.body)).Decode(&page); err != nil || a.status != http.StatusOK {
			tb.Fatalf("GET %s: %v", url, a)
		}
		all = append(all, page.Charges...)
		if !page.More {
			return all
		}
	}
	tb.Fatalf("the ledger has more than %d pages", pagesMax)
	return nil
}

// wantCharges checks how often an account was charged.
func wantCharges(tb testing.TB, base, account string, want int) {
	tb.Helper()
	if got := ledger(tb, base, account); len(got) != want {
		tb.Errorf("account %s was charged %d times, want %d: %+v", account, len(got), want, got)
	}
}

// eventually asks ok again and again until it says yes.
func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	const between = 20 * time.Millisecond
	limit := time.Now().Add(waitMax)
	for !ok() {
		if time.Now().After(limit) {
			tb.Fatalf("not within %v: %s", waitMax, what)
		}
		if err := pause(tb.Context(), between); err != nil {
			tb.Fatal(err)
		}
	}
}

package sandbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fiftyhosts/fifty/server/sandbox"
)

const goodBody = `{"account":"alice","amount":1200,"currency":"eur"}`

var quiet = slog.New(slog.DiscardHandler)

func post(body, fault string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/charges", strings.NewReader(body))
	if fault != "" {
		r.Header.Set(sandbox.FaultHeader, fault)
	}
	return r
}

// serve hands r to the handler. closed says that the connection was closed without an answer.
func serve(h http.Handler, r *http.Request) (w *httptest.ResponseRecorder, closed bool) {
	w = httptest.NewRecorder()
	defer func() {
		if thrown := recover(); thrown != nil {
			if thrown != http.ErrAbortHandler {
				panic(thrown)
			}
			closed = true
		}
	}()
	h.ServeHTTP(w, r)
	return w, false
}

func decode[T any](t testing.TB, w *httptest.ResponseRecorder) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatalf("answer %d %q: %v", w.Code, w.Body, err)
	}
	return v
}

func count(t testing.TB, ledger sandbox.Ledger) int {
	t.Helper()
	all, err := ledger.List(context.Background(), sandbox.Query{})
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

func TestEachPostMakesAnotherChargeEvenUnderOneKey(t *testing.T) {
	t.Parallel()
	ledger := sandbox.NewMemory()
	now := time.Date(2027, 1, 2, 3, 4, 5, 678_912_345, time.FixedZone("", 3600))
	s := sandbox.New(ledger, sandbox.Config{Now: func() time.Time { return now }})
	ids := map[string]bool{}
	for range 2 {
		r := post(goodBody, "")
		r.Header.Set("Idempotency-Key", "same")
		w, _ := serve(s, r)
		c := decode[sandbox.Charge](t, w)
		ids[c.ID] = true
		if w.Code != http.StatusCreated || w.Header().Get("Location") != "/charges/"+c.ID {
			t.Errorf("got %d, Location %q for %s", w.Code, w.Header().Get("Location"), c.ID)
		}
		want := sandbox.Charge{ID: c.ID, Account: "alice", Amount: 1200, Currency: "EUR", Created: now.UTC().Truncate(time.Microsecond)}
		if c != want || !strings.HasPrefix(c.ID, "ch_") {
			t.Errorf("answered %+v, want %+v", c, want)
		}
		if kept, err := ledger.Find(t.Context(), c.ID); err != nil || kept != c {
			t.Errorf("answered %+v, but the ledger has %+v, %v", c, kept, err)
		}
	}
	if len(ids) != 2 || count(t, ledger) != 2 {
		t.Fatalf("two posts made the charges %v", ids)
	}
}

func TestAWrongRequestIsRefusedAndChargesNothing(t *testing.T) {
	t.Parallel()
	amount := func(text string) string { return `{"account":"a","currency":"EUR","amount":` + text + `}` }
	account := func(text string) string { return `{"amount":1,"currency":"EUR","account":` + text + `}` }
	currency := func(text string) string { return `{"amount":1,"account":"a","currency":` + text + `}` }
	for _, tt := range []struct{ body, fault, detail string }{
		{body: ``, detail: "not a JSON object"},
		{body: `[]`, detail: "not a JSON object"},
		{body: `null`, detail: "not a JSON object"},
		{body: `{}`, detail: "account must be"},
		{body: `{"account":"a","amount":1,"currency":"EUR"`, detail: "ends within"},
		{body: `{"account":"a","amount":1,"currency":`, detail: "currency is not JSON"},
		{body: `{"account"`, detail: "account is not JSON"},
		{body: `{,}`, detail: "not JSON"},
		{body: goodBody + `{}`, detail: "follows"},
		{body: goodBody + ` x`, detail: "follows"},
		{body: `{"account":"a","amount":1,"currency":"EUR","note":"x"}`, detail: `no field "note"`},
		{body: `{"Account":"a","amount":1,"currency":"EUR"}`, detail: `no field "Account"`},
		{body: `{"account":"a","amount":1,"amount":2,"currency":"EUR"}`, detail: "amount is there twice"},
		{body: "{\"account\":\"\xff\",\"amount\":1,\"currency\":\"EUR\"}", detail: "not UTF-8"},
		{body: account(`""`), detail: "account must be"},
		{body: account(`7`), detail: "account must be"},
		{body: account(`"a\u0000b"`), detail: "control character"},
		{body: account(`"\ud800"`), detail: "broken"},
		{body: account(`"` + strings.Repeat("a", 256) + `"`), detail: "256 bytes"},
		{body: amount(`0`), detail: "positive"},
		{body: amount(`-0`), detail: "positive"},
		{body: amount(`-5`), detail: "positive"},
		{body: amount(`1.5`), detail: "whole number"},
		{body: amount(`1e3`), detail: "whole number"},
		{body: amount(`"1"`), detail: "amount must be a number"},
		{body: amount(`null`), detail: "amount must be a number"},
		{body: amount(`1000000000000`), detail: "out of range"},
		{body: amount(`9223372036854775808`), detail: "out of range"},
		{body: currency(`"EURO"`), detail: "three letters"},
		{body: currency(`"E1R"`), detail: "three letters"},
		{body: currency(`"É1"`), detail: "three letters"},
		{body: currency(`978`), detail: "three letters"},
		{body: goodBody, fault: "explode", detail: "unknown"},
		{body: goodBody, fault: "slow", detail: "unknown"},
		{body: goodBody, fault: "slow=0s", detail: "above zero"},
		{body: goodBody, fault: "slow=61s", detail: "above zero"},
		{body: goodBody, fault: "slow=2", detail: "above zero"},
		{body: goodBody, fault: "slow=-2s", detail: "above zero"},
	} {
		t.Run(fmt.Sprintf("%.60s %s", tt.body, tt.fault), func(t *testing.T) {
			t.Parallel()
			ledger := sandbox.NewMemory()
			w, _ := serve(sandbox.New(ledger, sandbox.Config{}), post(tt.body, tt.fault))
			wantProblem(t, w, http.StatusBadRequest, tt.detail)
			if n := count(t, ledger); n != 0 {
				t.Errorf("it made %d charges", n)
			}
		})
	}
}

func wantProblem(t testing.TB, w *httptest.ResponseRecorder, status int, detail string) {
	t.Helper()
	p := decode[struct {
		Status        int
		Title, Detail string
	}](t, w)
	if w.Code != status || p.Status != status || p.Title != http.StatusText(status) || !strings.Contains(p.Detail, detail) {
		t.Errorf("got %d %+v, want %d with %q", w.Code, p, status, detail)
	}
	if got := w.Header().Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("Content-Type is %q", got)
	}
}

func TestTwoFaultsAreRefused(t *testing.T) {
	t.Parallel()
	r := post(goodBody, "drop")
	r.Header.Add(sandbox.FaultHeader, "slow=1s")
	w, _ := serve(sandbox.New(sandbox.NewMemory(), sandbox.Config{}), r)
	wantProblem(t, w, http.StatusBadRequest, "2 times")
}

func TestABodyThatIsTooLargeOrEndsEarlyChargesNothing(t *testing.T) {
	t.Parallel()
	ledger := sandbox.NewMemory()
	s := sandbox.New(ledger, sandbox.Config{})
	w, _ := serve(s, post(goodBody+strings.Repeat(" ", sandbox.BodyMax), ""))
	wantProblem(t, w, http.StatusRequestEntityTooLarge, "more than 65536 bytes")
	// The whole object arrived, and still the request is not whole.
	cut := io.MultiReader(strings.NewReader(goodBody), &failingReader{io.ErrUnexpectedEOF})
	w, _ = serve(s, httptest.NewRequest(http.MethodPost, "/charges", cut))
	wantProblem(t, w, http.StatusBadRequest, "ended early")
	if n := count(t, ledger); n != 0 {
		t.Errorf("%d charges were made", n)
	}
}

type failingReader struct{ err error }

func (r *failingReader) Read([]byte) (int, error) { return 0, r.err }

func TestTheLedgerIsReadInPages(t *testing.T) {
	t.Parallel()
	ledger := sandbox.NewMemory()
	s := sandbox.New(ledger, sandbox.Config{})
	for n := 1; n <= 5; n++ {
		if err := ledger.Add(t.Context(), charge(n, []string{"bob", "alice"}[n%2])); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		query, want string
		more        bool
	}{
		{"", "ch_001 ch_002 ch_003 ch_004 ch_005", false},
		{"?limit=2", "ch_001 ch_002", true},
		{"?limit=2&after=ch_002", "ch_003 ch_004", true},
		{"?limit=2&after=ch_004", "ch_005", false},
		{"?account=bob", "ch_002 ch_004", false},
		{"?account=nobody", "", false},
	} {
		w, _ := serve(s, httptest.NewRequest(http.MethodGet, "/charges"+tt.query, nil))
		got := decode[struct {
			Charges []sandbox.Charge
			More    bool
		}](t, w)
		ids := make([]string, 0, len(got.Charges))
		for _, c := range got.Charges {
			ids = append(ids, c.ID)
		}
		if w.Code != http.StatusOK || strings.Join(ids, " ") != tt.want || got.More != tt.more {
			t.Errorf("GET %s gave %d %v, more %v; want %s, more %v", tt.query, w.Code, ids, got.More, tt.want, tt.more)
		}
		if tt.want == "" && !strings.Contains(w.Body.String(), `"charges":[]`) {
			t.Errorf("GET %s gave %s, want an empty list", tt.query, w.Body)
		}
	}
	w, _ := serve(s, httptest.NewRequest(http.MethodGet, "/charges/ch_004", nil))
	if c := decode[sandbox.Charge](t, w); w.Code != http.StatusOK || c != charge(4, "bob") {
		t.Errorf("GET of a charge gave %d %+v", w.Code, c)
	}
}

func TestAWrongReadIsRefused(t *testing.T) {
	t.Parallel()
	s := sandbox.New(sandbox.NewMemory(), sandbox.Config{})
	for _, tt := range []struct {
		method, target string
		status         int
		detail         string
	}{
		{"GET", "/charges?limit=0", 400, "from 1 to 1000"},
		{"GET", "/charges?limit=1001", 400, "from 1 to 1000"},
		{"GET", "/charges?limit=x", 400, "from 1 to 1000"},
		{"GET", "/charges?after=ch_none", 400, "id of a charge"},
		{"GET", "/charges?after=%00", 400, "control characters"},
		{"GET", "/charges?account=%ff", 400, "control characters"},
		{"GET", "/charges/ch_none", 404, "no charge of this id"},
		{"GET", "/charges/%00", 404, "no charge of this id"},
		{"GET", "/", 404, "the sandbox has"},
		{"PUT", "/charges", 405, "PUT is not allowed"},
		{"POST", "/charges/ch_none", 405, "POST is not allowed"},
	} {
		w, _ := serve(s, httptest.NewRequest(tt.method, tt.target, nil))
		wantProblem(t, w, tt.status, tt.detail)
		if tt.status == http.StatusMethodNotAllowed && w.Header().Get("Allow") == "" {
			t.Errorf("%s %s does not say what is allowed", tt.method, tt.target)
		}
	}
}

func TestSlowChargesAfterTheWaitThoughTheClientHungUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ledger := sandbox.NewMemory()
		ctx, hangUp := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			serve(sandbox.New(ledger, sandbox.Config{}), post(goodBody, "slow=2s").WithContext(ctx))
		}()
		began := time.Now()
		hangUp()
		synctest.Wait()
		if n := count(t, ledger); n != 0 {
			t.Errorf("%d charges were made before the wait was over", n)
		}
		<-done
		if n := count(t, ledger); n != 1 || time.Since(began) != 2*time.Second {
			t.Errorf("%d charges after %v, want one after 2s", n, time.Since(began))
		}
	})
}

func TestDropChargesAndClosesTheConnection(t *testing.T) {
	t.Parallel()
	ledger := sandbox.NewMemory()
	server := httptest.NewServer(sandbox.New(ledger, sandbox.Config{}))
	t.Cleanup(server.Close)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/charges", strings.NewReader(goodBody))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(sandbox.FaultHeader, "drop")
	response, err := server.Client().Do(r)
	if err == nil {
		_ = response.Body.Close()
		t.Fatalf("it answered %s", response.Status)
	}
	if !errors.Is(err, io.EOF) {
		t.Errorf("the connection ended in %v, want EOF", err)
	}
	if n := count(t, ledger); n != 1 {
		t.Errorf("%d charges were made, want one", n)
	}
}

func TestACrashExitsBeforeOrAfterTheCharge(t *testing.T) {
	t.Parallel()
	for fault, want := range map[string]int{"crash-before": 0, "crash-after": 1} {
		ledger := sandbox.NewMemory()
		var codes []int
		exit := func(code int) {
			codes = append(codes, code)
			if n := count(t, ledger); n != want {
				t.Errorf("%s: %d charges at the exit, want %d", fault, n, want)
			}
		}
		w, closed := serve(sandbox.New(ledger, sandbox.Config{Exit: exit}), post(goodBody, fault))
		if !closed || w.Body.Len() > 0 || len(codes) != 1 || codes[0] != 137 {
			t.Errorf("%s: closed %v, answer %q, exit codes %v", fault, closed, w.Body, codes)
		}
		if n := count(t, ledger); n != want {
			t.Errorf("%s: %d charges at last, want %d", fault, n, want)
		}
	}
}

type brokenLedger struct{ sandbox.Ledger }

func (brokenLedger) Add(context.Context, sandbox.Charge) error {
	return errors.New("disk of host-7 is full")
}

func (brokenLedger) List(context.Context, sandbox.Query) ([]sandbox.Charge, error) {
	return nil, errors.New("disk of host-7 is full")
}

func TestALedgerThatFailsIsToldInTheLogNotToTheClient(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := sandbox.New(brokenLedger{}, sandbox.Config{Log: slog.New(slog.NewTextHandler(&log, nil))})
	for r, detail := range map[*http.Request]string{
		post(goodBody, ""): "may be booked or not",
		httptest.NewRequest(http.MethodGet, "/charges", nil): "can't be read",
	} {
		log.Reset()
		w, _ := serve(s, r)
		wantProblem(t, w, http.StatusServiceUnavailable, detail)
		if !strings.Contains(log.String(), "host-7") || strings.Contains(w.Body.String(), "host-7") {
			t.Errorf("log %q, answer %q", &log, w.Body)
		}
	}
}

func TestACommitIsNotCutShortByTheClient(t *testing.T) {
	t.Parallel()
	ledger := &contextLedger{Memory: sandbox.NewMemory()}
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	w, _ := serve(sandbox.New(ledger, sandbox.Config{Log: quiet}), post(goodBody, "").WithContext(gone))
	if w.Code != http.StatusCreated || ledger.err != nil || !ledger.bounded {
		t.Errorf("got %d; the ledger's context had %v, bounded %v", w.Code, ledger.err, ledger.bounded)
	}
}

type contextLedger struct {
	*sandbox.Memory
	err     error
	bounded bool
}

func (l *contextLedger) Add(ctx context.Context, c sandbox.Charge) error {
	l.err = ctx.Err()
	_, l.bounded = ctx.Deadline()
	return l.Memory.Add(ctx, c)
}

package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

const (
	goodBody = `{"account":"alice","amount":1200,"currency":"EUR"}`
	goodHead = "Authorization: " + credential + "\r\nContent-Type: application/json\r\n"
)

// rawRequest is a POST /charges written by hand, since no client would send what is wrong with these.
type rawRequest struct {
	name   string
	head   string // lines after Host and Connection, each with its CRLF
	body   string
	half   bool // closes its half of the connection after the body
	status int
	want   string // type of the problem after urn:fifty:problem:, or a part of another answer
}

func key(value string) string { return "Idempotency-Key: " + value + "\r\n" }

func length(n int) string { return fmt.Sprintf("Content-Length: %d\r\n", n) }

func badKeys() []rawRequest {
	bad := func(name, head, want string) rawRequest {
		return rawRequest{name: name, head: goodHead + head + length(len(goodBody)), body: goodBody, status: 400, want: want}
	}
	return []rawRequest{
		bad("no key", "", "key-missing"),
		bad("an empty key", key(""), "key-invalid"),
		bad("an empty quoted key", key(`""`), "key-invalid"),
		bad("a key without its closing quote", key(`"order-1`), "key-invalid"),
		bad("a key with a quote within", key(`order"1`), "key-invalid"),
		bad("a key that is too long", key(strings.Repeat("k", 256)), "key-invalid"),
		bad("a list of keys", key("order-1, order-2"), "key-invalid"),
		bad("a key with parameters", key(`"order-1";a=b`), "key-invalid"),
		bad("two keys", key("order-1")+key("order-2"), "key-invalid"),
		bad("the same key twice", key("order-1")+key("order-1"), "key-invalid"),
		bad("a key in UTF-8", key("caf\xc3\xa9"), "key-invalid"),
		bad("a key in no encoding", key("caf\xe9"), "key-invalid"),
		bad("a key with a tab", key("\"order\t1\""), "key-invalid"),
		bad("a key with a NUL", key("order\x001"), "400 Bad Request"),
	}
}

func badCallers() []rawRequest {
	bad := func(name, head string) rawRequest {
		head += "Content-Type: application/json\r\n" + key("order-1") + length(len(goodBody))
		return rawRequest{name: name, head: head, body: goodBody, status: 401, want: "scope-missing"}
	}
	return []rawRequest{
		bad("no credential", ""),
		bad("an empty credential", "Authorization:\r\n"),
		bad("two credentials", "Authorization: "+credential+"\r\nAuthorization: Bearer mallory\r\n"),
	}
}

func badBodies() []rawRequest {
	bad := func(name, head, body string, half bool, status int, want string) rawRequest {
		return rawRequest{name, goodHead + key("order-1") + head, body, half, status, want}
	}
	chunked := "Transfer-Encoding: chunked\r\n"
	return []rawRequest{
		bad("a body that ends early", length(len(goodBody)+1), goodBody, true, 400, "body-incomplete"),
		bad("no body though one was announced", length(len(goodBody)), "", true, 400, "body-incomplete"),
		bad("a chunk that ends early", chunked, "40\r\n"+goodBody, true, 400, "body-incomplete"),
		bad("chunks without an end", chunked, fmt.Sprintf("%x\r\n%s\r\n", len(goodBody), goodBody), true, 400, "body-incomplete"),
		bad("a chunk whose length is no number", chunked, "zz\r\n"+goodBody+"\r\n0\r\n\r\n", false, 400, "body-incomplete"),
		bad("two lengths", length(len(goodBody))+length(10), goodBody, false, 400, "400 Bad Request"),
		bad("a length below zero", "Content-Length: -1\r\n", goodBody, false, 400, "400 Bad Request"),
		bad("a body that is too large", length(2<<20), "", false, 413, "body-too-large"),
	}
}

// TestBadRequestIsToldWhatIsWrongAndUsesNoKey: each request is refused in words of its own, nothing is
// charged, and the key that it names is still free afterwards.
func TestBadRequestIsToldWhatIsWrongAndUsesNoKey(t *testing.T) {
	t.Parallel()
	service := startSandbox(t, "memory:")
	gateway := startProxy(t, service.url, sqliteURL(t))
	for _, list := range [][]rawRequest{badKeys(), badCallers(), badBodies()} {
		for _, r := range list {
			t.Run(r.name, func(t *testing.T) {
				got := r.send(t, gateway.url)
				if name, ours := strings.CutPrefix(got.problem(), "urn:fifty:problem:"); got.status != r.status || ours && name != r.want {
					t.Errorf("got %v, want %d %s", got, r.status, r.want)
				} else if !ours && !strings.Contains(string(got.body), r.want) {
					t.Errorf("got %v, want %q", got, r.want)
				}
				wantCharges(t, service.url, "", 0)
			})
		}
	}
	// A body cut short by its own length is a whole request to everybody: the service refuses it, and that
	// is the answer to its key.
	cut := rawRequest{head: goodHead + key("order-0") + length(10), body: goodBody}
	if got := cut.send(t, gateway.url); got.status != http.StatusBadRequest || got.problem() != "" {
		t.Errorf("a length that is too short got %v, want the service's own 400", got)
	}
	wantCharges(t, service.url, "", 0)

	good := rawRequest{head: goodHead + key("order-1") + length(len(goodBody)), body: goodBody}
	for range 2 {
		if got := good.send(t, gateway.url); got.status != http.StatusCreated {
			t.Errorf("the good request got %v", got)
		}
	}
	wantCharges(t, service.url, "", 1)
}

// TestKeyIsOneCallersAndOneIntents: another caller's request under the same key is a request of its own, and
// never gets the first one's answer (H2); another request of the same caller is refused.
func TestKeyIsOneCallersAndOneIntents(t *testing.T) {
	t.Parallel()
	service := startSandbox(t, "memory:")
	gateway := startProxy(t, service.url, sqliteURL(t))
	c := charge{key: "order-1", account: "alice", amount: 1200}
	first := c.mustSend(t, gateway.url).charge(t)

	other := c
	other.credential = "Bearer mallory-secret"
	if got := other.mustSend(t, gateway.url); got.charge(t).ID == first.ID || got.header.Get(replayedHeader) != "" {
		t.Errorf("another caller got %v, the first one's answer", got)
	}
	wantCharges(t, service.url, "alice", 2)

	dearer := c
	dearer.amount = 120_000
	if got := dearer.mustSend(t, gateway.url); got.status != http.StatusUnprocessableEntity || got.problem() != "urn:fifty:problem:mismatch" {
		t.Errorf("another amount under the same key got %v, want mismatch", got)
	}
	wantCharges(t, service.url, "alice", 2)
	if again := c.mustSend(t, gateway.url).charge(t); again != first {
		t.Errorf("the first request then got %+v, want %+v", again, first)
	}
}

// TestClientThatLeavesAmidItsRequestLeavesNothing: half a request and a reset, again and again; then the
// whole one.
func TestClientThatLeavesAmidItsRequestLeavesNothing(t *testing.T) {
	t.Parallel()
	gateway := startServe(t, sqliteURL(t))
	whole := rawRequest{head: goodHead + key("order-1") + length(len(goodBody)), body: goodBody}
	text := whole.text()
	for cut := 1; cut < len(text); cut += 7 {
		conn := dial(t, gateway.url)
		if _, err := io.WriteString(conn, text[:cut]); err != nil {
			t.Fatal(err)
		}
		reset(conn)
	}
	wantCharges(t, gateway.url, "", 0)
	got := whole.send(t, gateway.url)
	got.charge(t)
	if got.header.Get(replayedHeader) != "" {
		t.Errorf("the first whole request got a replay: %v", got)
	}
	wantCharges(t, gateway.url, "", 1)
}

func (r rawRequest) text() string {
	return "POST /charges HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n" + r.head + "\r\n" + r.body
}

// send writes the request as it is and reads the first answer.
func (r rawRequest) send(tb testing.TB, base string) answer {
	tb.Helper()
	conn := dial(tb, base)
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, r.text()); err != nil {
		tb.Fatal(err)
	}
	if r.half {
		if err := conn.CloseWrite(); err != nil {
			tb.Fatal(err)
		}
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		tb.Fatalf("no answer: %v", err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		tb.Fatalf("half an answer: %v", err)
	}
	return answer{response.StatusCode, response.Header, body}
}

func dial(tb testing.TB, base string) *net.TCPConn {
	tb.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		tb.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(waitMax)); err != nil {
		tb.Fatal(err)
	}
	return conn.(*net.TCPConn)
}

package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/fiftyhosts/fifty/idempotency/idempotencyhttp"
)

// Bounds of what hosts and clients say to each other.
const (
	answerMax  = 64 << 10         // of an answer's body, in bytes
	attemptMax = 30 * time.Second // of one attempt
)

// service is a host's HTTP server on loopback. It ends with the process.
type service struct {
	URL  string
	lose chan struct{} // a token for each answer that gets lost
}

// losses bounds how many answers of one host can be lost.
const losses = 1000

// listen serves h on a free port of loopback.
func listen(h http.Handler) (*service, error) {
	var cfg net.ListenConfig
	l, err := cfg.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &service{URL: "http://" + l.Addr().String(), lose: make(chan struct{}, losses)}
	server := &http.Server{Handler: h, ReadHeaderTimeout: attemptMax}
	go func() { _ = server.Serve(l) }()
	return s, nil
}

// losing lets h do all its work and store its answer, and then breaks the connection instead of sending it, as
// often as the service has tokens for it.
func losing(a *Actor, s func() *service, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-s().lose:
			h.ServeHTTP(nowhere{http.Header{}}, r)
			a.Say(Step{"answers", "the connection breaks: the answer is lost", Wait})
			panic(http.ErrAbortHandler)
		default:
			h.ServeHTTP(w, r)
		}
	})
}

// nowhere is where an answer goes that nobody gets.
type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header         { return n.header }
func (n nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (n nowhere) WriteHeader(int)             {}

// apiKeys are the shop's customers. A scope is who the caller is, verified: never what it says of itself.
var apiKeys = map[string]string{
	"key-of-shop-7": "shop-7",
	"key-of-anna":   "anna",
	"key-of-ben":    "ben",
}

var errNoCaller = errors.New("no such API key")

// caller is who sent a request.
func caller(r *http.Request) (string, error) {
	var secret string
	if _, err := fmt.Sscanf(r.Header.Get("Authorization"), "Bearer %s", &secret); err != nil || apiKeys[secret] == "" {
		return "", errNoCaller
	}
	return apiKeys[secret], nil
}

// balancer sends each request to the next address, as a load balancer does.
type balancer struct {
	urls []string
	base http.RoundTripper
	// about is told what became of each attempt: its answer or its error.
	about func(status int, replayed bool, err error)

	mu   sync.Mutex
	next int
}

// newBalancer has connections of its own: a kept one could be found dead and be tried again behind our back.
func newBalancer(urls []string, about func(status int, replayed bool, err error)) *balancer {
	return &balancer{urls: urls, about: about, base: &http.Transport{DisableKeepAlives: true}}
}

// RoundTrip sends one attempt.
func (b *balancer) RoundTrip(r *http.Request) (*http.Response, error) {
	b.mu.Lock()
	nth := b.next % len(b.urls)
	b.next++
	b.mu.Unlock()
	r, err := redirected(r, b.urls[nth])
	if err != nil {
		return nil, err
	}
	resp, err := b.base.RoundTrip(r)
	if err != nil {
		b.about(0, false, err)
		return nil, err
	}
	b.about(resp.StatusCode, resp.Header.Get(idempotencyhttp.ReplayedHeader) != "", nil)
	return resp, nil
}

func redirected(r *http.Request, to string) (*http.Request, error) {
	target, err := r.URL.Parse(to)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.URL.Host, r.URL.Scheme, r.Host = target.Host, target.Scheme, target.Host
	return r, nil
}

// chargeBody is the body of POST /charges.
type chargeBody struct {
	Order string `json:"order"`
	Cents int64  `json:"cents"`
}

// newPurchase makes the request for a purchase. Its host is the balancer's to choose.
func newPurchase(ctx context.Context, p purchase) (*http.Request, error) {
	body, err := json.Marshal(chargeBody{p.Order, p.Cents})
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://shop.invalid/charges", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer key-of-"+p.Account)
	r.Header.Set("Content-Type", "application/json")
	return r, nil
}

// read reads a purchase that has arrived.
func read(r *http.Request) (purchase, error) {
	who, err := caller(r)
	if err != nil {
		return purchase{}, err
	}
	var body chargeBody
	err = json.NewDecoder(io.LimitReader(r.Body, answerMax)).Decode(&body)
	return purchase{Key: r.Header.Get(idempotencyhttp.KeyHeader), Account: who, Order: body.Order, Cents: body.Cents}, err
}

// answer writes a receipt.
func answer(w http.ResponseWriter, r receipt) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(r) // the client may be gone
}

// answered is what a client got.
type answered struct {
	Status   int     `json:"status"`
	Replayed bool    `json:"replayed"`
	Receipt  receipt `json:"receipt"`
	Attempts int     `json:"attempts"`
}

// send sends a request and reads its answer.
func send(client http.RoundTripper, r *http.Request) (answered, error) {
	resp, err := client.RoundTrip(r)
	if err != nil {
		return answered{}, err
	}
	defer resp.Body.Close()
	got := answered{Status: resp.StatusCode, Replayed: resp.Header.Get(idempotencyhttp.ReplayedHeader) != ""}
	if resp.StatusCode != http.StatusCreated {
		return got, nil
	}
	return got, json.NewDecoder(io.LimitReader(resp.Body, answerMax)).Decode(&got.Receipt)
}

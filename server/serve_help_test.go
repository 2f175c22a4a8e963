package server

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"
)

// served is a Serve under test.
type served struct {
	base, admin string // URLs
	out         string // what it printed at the start
	log         *lines
	stop        context.CancelFunc
	result      chan error
	client      *http.Client
}

// serve starts Serve on free ports and waits until it takes requests. It is stopped at the test's end.
func serve(t testing.TB, cfg ServeConfig) *served {
	t.Helper()
	s, out := begin(t, cfg)
	select {
	case s.out = <-out:
	case err := <-s.result:
		t.Fatalf("it did not start: %v", err)
	}
	s.base = find(t, s.out, `listening on (\S+)`)
	s.admin = find(t, s.out, `admin on +(\S+)`)
	return s
}

// begin starts Serve and returns before it is ready; out gets what it prints.
func begin(t testing.TB, cfg ServeConfig) (*served, <-chan string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out := make(printed, 1)
	s := &served{log: &lines{}, stop: cancel, result: make(chan error, 1), client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	cfg.Listen, cfg.Admin, cfg.Out = "127.0.0.1:0", "127.0.0.1:0", out
	cfg.Log = slog.New(slog.NewJSONHandler(s.log, nil))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.result <- Serve(ctx, cfg)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return s, out
}

// printed passes on each write.
type printed chan string

func (p printed) Write(text []byte) (int, error) {
	p <- string(text)
	return len(text), nil
}

func find(t testing.TB, text, pattern string) string {
	t.Helper()
	found := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("no %s in:\n%s", pattern, text)
	}
	return found[1]
}

func (s *served) get(t testing.TB, url string) (int, string) {
	t.Helper()
	resp, err := s.client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// curl does what one of the printed lines does.
func (s *served) curl(t testing.TB, line string) answer {
	t.Helper()
	url := find(t, line, `^curl -i (\S+)`)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(find(t, line, `-d '([^']*)'`)))
	if err != nil {
		t.Fatal(err)
	}
	for _, header := range regexp.MustCompile(`-H '([^:]+): ([^']*)'`).FindAllStringSubmatch(line, -1) {
		r.Header.Set(header[1], header[2])
	}
	resp, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(text)}
}

// working is an upstream that reports when a request is at work, and answers when it is let.
type working struct {
	*upstream
	arrived, finish chan struct{}
}

func startWorking(t testing.TB) *working {
	t.Helper()
	w := &working{arrived: make(chan struct{}, 10), finish: make(chan struct{})}
	w.upstream = startUpstream(t, func(rw http.ResponseWriter, r *http.Request) {
		w.arrived <- struct{}{}
		<-w.finish
		created(rw, r)
	})
	return w
}

// post sends a keyed request through s, and returns where its answer will be.
func (s *served) post(t testing.TB) <-chan answer {
	t.Helper()
	got := make(chan answer, 1)
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, s.base+"/charges", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Idempotency-Key", "k1")
	go func() {
		resp, err := s.client.Do(r)
		if err != nil {
			got <- answer{body: err.Error()}
			return
		}
		defer func() { _ = resp.Body.Close() }()
		text, _ := io.ReadAll(resp.Body)
		got <- answer{resp.StatusCode, resp.Header, string(text)}
	}()
	return got
}

// eventually waits for something that another goroutine brings about.
func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	limit := time.After(20 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

func record(h http.Handler, path string) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

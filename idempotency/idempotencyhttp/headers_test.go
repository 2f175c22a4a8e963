package idempotencyhttp_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/fiftyhosts/fifty/idempotency/idempotencyhttp"
	"github.com/fiftyhosts/fifty/store/memory"
)

// chatty answers with every kind of field.
func chatty(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Location", "/charges/ch_1")
	h.Add("Set-Cookie", "a=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT")
	h.Add("Set-Cookie", "b=2, still b")
	h.Set("X-Trace", "7")
	h["x-Odd"] = []string{"odd"} // not as net/http spells it
	h.Set("Connection", "X-Hop")
	h.Set("X-Hop", "hop")
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, `{"id":"ch_1"}`)
}

func TestOnlyListedHeadersAreReplayedAndAllAreSentFirst(t *testing.T) {
	for name, c := range map[string]struct {
		list []string
		want []string // beside Content-Type and Content-Length
	}{
		"no list":        {nil, []string{"Location", "Set-Cookie", "X-Trace", "x-Odd"}},
		"an empty list":  {[]string{}, nil},
		"two":            {[]string{"location", "SET-COOKIE"}, []string{"Location", "Set-Cookie"}},
		"an odd one":     {[]string{"X-Odd"}, []string{"x-Odd"}},
		"none that came": {[]string{"ETag"}, nil},
		"a hop's":        {[]string{"X-Hop"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, idempotencyhttp.Config{Headers: c.list}, chatty)
			first := s.do(post("k1", charge500)).Header()
			for _, field := range []string{"Location", "Set-Cookie", "X-Trace", "x-Odd"} {
				if len(first[field]) == 0 {
					t.Fatalf("the first answer has no %s: %q", field, first)
				}
			}
			w := s.do(post("k1", charge500))
			wantReplay(t, w, http.StatusCreated, `{"id":"ch_1"}`)
			want := append([]string{"Content-Length", "Content-Type", "Idempotency-Replayed"}, c.want...)
			var got []string
			for field := range w.Header() {
				got = append(got, field)
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Fatalf("the replay has %q, want %q", got, want)
			}
			if cookies := w.Header()["Set-Cookie"]; slices.Contains(want, "Set-Cookie") && !slices.Equal(cookies, first["Set-Cookie"]) {
				t.Fatalf("the cookies are %q, want each on its own: %q", cookies, first["Set-Cookie"])
			}
		})
	}
}

// Without them the replayed bytes would be something else than the first ones were.
func TestWhatSaysHowToReadABodyIsKeptWithoutBeingListed(t *testing.T) {
	for name, fields := range map[string]http.Header{
		"encoded":          {"Content-Encoding": {"gzip"}, "Content-Type": {"text/csv"}},
		"a part":           {"Content-Range": {"bytes 0-3/9"}, "Content-Type": {"text/csv"}},
		"a type unguessed": {"Content-Type": {"text/html; charset=utf-8"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, idempotencyhttp.Config{Headers: []string{}}, func(w http.ResponseWriter, _ *http.Request) {
				for field, values := range fields {
					if name != "a type unguessed" { // that one is for net/http to guess
						w.Header()[field] = values
					}
				}
				_, _ = io.WriteString(w, "<p>")
			})
			url, client := s.serve(nil)
			client.Transport.(*http.Transport).DisableCompression = true // else it decodes
			first := send(t, client, onWire(t, url, "k1", charge500))
			again := send(t, client, onWire(t, url, "k1", charge500))
			if again.Header.Get("Idempotency-Replayed") != "true" || again.Body != first.Body || again.ContentLength != first.ContentLength {
				t.Fatalf("got %+v, then %+v", first, again)
			}
			for field, values := range fields {
				if !slices.Equal(again.Header[field], values) || !slices.Equal(first.Header[field], values) {
					t.Fatalf("%s is %q, then %q; want %q", field, first.Header[field], again.Header[field], values)
				}
			}
		})
	}
}

func TestTheLengthOfAnAnswerToHeadIsKeptWithoutBeingListed(t *testing.T) {
	s := newSite(t, idempotencyhttp.Config{Headers: []string{}, Methods: []string{http.MethodHead}}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1234")
	})
	for range 2 {
		r := post("k1", "")
		r.Method = http.MethodHead
		if w := s.do(r); w.Header().Get("Content-Length") != "1234" {
			t.Fatalf("the length is %q", w.Header().Get("Content-Length"))
		}
	}
	s.wantRuns(1)
}

// The bound is on what is kept, so a header that is large by what is not kept is no reason not to keep.
func TestALargeHeaderThatIsNotListedLeavesTheAnswerReplayable(t *testing.T) {
	s := newSite(t, idempotencyhttp.Config{Headers: []string{"Location"}}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Trace", strings.Repeat("x", idempotencyhttp.HeaderMax))
		charge(w, r)
	})
	wantFirst(t, s.do(post("k1", charge500)), http.StatusCreated, `{"id":"ch_1"}`)
	wantReplay(t, s.do(post("k1", charge500)), http.StatusCreated, `{"id":"ch_1"}`)
}

func TestAnAnswerOfATransactionKeepsTheListedHeaders(t *testing.T) {
	s := newTxSite(t, idempotencyhttp.Config{Headers: []string{"Location"}}, func(w http.ResponseWriter, r *http.Request, _ *memory.Tx) {
		chatty(w, r)
	})
	if h := s.do(post("k1", charge500)).Header(); h.Get("X-Trace") != "7" {
		t.Fatalf("the first answer has %q", h)
	}
	if h := s.do(post("k1", charge500)).Header(); h.Get("X-Trace") != "" || h.Get("Location") == "" || h.Get("Idempotency-Replayed") != "true" {
		t.Fatalf("the replay has %q", h)
	}
}

func TestAHeaderThatCantBeKeptIsAFaultOfTheSetUp(t *testing.T) {
	for name, want := range map[string]string{
		"":                  "is no name",
		"X Trace":           "is no name",
		"X-Trace:":          "is no name",
		"käse":              "is no name",
		"connection":        "about one connection",
		"Transfer-Encoding": "about one connection",
	} {
		func() {
			defer func() {
				if told, ok := recover().(string); !ok || !strings.Contains(told, want) || !strings.Contains(told, "Config.Headers") {
					t.Errorf("%q: got %v, want a panic that says: %s", name, told, want)
				}
			}()
			idempotencyhttp.Middleware(newKeys(t, idempotencyhttp.Config{}).keys, idempotencyhttp.Config{Scope: bearer, Headers: []string{name}})
		}()
	}
}

// The list that a program keeps using is not the one that the middleware reads.
func TestTheListOfHeadersIsCopied(t *testing.T) {
	list := []string{"Location", "X-Trace"}
	s := newSite(t, idempotencyhttp.Config{Headers: list}, chatty)
	list[1] = "Set-Cookie"
	s.do(post("k1", charge500))
	if h := s.do(post("k1", charge500)).Header(); h.Get("X-Trace") != "7" || h.Get("Set-Cookie") != "" {
		t.Fatalf("the replay has %q", h)
	}
}

package idempotencyhttp_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/fiftyhosts/fifty/idempotency/idempotencyhttp"
)

// echo answers with the body and with what the request says of it.
func echo(w http.ResponseWriter, r *http.Request) {
	got, err := io.ReadAll(r.Body)
	_, _ = fmt.Fprintf(w, "%d %d %v %s", r.ContentLength, len(r.TransferEncoding), err, got)
}

// head is the start of a raw request with a key; the framing of the body follows.
const head = "POST /charges HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer acme\r\nIdempotency-Key: k\r\n"

func TestHandlerGetsTheWholeBody(t *testing.T) {
	// Below, at and above MemoryMax; above it the body waits in a file.
	for _, size := range []int{0, 1, 7, 8, 9, 64} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			s := newSite(t, idempotencyhttp.Config{MemoryMax: 8, BodyMax: 64}, echo)
			url, client := s.serve(nil)
			text := strings.Repeat("b", size)
			known := send(t, client, onWire(t, url, "k", text)).Body
			if known != fmt.Sprintf("%d 0 <nil> %s", size, text) {
				t.Fatalf("with a length: %q", known)
			}
			chunked := onWire(t, url, "chunked", text)
			chunked.Body, chunked.ContentLength, chunked.GetBody = io.NopCloser(strings.NewReader(text)), -1, nil
			if got := send(t, client, chunked).Body; got != known {
				t.Fatalf("chunked: %q", got)
			}
			wantEmptyFolder(t, os.Getenv("TMPDIR"))
		})
	}
}

func TestBodyOfTheHandlerCanNotBeSentAgainByTheHTTPClient(t *testing.T) {
	for name, text := range map[string]string{"empty": "", "not empty": "{}"} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, idempotencyhttp.Config{}, func(w http.ResponseWriter, r *http.Request) {
				out, err := http.NewRequestWithContext(r.Context(), r.Method, "http://upstream", r.Body)
				if err != nil {
					t.Error(err)
					return
				}
				if r.GetBody != nil || out.GetBody != nil || out.Body == nil || out.Body == http.NoBody {
					t.Errorf("a client would take this body for one that it may send again: %T", out.Body)
				}
			})
			s.do(post("k", text))
			s.wantRuns(1)
		})
	}
}

func TestBodyAboveItsBoundRunsNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s := newSite(t, idempotencyhttp.Config{MemoryMax: 8, BodyMax: 64}, mustNotRun(t))
	url, client := s.serve(nil)
	text := strings.Repeat("b", 65)
	res := send(t, client, onWire(t, url, "k", text))
	wantProblemOf(t, res, "body-too-large", 413)
	chunked := onWire(t, url, "k", text)
	chunked.Body, chunked.ContentLength, chunked.GetBody = io.NopCloser(strings.NewReader(text)), -1, nil
	res = send(t, client, chunked)
	wantProblemOf(t, res, "body-too-large", 413)
	wantEmptyFolder(t, os.Getenv("TMPDIR"))
}

func TestAnnouncedLengthAboveTheBoundIsRefusedUnread(t *testing.T) {
	s := newSite(t, idempotencyhttp.Config{BodyMax: 64}, mustNotRun(t))
	url, _ := s.serve(nil)
	res := rawAnswer(t, raw(t, url, head+"Content-Length: 65\r\n\r\n", false))
	wantProblemOf(t, res, "body-too-large", 413)
}

func TestBodyThatBreaksOffRunsNothingAndLeavesTheKeyAlone(t *testing.T) {
	for name, rest := range map[string]string{
		"shorter than its Content-Length":         "Content-Length: 10\r\n\r\nshort",
		"shorter, and in a file by then":          "Content-Length: 100\r\n\r\n" + strings.Repeat("b", 50),
		"nothing of it came":                      "Content-Length: 10\r\n\r\n",
		"chunks without their end":                "Transfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n",
		"a chunk that is cut":                     "Transfer-Encoding: chunked\r\n\r\nff\r\nshort",
		"a chunk whose size is no number":         "Transfer-Encoding: chunked\r\n\r\nzz\r\nshort\r\n0\r\n\r\n",
		"a chunk that is longer than its size":    "Transfer-Encoding: chunked\r\n\r\n2\r\nshort\r\n0\r\n\r\n",
		"chunks whose end breaks off":             "Transfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n0\r\n",
		"exactly MemoryMax, then the line breaks": "Content-Length: 9\r\n\r\n12345678",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			s := newSite(t, idempotencyhttp.Config{MemoryMax: 8}, echo)
			url, client := s.serve(nil)
			res := rawAnswer(t, raw(t, url, head+rest, true))
			p := wantProblemOf(t, res, "body-incomplete", 400)
			if !strings.Contains(p.Detail, "same key") {
				t.Fatalf("detail %q", p.Detail)
			}
			s.wantRuns(0)
			wantEmptyFolder(t, os.Getenv("TMPDIR"))
			if got := send(t, client, onWire(t, url, "k", "whole")).Body; got != "5 0 <nil> whole" {
				t.Fatalf("the whole request after it: %q", got)
			}
		})
	}
}

func TestContentLengthThatLiesLowEndsTheBodyThere(t *testing.T) {
	s := newSite(t, idempotencyhttp.Config{}, echo)
	url, _ := s.serve(nil)
	if res := rawAnswer(t, raw(t, url, head+"Content-Length: 4\r\n\r\nbody and more", false)); res.Body != "4 0 <nil> body" {
		t.Fatalf("%q", res.Body)
	}
	s.wantRuns(1) // the rest is no request of its own: the connection ends
}

func TestTwoDifferentContentLengthsAreNoRequest(t *testing.T) {
	s := newSite(t, idempotencyhttp.Config{}, mustNotRun(t))
	url, _ := s.serve(nil)
	if res := rawAnswer(t, raw(t, url, head+"Content-Length: 4\r\nContent-Length: 5\r\n\r\nbody!", false)); res.StatusCode != 400 {
		t.Fatalf("%d", res.StatusCode)
	}
}

func TestTwoKeyLinesOnTheWireAreRefused(t *testing.T) {
	s := newSite(t, idempotencyhttp.Config{}, mustNotRun(t))
	url, _ := s.serve(nil)
	res := rawAnswer(t, raw(t, url, head+"idempotency-key: k\r\nContent-Length: 0\r\n\r\n", false))
	wantProblemOf(t, res, "key-invalid", 400)
}

func TestBodyThatTheHandlerDoesNotReadIsNoMatter(t *testing.T) {
	s := newSite(t, idempotencyhttp.Config{MemoryMax: 8}, charge)
	url, client := s.serve(nil)
	text := strings.Repeat("b", 1000)
	for i := range 2 {
		res := send(t, client, onWire(t, url, "k", text))
		if res.StatusCode != 201 || res.Body != `{"id":"ch_1"}` || (res.Header.Get("Idempotency-Replayed") == "true") != (i == 1) {
			t.Fatalf("%d: %d %q %v", i, res.StatusCode, res.Body, res.Header)
		}
	}
	s.wantRuns(1)
}

func TestClosedBodyReadsNoMore(t *testing.T) {
	s := newSite(t, idempotencyhttp.Config{}, func(w http.ResponseWriter, r *http.Request) {
		_ = r.Body.Close()
		if _, err := r.Body.Read(make([]byte, 1)); !errors.Is(err, http.ErrBodyReadAfterClose) {
			t.Errorf("%v", err)
		}
	})
	s.do(post("k", "{}"))
	s.wantRuns(1)
}

func TestBodyThatCannotBeSpooledRunsNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()+"/missing")
	s := newSite(t, idempotencyhttp.Config{MemoryMax: 8}, mustNotRun(t))
	w := s.do(post("k", strings.Repeat("b", 9)))
	wantProblemIn(t, w, "store-unavailable", 503)
	if strings.Contains(w.Body.String(), "missing") {
		t.Fatalf("the problem tells where our files are: %s", w.Body)
	}
}

func TestFileOfABodyIsGoneWhenTheHandlerPanics(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s := newSite(t, idempotencyhttp.Config{MemoryMax: 8}, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	url, client := s.serve(nil)
	wantBroken(t, client, onWire(t, url, "k", strings.Repeat("b", 9)))
	wantEmptyFolder(t, os.Getenv("TMPDIR"))
}

func TestSameIntentIsKnownByMethodPathQueryTypeAndBody(t *testing.T) {
	large := `{"a":"` + strings.Repeat("x", 1<<20) + `","b":1}`
	largeSwapped := `{"b":1,"a":"` + strings.Repeat("x", 1<<20) + `"}`
	const jsonType, form = "application/json", "application/x-www-form-urlencoded"
	type ask struct{ method, target, media, body string }
	for name, c := range map[string]struct {
		first, second ask
		same          bool
	}{
		"members in another order":      {ask{"POST", "/c", jsonType, `{"a":1,"b":[2]}`}, ask{"POST", "/c", jsonType, "{ \"b\": [2],\n\"a\": 1.0 }"}, true},
		"members of a +json type":       {ask{"POST", "/c", "application/vnd.api+json", `{"a":1,"b":2}`}, ask{"POST", "/c", "application/vnd.api+json", `{"b":2,"a":1}`}, true},
		"a charset":                     {ask{"POST", "/c", jsonType, `{}`}, ask{"POST", "/c", "Application/JSON; charset=UTF-8", `{}`}, true},
		"a malformed parameter":         {ask{"POST", "/c", jsonType, `{}`}, ask{"POST", "/c", "application/json; =", `{}`}, true},
		"another value":                 {ask{"POST", "/c", jsonType, `{"a":1}`}, ask{"POST", "/c", jsonType, `{"a":2}`}, false},
		"numbers beyond 2^53":           {ask{"POST", "/c", jsonType, `{"a":9007199254740992}`}, ask{"POST", "/c", jsonType, `{"a":9007199254740993}`}, false},
		"elements in another order":     {ask{"POST", "/c", jsonType, `[1,2]`}, ask{"POST", "/c", jsonType, `[2,1]`}, false},
		"a form in another order":       {ask{"POST", "/c", form, "a=1&b=2"}, ask{"POST", "/c", form, "b=2&a=1"}, false},
		"another type":                  {ask{"POST", "/c", jsonType, `1`}, ask{"POST", "/c", form, `1`}, false},
		"another path":                  {ask{"POST", "/c", jsonType, `1`}, ask{"POST", "/d", jsonType, `1`}, false},
		"another escape of the path":    {ask{"POST", "/c/a%2Fb", jsonType, `1`}, ask{"POST", "/c/a/b", jsonType, `1`}, false},
		"another query":                 {ask{"POST", "/c?x=1", jsonType, `1`}, ask{"POST", "/c?x=2", jsonType, `1`}, false},
		"another method":                {ask{"POST", "/c", jsonType, `1`}, ask{"PATCH", "/c", jsonType, `1`}, false},
		"no body and an empty object":   {ask{"POST", "/c", jsonType, ``}, ask{"POST", "/c", jsonType, `{}`}, false},
		"a large body, unchanged":       {ask{"POST", "/c", jsonType, large}, ask{"POST", "/c", jsonType, large}, true},
		"a large body in another order": {ask{"POST", "/c", jsonType, large}, ask{"POST", "/c", jsonType, largeSwapped}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, idempotencyhttp.Config{BodyMax: 2 << 20}, charge)
			do := func(a ask, memoryMax int64) (int, string) {
				// Hosts may differ in MemoryMax, during a rolling upgrade for one: it must not matter.
				cfg := s.cfg
				cfg.MemoryMax = memoryMax
				h := idempotencyhttp.Middleware(s.keys, cfg)(http.HandlerFunc(charge))
				r := post("k", a.body)
				r.Method = a.method
				r.Header.Set("Content-Type", a.media)
				parsed, err := r.URL.Parse(a.target)
				if err != nil {
					t.Fatal(err)
				}
				r.URL = parsed
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				return w.Code, w.Header().Get("Idempotency-Replayed")
			}
			if code, _ := do(c.first, 4<<20); code != 201 {
				t.Fatalf("first: %d", code)
			}
			code, replayed := do(c.second, 4)
			if c.same && (code != 201 || replayed != "true") || !c.same && code != 422 {
				t.Fatalf("second: %d, replayed %q; the same: %v", code, replayed, c.same)
			}
		})
	}
}

func TestBinaryBodyArrivesAndIsReplayedByteForByte(t *testing.T) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	s := newSite(t, idempotencyhttp.Config{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/octet-stream")
		got, _ := io.ReadAll(r.Body)
		_, _ = w.Write(got)
	})
	wantFirst(t, s.do(post("k", string(all))), 200, string(all))
	second := s.do(post("k", string(all)))
	if !bytes.Equal(second.Body.Bytes(), all) || second.Header().Get("Idempotency-Replayed") != "true" {
		t.Fatalf("%q", second.Body)
	}
}

func TestFileOfABodyHasNoNameWhileItIsUsed(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s := newSite(t, idempotencyhttp.Config{MemoryMax: 8}, func(w http.ResponseWriter, r *http.Request) {
		wantEmptyFolder(t, os.Getenv("TMPDIR")) // so that a kill leaves nothing
		echo(w, r)
	})
	text := strings.Repeat("b", 9)
	wantFirst(t, s.do(post("k", text)), 200, "9 0 <nil> "+text)
}

func TestFileOfABodyIsClosedWithTheRequest(t *testing.T) {
	var kept io.Reader
	s := newSite(t, idempotencyhttp.Config{MemoryMax: 8}, func(w http.ResponseWriter, r *http.Request) { kept = r.Body })
	s.do(post("k", strings.Repeat("b", 9)))
	if _, err := kept.Read(make([]byte, 1)); !errors.Is(err, os.ErrClosed) {
		t.Fatalf("%v", err)
	}
}

func wantEmptyFolder(t *testing.T, folder string) {
	t.Helper()
	left, err := os.ReadDir(folder)
	if err != nil || len(left) > 0 {
		t.Fatalf("left behind: %v, %v", left, err)
	}
}

package idempotencyhttp_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/fiftyhosts/fifty/idempotency/idempotencyhttp"
)

func TestAClientReadsTheProblemThatWasWritten(t *testing.T) {
	for _, want := range []idempotencyhttp.Problem{
		{Name: "in-flight", Status: 409, Title: "T", Detail: "D", Key: `k"1"`, RetryAfter: 3 * time.Second},
		{Name: "of-tomorrow", Status: 418, Title: "", Detail: "<é>"},
		{Name: "unknown", Status: 503, RetryAfter: math.MaxInt64 / time.Second * time.Second},
	} {
		w := httptest.NewRecorder()
		idempotencyhttp.WriteProblem(w, &want)
		resp := w.Result()
		written := w.Body.String()
		for range 2 { // it may be asked again
			if got, ok := idempotencyhttp.ProblemFrom(resp); !ok || *got != want {
				t.Fatalf("got %+v, want %+v", got, want)
			}
		}
		if a := readAll(t, resp); a.Body != written {
			t.Fatalf("the body is %q afterwards, want %q", a.Body, written)
		}
	}
}

const (
	problemMedia = "application/problem+json"
	inFlightText = `{"type":"urn:fifty:problem:in-flight","title":"t","status":409,"detail":"d"}`
)

func answered(media, body string, fields ...string) *http.Response {
	h := http.Header{"Content-Type": {media}}
	for i := 0; i < len(fields); i += 2 {
		h.Set(fields[i], fields[i+1])
	}
	return &http.Response{StatusCode: 409, Header: h, Body: io.NopCloser(iotest.HalfReader(strings.NewReader(body)))}
}

func TestWhatIsNoProblemOfOursIsNotReadAsOne(t *testing.T) {
	of := func(kind string) string { return strings.Replace(inFlightText, "urn:fifty:problem:in-flight", kind, 1) }
	for name, c := range map[string]struct{ media, body string }{
		"another media type":       {"application/json", inFlightText},
		"no media type":            {"", inFlightText},
		"another service's":        {problemMedia, of("https://example.com/in-flight")},
		"a relative reference":     {problemMedia, of("in-flight")},
		"no type":                  {problemMedia, `{"title":"t"}`},
		"no name":                  {problemMedia, of("urn:fifty:problem:")},
		"a name with a line break": {problemMedia, of(`urn:fifty:problem:a\nb`)},
		"an empty body":            {problemMedia, ""},
		"half of it":               {problemMedia, inFlightText[:40]},
		"more after it":            {problemMedia, inFlightText + "x"},
		"a list":                   {problemMedia, "[" + inFlightText + "]"},
		"a type that is a number":  {problemMedia, `{"type":1}`},
		"above the bound":          {problemMedia, inFlightText + strings.Repeat(" ", 64<<10)},
	} {
		t.Run(name, func(t *testing.T) {
			resp := answered(c.media, c.body)
			if p, ok := idempotencyhttp.ProblemFrom(resp); ok || p != nil {
				t.Fatalf("got %+v", p)
			}
			if a := readAll(t, resp); a.Body != c.body {
				t.Fatalf("the body is %q afterwards, want %q", a.Body, c.body)
			}
		})
	}
	for name, resp := range map[string]*http.Response{
		"nil":     nil,
		"no body": {Header: http.Header{"Content-Type": {problemMedia}}},
	} {
		if p, ok := idempotencyhttp.ProblemFrom(resp); ok || p != nil {
			t.Fatalf("%s: got %+v", name, p)
		}
	}
}

func TestAProblemMayHaveParametersAndFieldsOfTomorrow(t *testing.T) {
	text := strings.Replace(inFlightText, "{", `{"of_tomorrow":[1],`, 1)
	p, ok := idempotencyhttp.ProblemFrom(answered("Application/Problem+JSON; charset=utf-8", text))
	if !ok || p.Name != "in-flight" || p.Status != 409 {
		t.Fatalf("got %+v", p)
	}
}

func TestTheWaitOfAProblemIsThatOfTheBodyOrElseOfTheHeader(t *testing.T) {
	with := func(seconds string) string {
		return strings.Replace(inFlightText, "}", `,"retry_after":`+seconds+`}`, 1)
	}
	for _, c := range []struct {
		body, header string
		want         time.Duration
	}{
		{inFlightText, "", 0},
		{inFlightText, "2", 2 * time.Second},
		{inFlightText, "soon", 0},
		{with("3"), "2", 3 * time.Second},
		{with("0"), "2", 2 * time.Second},
		{with("-5"), "", 0},
		{with("9223372036854775807"), "", math.MaxInt64 / time.Second * time.Second},
	} {
		p, ok := idempotencyhttp.ProblemFrom(answered(problemMedia, c.body, "Retry-After", c.header))
		if !ok || p.RetryAfter != c.want {
			t.Fatalf("%s with %q: got %+v, want %v", c.body, c.header, p, c.want)
		}
	}
}

func TestTheErrorOfABodyComesWhereItWas(t *testing.T) {
	broken := errors.New("reset by peer")
	once := false
	body := &tracked{Reader: io.MultiReader(strings.NewReader(inFlightText), readFunc(func([]byte) (int, error) {
		if once {
			return 0, io.EOF // not every reader says it twice
		}
		once = true
		return 0, broken
	}))}
	resp := answered(problemMedia, "")
	resp.Body = body
	if p, ok := idempotencyhttp.ProblemFrom(resp); ok {
		t.Fatalf("got %+v of a body that broke off", p)
	}
	text, err := io.ReadAll(resp.Body)
	if string(text) != inFlightText || !errors.Is(err, broken) {
		t.Fatalf("got %q, %v", text, err)
	}
	_ = resp.Body.Close()
	body.wantClosed(t)
}

// FuzzProblemFrom: whatever a client is sent, the body reads afterwards as it was, and what is taken for a
// problem is one that WriteProblem writes.
func FuzzProblemFrom(f *testing.F) {
	f.Add(problemMedia, []byte(inFlightText), "1", 409, false)
	f.Add(problemMedia+"; charset=utf-8", []byte(`{"type":"urn:fifty:problem:unknown","retry_after":1e3}`), "", 503, false)
	f.Add(problemMedia, []byte(`{"type":"urn:fifty:problem:x","retry_after":9223372036854775807,"key":"\u0000"}`), "Thu, 01 Jan 1970 00:00:00 GMT", 200, true)
	f.Add("application/json", []byte("[]"), "-1", 0, false)
	f.Fuzz(func(t *testing.T, media string, body []byte, after string, status int, breaks bool) {
		var from io.Reader = bytes.NewReader(body)
		broken := errors.New("reset by peer")
		if breaks {
			from = io.MultiReader(from, iotest.ErrReader(broken))
		}
		resp := &http.Response{
			StatusCode: status, Header: http.Header{"Content-Type": {media}, "Retry-After": {after}}, Body: io.NopCloser(from),
		}
		p, ok := idempotencyhttp.ProblemFrom(resp)
		if ok != (p != nil) || ok && breaks {
			t.Fatalf("ok is %v for %+v", ok, p)
		}
		text, err := io.ReadAll(resp.Body)
		if !bytes.Equal(text, body) || breaks != errors.Is(err, broken) || !breaks && err != nil {
			t.Fatalf("read %q, %v afterwards; the body was %q", text, err, body)
		}
		if !ok {
			return
		}
		if p.Name == "" || p.Status != status || p.RetryAfter < 0 {
			t.Fatalf("got %+v", p)
		}
		if status < 200 || status > 999 {
			return
		}
		w := httptest.NewRecorder()
		idempotencyhttp.WriteProblem(w, p)
		again, ok := idempotencyhttp.ProblemFrom(w.Result())
		// A wait that a date gave has parts of a second, which are rounded up.
		if ok && again.RetryAfter >= p.RetryAfter && again.RetryAfter-p.RetryAfter < time.Second {
			again.RetryAfter = p.RetryAfter
		}
		if len(text) <= 8<<10 && (!ok || *again != *p) {
			t.Fatalf("written again, %+v reads as %+v", p, again)
		}
	})
}

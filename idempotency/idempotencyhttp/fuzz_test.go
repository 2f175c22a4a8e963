package idempotencyhttp

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fiftyhosts/fifty/idempotency"
)

// FuzzHeaderLines: of any lines of the header there is one valid key or a problem of its name, and the order of
// other headers, the case of its name and white space around a line change nothing.
func FuzzHeaderLines(f *testing.F) {
	f.Add("abc", "", 1)
	f.Add(`"a"`, "a", 2)
	f.Add("", "", 1)
	f.Add(" ", "\t", 0)
	f.Fuzz(func(t *testing.T, one, two string, lines int) {
		h := http.Header{"Content-Type": {"text/plain"}}
		for _, line := range []string{one, two}[:max(0, min(lines, 2))] {
			h.Add("idempotency-key", line)
		}
		key, p := keyOf(h)
		switch {
		case len(h.Values(KeyHeader)) == 0:
			if p == nil || p.Name != keyMissing || p.Status != http.StatusBadRequest {
				t.Fatalf("no line: %q, %+v", key, p)
			}
		case p != nil:
			if key != "" || p.Name != keyInvalid || p.Status != http.StatusBadRequest {
				t.Fatalf("%q: %q, %+v", h, key, p)
			}
		case len(h.Values(KeyHeader)) > 1:
			t.Fatalf("%q: two lines are the key %q", h, key)
		case idempotency.ValidateKey(key) != nil:
			t.Fatalf("%q is the key %q, which is none", one, key)
		}
		if lines == 1 {
			spaced, problem := keyOf(http.Header{KeyHeader: {"\t " + one + " "}})
			if spaced != key || (problem == nil) != (p == nil) {
				t.Fatalf("%q with white space around: %q, %+v; without: %q, %+v", one, spaced, problem, key, p)
			}
		}
	})
}

// FuzzRequestFingerprint: whatever is asked for counts, and what a client may change between two attempts does
// not.
func FuzzRequestFingerprint(f *testing.F) {
	f.Add("POST", "/a", "q=1", "application/json; charset=utf-8", `{"a":1}`, `{ "a": 1 }`)
	f.Add("PATCH", "/a%2Fb", "", "text/plain", "one", "two")
	f.Add("POST", "/", "", "application/x-thing+JSON;v=1", "[1,2]", "[1, 2]")
	f.Add("POST", "/", "", ";", "", "x")
	f.Fuzz(func(t *testing.T, method, path, query, media, text, other string) {
		if !strings.HasPrefix(path, "/") || strings.ContainsAny(media, "\r\n") {
			return
		}
		of := func(edit func(r *http.Request), text string) idempotency.Fingerprint {
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(text))
			r.Method, r.URL.Path, r.URL.RawQuery = method, path, query
			r.Header.Set("Content-Type", media)
			if edit != nil {
				edit(r)
			}
			b, err := readBody(httptest.NewRecorder(), r, BodyMaxDefault, MemoryMaxDefault)
			if err != nil {
				t.Fatal(err)
			}
			defer b.close()
			print, err := fingerprint(r, b)
			if err != nil {
				t.Fatal(err)
			}
			return print
		}
		print := of(nil, text)
		for name, same := range map[string]func(r *http.Request){
			"again":        nil,
			"other header": func(r *http.Request) { r.Header.Set("User-Agent", "other"); r.Header.Set("Traceparent", "00-1") },
			"other host":   func(r *http.Request) { r.Host = "other" },
		} {
			if of(same, text) != print {
				t.Fatalf("%s changed the fingerprint of %s %q?%q %q %q", name, method, path, query, media, text)
			}
		}
		for name, edit := range map[string]func(r *http.Request){
			"method": func(r *http.Request) { r.Method += "X" },
			"path":   func(r *http.Request) { r.URL.Path += "x" },
			"query":  func(r *http.Request) { r.URL.RawQuery += "x" },
		} {
			if of(edit, text) == print {
				t.Fatalf("another %s did not change the fingerprint of %s %q?%q %q %q", name, method, path, query, media, text)
			}
		}
		if json := isJSON(mediaType(media)); !json && text != other && of(nil, other) == print {
			t.Fatalf("%q and %q of %q have one fingerprint", text, other, media)
		}
	})
}

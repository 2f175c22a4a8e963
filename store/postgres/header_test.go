package postgres

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"testing"
)

// headers are those that the ways past encoding/json must tell apart.
var headers = map[string]struct {
	header map[string][]string
	plain  bool
}{
	"nothing":             {map[string][]string{}, true},
	"one":                 {map[string][]string{"Location": {"/orders/7"}}, true},
	"several":             {map[string][]string{"Set-Cookie": {"a=1; Path=/", "b=2"}, "A": {""}, "Z": {}, "": {"x"}}, true},
	"text like the frame": {map[string][]string{"a:[": {`],:[`, "{}", ","}}, true},
	"a nil list":          {map[string][]string{"A": nil}, false},
	"a quote":             {map[string][]string{"Etag": {`"7"`}}, false},
	"a backslash":         {map[string][]string{"A": {`\`}}, false},
	"what HTML escapes":   {map[string][]string{"Link": {"</7>; rel=next"}, "A": {"x&y"}}, false},
	"a control character": {map[string][]string{"A": {"\t"}}, false},
	"Latin-1":             {map[string][]string{"A": {"caf\xe9"}}, false},
	"any bytes":           {map[string][]string{"\xff\x00": {"\xfe", "é"}}, false},
}

func TestPostgresHeadersComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	for name, c := range headers {
		text, err := encodeHeader(c.header)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := writePlain(c.header); ok != c.plain {
			t.Errorf("%s is written past encoding/json: %t", name, ok)
		}
		if _, ok := readPlain(string(text)); ok != c.plain {
			t.Errorf("%s is read past encoding/json: %t", name, ok)
		}
		if back, err := decodeHeader(text); err != nil || !reflect.DeepEqual(back, c.header) {
			t.Errorf("%s: %q came back from %s as %q, %v", name, c.header, text, back, err)
		}
	}
}

func TestPostgresDamagedHeaderIsNoHeader(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "{", "}", "[]", `{"A"}`, `{"A":}`, `{"A":[}`, `{"A":["x"}`, `{"A":["x"]`, `{"A":["x",]}`, `{"A":["x"],}`, `{"A":["x]}`,
		`{,"A":["x"]}`, `{"A":[,"x"]}`, `{"A":["x"]}}`, `{"A":["x"]} {}`, `{"A":"x"}`, `{A:["x"]}`,
	} {
		if header, err := decodeHeader([]byte(text)); err == nil {
			t.Errorf("%s is read as %q", text, header)
		}
	}
}

// FuzzPostgresHeader holds the ways past encoding/json against encoding/json.
func FuzzPostgresHeader(f *testing.F) {
	for _, c := range headers {
		text, err := encodeHeader(c.header)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"A":["x"],"A":[]}`))
	f.Add([]byte(` {"A": ["x"]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var want map[string][]string
		invalid := json.Unmarshal(text, &want)
		if got, ok := readPlain(string(text)); ok && (invalid != nil || !maps.EqualFunc(got, want, slices.Equal)) {
			t.Errorf("%s is read as %q, and is %q, %v", text, got, want, invalid)
		}
		marshaled, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if written, ok := writePlain(want); ok && want != nil && string(written) != string(marshaled) {
			t.Errorf("%q is written as %s, and is %s", want, written, marshaled)
		}
	})
}

package idempotencyhttp

import (
	"net/http"
	"strings"
	"testing"

	"github.com/fiftyhosts/fifty/idempotency"
)

func TestQuotedAndBareSpellingsAreOneKey(t *testing.T) {
	long := strings.Repeat("k", idempotency.KeyMax)
	for value, want := range map[string]string{
		`abc`:               "abc",
		`"abc"`:             "abc",
		` "abc" `:           "abc",
		`"a b"`:             "a b",
		`a b`:               "a b",
		`"say \"hi\""`:      `say "hi"`,
		`"back\\slash"`:     `back\slash`,
		`back\slash`:        `back\slash`,
		`"a,b"`:             "a,b",
		`"a;b=1"`:           "a;b=1",
		`"abc"` + "\t":      "abc",
		`'abc'`:             "'abc'",
		`:YWJj:`:            ":YWJj:",
		`?1`:                "?1",
		`42`:                "42",
		long:                long,
		`"` + long + `"`:    long,
		`"` + `\"` + `"`:    `"`,
		`"~!#$%&'()*+-./<"`: `~!#$%&'()*+-./<`,
	} {
		got, p := keyOf(http.Header{"Idempotency-Key": {value}})
		if p != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", value, got, p, want)
		}
	}
}

func TestEachBadHeaderIsRefusedWithWhatToDo(t *testing.T) {
	for name, c := range map[string]struct {
		lines []string
		says  string
	}{
		"empty":                    {[]string{""}, "is empty"},
		"only spaces":              {[]string{"  "}, "is empty"},
		"empty, quoted":            {[]string{`""`}, "is empty"},
		"256 characters":           {[]string{strings.Repeat("k", 256)}, "at most 255"},
		"256 characters, quoted":   {[]string{`"` + strings.Repeat("k", 256) + `"`}, "at most 255"},
		"non-ASCII":                {[]string{"clé"}, "not printable ASCII"},
		"non-ASCII, quoted":        {[]string{`"clé"`}, "not printable ASCII"},
		"Latin-1 bytes":            {[]string{"cl\xe9"}, "not printable ASCII"},
		"a tab within":             {[]string{"a\tb"}, "not printable ASCII"},
		"a control character":      {[]string{"a\x01b"}, "not printable ASCII"},
		"DEL":                      {[]string{"a\x7fb"}, "not printable ASCII"},
		"a line feed":              {[]string{"\"a\nb\""}, "not printable ASCII"},
		"no closing quote":         {[]string{`"abc`}, "no closing quote"},
		"only a quote":             {[]string{`"`}, "no closing quote"},
		"only a closing quote":     {[]string{`abc"`}, "quote in its middle"},
		"more after the quote":     {[]string{`"abc"d`}, "goes on after its closing quote"},
		"a parameter":              {[]string{`"abc";v=1`}, "parameters"},
		"a parameter, bare":        {[]string{`abc;v=1`}, "semicolon"},
		"a backslash before an a":  {[]string{`"\a"`}, "backslash"},
		"a backslash at the end":   {[]string{`"abc\`}, "backslash"},
		"a list":                   {[]string{`"a", "b"`}, "list"},
		"a list, bare":             {[]string{`a, b`}, "list"},
		"two lines":                {[]string{"a", "b"}, "more than once"},
		"two lines, the same key":  {[]string{"a", "a"}, "more than once"},
		"two lines, one empty":     {[]string{"a", ""}, "more than once"},
		"an inner list":            {[]string{`("a" "b")`}, "quote in its middle"},
		"escaped only on one side": {[]string{`\"abc\"`}, "quote in its middle"},
	} {
		t.Run(name, func(t *testing.T) {
			key, p := keyOf(http.Header{"Idempotency-Key": c.lines})
			if p == nil || p.Name != keyInvalid || p.Status != http.StatusBadRequest || key != "" {
				t.Fatalf("key %q, problem %+v", key, p)
			}
			if !strings.Contains(p.Detail, c.says) {
				t.Fatalf("detail %q does not say %q", p.Detail, c.says)
			}
		})
	}
}

func TestMissingHeaderIsItsOwnProblem(t *testing.T) {
	if _, p := keyOf(http.Header{}); p == nil || p.Name != keyMissing {
		t.Fatalf("%+v", p)
	}
}

// quote spells a key as a structured-field string.
func quote(key string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
}

func FuzzKeyHeader(f *testing.F) {
	for _, seed := range []string{"", "abc", `"abc"`, `"a\"b"`, `"a\\b"`, `a,b`, `"a";x`, `"`, `\`, "cl\xe9", "\"a\x00\""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		key, p := parseKey(value)
		if p != nil {
			if key != "" || p.Name != keyInvalid || p.Detail == "" {
				t.Fatalf("%q: key %q with problem %+v", value, key, p)
			}
		} else if err := idempotency.ValidateKey(key); err != nil {
			t.Fatalf("%q gave the key %q: %v", value, key, err)
		} else if again, p := parseKey(quote(key)); p != nil || again != key {
			t.Fatalf("%q gave %q, which reads as %q (%v) when quoted", value, key, again, p)
		}
		// Whatever can be a key has a spelling, and it is read as that key.
		if idempotency.ValidateKey(value) == nil {
			if key, p := parseKey(quote(value)); p != nil || key != value {
				t.Fatalf("the key %q, quoted, reads as %q (%v)", value, key, p)
			}
		}
	})
}

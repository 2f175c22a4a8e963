package idempotency_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/store/memory"
)

// FuzzKey: what is refused as a scope or a key never gets to the function; of two that are taken, each has an
// answer of its own unless they are the same, byte for byte; and no two of them have a step's key in common.
func FuzzKey(f *testing.F) {
	f.Add("acme", "a", "acme", "A")
	f.Add("acme", "key", "acm", "ekey")
	f.Add("a/b", "c", "a", "b/c")
	f.Add("acme", "a", "acme", "a ")
	f.Add("é", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "é", "01arz3ndektsv4rrffq69g5fav")
	f.Add("\xff", "a\x00", "", strings.Repeat("k", idempotency.KeyMax+1))
	f.Add(strings.Repeat("s", idempotency.ScopeMax), "a", strings.Repeat("s", idempotency.ScopeMax+1), "é")
	f.Add("acme", "01890a5d-ac96-774b-bcce-b302099a8057", "acme", "ffffffff-ffff-7fff-bfff-ffffffffffff")
	f.Fuzz(func(t *testing.T, scope, key, otherScope, otherKey string) {
		keys := idempotency.New(memory.New(memory.Config{}).Keys(), idempotency.Config{})
		one := idempotency.Request{Scope: scope, Key: key, Fingerprint: idempotency.FingerprintOf("body")}
		other := idempotency.Request{Scope: otherScope, Key: otherKey, Fingerprint: one.Fingerprint}
		answerOf := func(name string, req idempotency.Request) (string, bool) {
			ran := false
			res, err := keys.Do(t.Context(), req, func(context.Context) (idempotency.Response, error) {
				ran = true
				return idempotency.Response{Body: []byte(name)}, nil
			})
			if req.Validate() != nil {
				if ran || !errors.Is(err, fifty.ErrInvalid) {
					t.Fatalf("%q: ran %v, %v, although it is not valid", req, ran, err)
				}
				return "", false
			}
			if err != nil { // a time-ordered key outside its window
				if _, ok := idempotency.Made(req.Key); ran || !ok {
					t.Fatalf("%q: ran %v, %v", req, ran, err)
				}
				return "", false
			}
			return string(res.Body), true
		}
		first, ok := answerOf("first", one)
		second, okOther := answerOf("second", other)
		if again, _ := answerOf("again", one); again != first {
			t.Fatalf("%q was told %q and then %q", one, first, again)
		}
		if same := scope == otherScope && key == otherKey; ok && okOther && (first == second) != same {
			t.Fatalf("%q and %q: same answer %v, want %v", one, other, first == second, same)
		}
		same := scope == otherScope && key == otherKey
		if (idempotency.StepKey(one, "step") == idempotency.StepKey(other, "step")) != same {
			t.Fatalf("%q and %q: their steps' keys are alike, or one request has two", one, other)
		}
	})
}

// FuzzMade: the time of a time-ordered key has nothing to do with the spelling of the rest of it, is within what
// 48 bits of milliseconds can be, and is the same in upper case.
func FuzzMade(f *testing.F) {
	for _, key := range []string{
		"01890a5d-ac96-774b-bcce-b302099a8057", "01890A5D-AC96-774B-BCCE-B302099A8057", "01ARZ3NDEKTSV4RRFFQ69G5FAV",
		"7ZZZZZZZZZZZZZZZZZZZZZZZZZ", "8ZZZZZZZZZZZZZZZZZZZZZZZZZ", "01890a5d-ac96-474b-bcce-b302099a8057", "", "é1ARZ3NDEKTSV4RRFFQ69G5FA",
	} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		at, ok := idempotency.Made(key)
		if !ok {
			return
		}
		if idempotency.ValidateKey(key) != nil {
			t.Fatalf("%q carries a time and is no key", key)
		}
		if ms := at.UnixMilli(); ms < 0 || ms >= 1<<48 {
			t.Fatalf("%q was made at %v", key, at)
		}
		for _, spelling := range []string{strings.ToUpper(key), strings.ToLower(key), key[:len(key)-1] + "0"} {
			if again, ok := idempotency.Made(spelling); !ok || !again.Equal(at) {
				t.Fatalf("%q was made at %v, and %q at %v (%v)", key, at, spelling, again, ok)
			}
		}
	})
}

// FuzzFingerprint: parts are told apart, a retry that spells its JSON otherwise is the same, and nothing else is.
func FuzzFingerprint(f *testing.F) {
	for _, seed := range []string{
		"", "{}", `{"a":1,"b":2}`, ` { "b" : 2, "a" : 1.0 } `, `[1e400]`, `{"a":1,"a":2}`, "9007199254740993", "\"\\u00e9\"", "nul", "\xff",
	} {
		f.Add([]byte(seed), []byte(`{"b":2,"a":1}`), 1)
	}
	f.Add([]byte("-0"), []byte("0"), 1) // RFC 8785 has one zero
	f.Fuzz(func(t *testing.T, one, other []byte, cut int) {
		of := idempotency.FingerprintOf
		print := of(json.RawMessage(one))
		if len(print) != 33 || print[0] != 1 || !print.Matches(print) {
			t.Fatalf("%q has the fingerprint %v", one, print)
		}
		if (of(one) == of(other)) != bytes.Equal(one, other) || of(one) != of(string(one)) {
			t.Fatalf("%q and %q as they are: %v, %v", one, other, of(one), of(other))
		}
		// As JSON it is another part than the same text as bytes, or, where it can't be canonical, the same.
		canonical := print != of(one)
		var spaced bytes.Buffer
		if json.Indent(&spaced, one, " ", "\t") == nil && canonical && of(json.RawMessage(spaced.Bytes())) != print {
			t.Fatalf("%q and %q are one JSON and have two fingerprints", one, spaced.Bytes())
		}
		if canonical && !sameJSON(one, one) {
			t.Fatalf("%q is no JSON, and counts as such", one)
		}
		if print == of(json.RawMessage(other)) && !bytes.Equal(one, other) && !sameJSON(one, other) {
			t.Fatalf("%q and %q mean different things and have one fingerprint", one, other)
		}
		if cut = max(0, min(cut, len(one))); cut > 0 && of(one[:cut], one[cut:]) == of(one[:cut-1], one[cut-1:]) {
			t.Fatalf("%q, cut at %d and %d, has one fingerprint", one, cut, cut-1)
		}
	})
}

// sameJSON says that two texts are JSON and mean the same to a reader of doubles.
func sameJSON(a, b []byte) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	return reflect.DeepEqual(x, y)
}

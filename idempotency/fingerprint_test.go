package idempotency_test

import (
	"encoding/json"
	"testing"

	"github.com/fiftyhosts/fifty/idempotency"
)

func TestFingerprintTellsRequestsApart(t *testing.T) {
	same := func(a, b idempotency.Fingerprint) bool { return a.Matches(b) }
	of := idempotency.FingerprintOf
	for name, c := range map[string]struct {
		a, b idempotency.Fingerprint
		same bool
	}{
		"order of members":       {of(json.RawMessage(`{"a":1,"b":2}`)), of(json.RawMessage(`{ "b":2, "a":1 }`)), true},
		"number beyond 2^53":     {of(json.RawMessage(`9007199254740992`)), of(json.RawMessage(`9007199254740993`)), false},
		"duplicate name":         {of(json.RawMessage(`{"a":1,"a":2}`)), of(json.RawMessage(`{"a":2}`)), false},
		"raw text is not JSON":   {of(`{"a":1,"b":2}`), of(`{"b":2,"a":1}`), false},
		"where a part ends":      {of("ab", "c"), of("a", "bc"), false},
		"an empty part counts":   {of("a"), of("a", ""), false},
		"bytes are as a string":  {of([]byte("a")), of("a"), true},
		"a value by its JSON":    {of(map[string]int{"a": 1}), of(json.RawMessage(`{"a":1}`)), true},
		"a string is not a JSON": {of("1"), of(1), false},
		"another version":        {of("a"), "\x02" + of("b")[1:], true},
	} {
		if same(c.a, c.b) != c.same || same(c.b, c.a) != c.same {
			t.Errorf("%s: want same = %v", name, c.same)
		}
	}
}

// The digests of live keys must survive a deploy. A change here needs a new version byte.
func TestFingerprintV1NeverChanges(t *testing.T) {
	const want = "01136fe58452e3c4cee184e0689b1664a6c58f2bcf40b06870f7dc207d9d00a19d"
	if got := idempotency.FingerprintOf("POST", "/charges", json.RawMessage(`{"amount":5,"currency":"EUR"}`)).String(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

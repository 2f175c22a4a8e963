package server

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/fiftyhosts/fifty/idempotency"
)

func TestTheDerivedKeyNeverChanges(t *testing.T) {
	// Written down once. If this fails, upstreams take retries across the upgrade for new intents.
	got := DerivedKey(idempotency.Request{Scope: `constant:"all"`, Key: "k1"})
	if want := "fifty_BnrVQGBX7RHifrZuJOcYUQME9bHF1v4h4frtRC5HBTI"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := idempotency.ValidateKey(got); err != nil {
		t.Error(err)
	}
}

func TestWhatKeyTheUpstreamSees(t *testing.T) {
	derived := DerivedKey(idempotency.Request{Scope: `constant:"all"`, Key: "k1"})
	for _, c := range []struct {
		name string
		rule ForwardKey
		sent string
		want string
	}{
		{"raw, bare", ForwardRaw, "k1", "k1"},
		{"raw, quoted", ForwardRaw, `"k1"`, `"k1"`},
		{"derived, bare", ForwardDerived, "k1", derived},
		{"derived, quoted", ForwardDerived, `"k1"`, `"` + derived + `"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			up := startUpstream(t, created)
			g := startGate(t, up.URL, func(r *Route) { r.ForwardKey = c.rule })
			// The client asks to drop the key on the way, which would leave the upstream without it.
			g.send(t, http.MethodPost, "/", c.sent, "", "Connection", "Idempotency-Key")
			if got := up.last.Load().Header.Values("Idempotency-Key"); !slices.Equal(got, []string{c.want}) {
				t.Errorf("the upstream saw %q, want %q", got, c.want)
			}
		})
	}
}

func TestDerivedKeysTellCallersApart(t *testing.T) {
	seen := map[string]idempotency.Request{}
	for _, req := range []idempotency.Request{
		{Scope: "a", Key: "b"}, {Scope: "a", Key: "c"}, {Scope: "b", Key: "b"}, {Scope: "ab", Key: "c"}, {Scope: "a", Key: "bc"},
	} {
		key := DerivedKey(req)
		if other, ok := seen[key]; ok {
			t.Errorf("%v and %v are one key", req, other)
		}
		seen[key] = req
	}
}

// FuzzKeyPassThrough: whatever a client sends as its key, either it is refused, or the upstream sees just
// that, once, and a repeat gets the same answer.
func FuzzKeyPassThrough(f *testing.F) {
	up := startUpstream(f, created)
	g := startGate(f, up.URL, nil)
	for _, key := range []string{"k", `"k"`, `"a\"b"`, "a b", "\t", "a,b", "é", strings.Repeat("k", 256), `"`, `""`} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if strings.ContainsAny(key, "\r\n\x00") || key == "" {
			return // no client can send that
		}
		up.last.Store(nil)
		first, err := g.try(t.Context(), http.MethodPost, "/", key, "")
		if err != nil {
			return // nor that
		}
		if first.status == http.StatusBadRequest {
			if up.last.Load() != nil || first.problem() != "key-invalid" && first.problem() != "" {
				t.Fatalf("refused, but not for its key, or not before it was sent: %+v", first)
			}
			return
		}
		seen := up.last.Load() // nil for a key of an earlier round
		if seen != nil && !slices.Equal(seen.Header.Values("Idempotency-Key"), []string{strings.Trim(key, " \t")}) {
			t.Fatalf("sent %q, the upstream saw %q", key, seen.Header.Values("Idempotency-Key"))
		}
		second := g.send(t, http.MethodPost, "/", key, "")
		if !second.replayed() || second.body != first.body {
			t.Fatalf("the repeat got %+v after %+v", second, first)
		}
	})
}

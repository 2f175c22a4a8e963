package server

import (
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"strings"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/idempotency/idempotencyhttp"
)

// forwardDomain tells this digest apart from all others. It never changes: an upstream that saw a derived
// key must see the same one for a retry after an upgrade.
const forwardDomain = "fifty forward_key 1"

// DerivedKey is the key that an upstream sees under forward_key: derived. It is the same for the same
// scope and key, on every host and in every version, and tells callers apart who chose the same key.
func DerivedKey(req idempotency.Request) string {
	sum := sha256.New()
	// Neither a scope nor a key holds a NUL, so the parts can't run into each other.
	_, _ = io.WriteString(sum, forwardDomain+"\x00"+req.Scope+"\x00"+req.Key)
	return "fifty_" + base64.RawURLEncoding.EncodeToString(sum.Sum(nil))
}

// forwardKey sets the key header of a request to the upstream. It is set even if the client named it in
// its Connection header, which would have made a proxy drop it. The spelling, quoted or bare, stays the
// client's, since that is what the upstream reads.
func forwardKey(rule ForwardKey, req idempotency.Request, in, out http.Header) {
	lines := in.Values(idempotencyhttp.KeyHeader)
	if rule == ForwardDerived {
		key := DerivedKey(req)
		if len(lines) > 0 && strings.HasPrefix(strings.TrimSpace(lines[0]), `"`) {
			key = `"` + key + `"`
		}
		lines = []string{key}
	}
	out[idempotencyhttp.KeyHeader] = lines
}

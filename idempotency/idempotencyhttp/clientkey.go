package idempotencyhttp

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"net/http"
	"strings"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/internal/wall"
)

type intentKey struct{}

// WithKey names the intent of the request that is made with the context: Transport sends key with every
// attempt. A caller that may do the same thing again by itself, after an error or in another process, needs
// it: take an id that is stored with the intent, such as that of the order. Make one context per intent and
// use it for one request; a second, different request would be told mismatch.
//
// A key is one to idempotency.KeyMax printable ASCII characters, as it reads without quotes. Transport sends
// nothing, and returns a *fifty.InvalidError, when it is not.
func WithKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, intentKey{}, key)
}

// KeyFrom returns the key that WithKey has put into ctx. It is false when there is none. The key of a
// request that is being served is that of RequestFrom.
func KeyFrom(ctx context.Context) (key string, ok bool) {
	key, ok = ctx.Value(intentKey{}).(string)
	return key, ok
}

// isSafe says whether a method asks for nothing to be changed (RFC 9110, section 9.2.1), so that it may be
// sent again without a key. PUT and DELETE are not among them. They are idempotent, but a repeat of a PUT
// may undo what somebody else wrote in between, and one of a DELETE is answered as if nothing had been there.
func isSafe(method string) bool {
	switch method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// named is a request's key: as it reads, and as it is sent. Both are empty when the request has none.
type named struct{ key, line string }

// nameIntent finds the key of a request that is about to be sent, or makes it.
func nameIntent(r *http.Request) (named, error) {
	var lines []string
	for name, values := range r.Header {
		if http.CanonicalHeaderKey(name) == KeyHeader {
			lines = append(lines, values...)
		}
	}
	switch {
	case len(lines) == 1 && strings.Trim(lines[0], " \t") != "":
		if key, p := parseKey(lines[0]); p == nil {
			return named{key: key, line: lines[0]}, nil
		}
		return named{key: lines[0], line: lines[0]}, nil // another service may have other rules
	case len(lines) > 0:
		return named{}, &fifty.InvalidError{
			Field: "Request.Header[" + KeyHeader + "]", Problem: "is blank or there more than once; send one key, or none to have one made",
		}
	case isSafe(r.Method):
		return named{}, nil
	}
	if key, ok := KeyFrom(r.Context()); ok {
		if err := idempotency.ValidateKey(key); err != nil {
			return named{}, err
		}
		return named{key: key, line: spell(key)}, nil
	}
	if r.Method == http.MethodPost || r.Method == http.MethodPatch {
		key := newKey(wall.Now())
		return named{key: key, line: key}, nil
	}
	return named{}, nil
}

// spell writes a key as a header value. It is bare, since services that know nothing of the IETF draft take
// the quotes for a part of the key, unless it could not be read back then.
func spell(key string) string {
	if !strings.ContainsAny(key, `",;`) && strings.Trim(key, " ") == key {
		return key
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
}

// newKey makes a UUID of version 7 (RFC 9562): 48 bits of milliseconds, then chance. Keys of one host so
// sort by time, which keeps the index of a key table dense.
func newKey(now time.Time) string {
	var id [16]byte
	binary.BigEndian.PutUint64(id[:8], uint64(max(now.UnixMilli(), 0))<<16)
	_, _ = rand.Read(id[6:]) // never fails
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	text := hex.EncodeToString(id[:])
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}

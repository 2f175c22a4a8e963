package idempotencyhttp

import (
	"context"
	"net/http"

	"github.com/fiftyhosts/fifty/idempotency"
)

// Keep is what becomes of an answer. The client that waits for it gets it in every case, as the handler
// wrote it; what differs is what a retry with the same key gets.
type Keep int

const (
	// Stored answers are definite: a retry gets the very same one. In a transaction one below 400 commits
	// the work, and any other is a refusal: the work is rolled back, the answer kept.
	Stored Keep = iota + 1
	// Freed answers say that nothing was done: nothing is kept, and a retry runs afresh.
	Freed
	// Failed answers leave it open what was done: the key is left unresolved, and a retry does not run. In
	// a transaction the work is rolled back, so nothing was done, nothing is kept, and a retry runs afresh.
	Failed
)

// DefaultKeep stores an answer below 500, frees the key for 401, 408, 425 and 429, which are about the
// attempt and not about the intent, and takes 500 and above for a failure.
func DefaultKeep(status int) Keep {
	switch {
	case status >= http.StatusInternalServerError:
		return Failed
	case status == http.StatusUnauthorized, status == http.StatusRequestTimeout,
		status == http.StatusTooEarly, status == http.StatusTooManyRequests:
		return Freed
	default:
		return Stored
	}
}

type recorderKey struct{}

// SetKeep decides for the request of ctx what becomes of its answer, whatever the status will be. A proxy
// calls it with Freed when dialling the upstream failed, since nothing was sent then; never after a byte
// may have left. The last call before the handler returns counts. In a request that is not protected it
// does nothing. It is safe for concurrent use.
func SetKeep(ctx context.Context, k Keep) {
	if rec, ok := ctx.Value(recorderKey{}).(*recorder); ok {
		rec.setKeep(k)
	}
}

// RequestFrom returns the identity of the protected request that ctx belongs to: its scope, its key as it
// reads without quotes, and its fingerprint. It is false in a request that is not protected.
func RequestFrom(ctx context.Context) (idempotency.Request, bool) {
	rec, ok := ctx.Value(recorderKey{}).(*recorder)
	if !ok {
		return idempotency.Request{}, false
	}
	return rec.request, true
}

package idempotencyhttp

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency"
)

// ProblemType is the prefix of every problem's type; its name follows.
const ProblemType = "urn:fifty:problem:"

// Problem is an answer of ours instead of the handler's, in the form of RFC 9457. docs/problems.md has one
// section per name. It is an error, so that Config.Scope can return one.
type Problem struct {
	Name       string        // the stable word that clients branch on: "in-flight"
	Status     int           // the HTTP status
	Title      string        // the same for every problem of this name
	Detail     string        // what happened and what to do next
	Key        string        // the key that it is about; left out when empty
	RetryAfter time.Duration // when to ask again, rounded up to seconds; left out when zero
}

// Error is the name and the detail.
func (p *Problem) Error() string { return p.Name + ": " + p.Detail }

type problemBody struct {
	Type       string `json:"type"`
	Title      string `json:"title"`
	Status     int    `json:"status"`
	Detail     string `json:"detail"`
	Key        string `json:"key,omitempty"`
	RetryAfter int64  `json:"retry_after,omitempty"`
}

// WriteProblem answers with p, as application/problem+json. Nothing may have been written before.
func WriteProblem(w http.ResponseWriter, p *Problem) {
	after := int64(max(p.RetryAfter, 0) / time.Second)
	if p.RetryAfter > 0 && p.RetryAfter%time.Second > 0 {
		after++ // not by adding before: the longest Duration would overflow
	}
	body, err := json.Marshal(problemBody{ProblemType + p.Name, p.Title, p.Status, p.Detail, p.Key, after})
	if err != nil {
		panic(err) // strings and numbers always have JSON
	}
	body = append(body, '\n')
	h := w.Header()
	h.Del("Content-Encoding")
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	if after > 0 {
		h.Set("Retry-After", strconv.FormatInt(after, 10))
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // a client that left asks again
}

// The names.
const (
	keyMissing       = "key-missing"
	keyInvalid       = "key-invalid"
	scopeMissing     = "scope-missing"
	methodNotAllowed = "method-not-allowed"
	bodyTooLarge     = "body-too-large"
	bodyIncomplete   = "body-incomplete"
	inFlight         = "in-flight"
	mismatch         = "mismatch"
	unresolved       = "unresolved"
	expired          = "expired"
	notReplayable    = "not-replayable"
	storeUnavailable = "store-unavailable"
	unknown          = "unknown"
	answerTooLarge   = "answer-too-large"
	answerSealed     = "answer-sealed"
	notFound         = "not-found"
)

var problems = map[string]Problem{
	keyMissing: {
		Status: http.StatusBadRequest, Title: "The idempotency key is missing",
		Detail: "Send an Idempotency-Key header. Make its value once for what you intend, a UUID for example, and send the same value with every retry. Nothing was run.",
	},
	keyInvalid: {
		Status: http.StatusBadRequest, Title: "The idempotency key can't be used",
		Detail: "A key is 1 to 255 printable ASCII characters, in double quotes or bare; a UUID is fine. Nothing was run.",
	},
	scopeMissing: {
		Status: http.StatusUnauthorized, Title: "The caller is not known",
		Detail: "Send the credential that this service expects, in the Authorization header for example. Keys are remembered per caller, so a request without a verified caller can't be taken. Nothing was run.",
	},
	methodNotAllowed: {
		Status: http.StatusMethodNotAllowed, Title: "The method is not allowed here",
		Detail: "Use one of the methods in the Allow header. Nothing was run.",
	},
	bodyTooLarge: {
		Status: http.StatusRequestEntityTooLarge, Title: "The request's body is too large",
		Detail: "Send a smaller body. Nothing was run.",
	},
	bodyIncomplete: {
		Status: http.StatusBadRequest, Title: "The request's body did not arrive whole",
		Detail: "The connection or the body's framing broke off before the end that was announced. Nothing was run; send the whole request again with the same key.",
	},
	inFlight: {
		Status: http.StatusConflict, Title: "A request with this key is in progress",
		Detail: "The first request with this key is still at work. Send the same request with the same key after the time in Retry-After to get its answer.", RetryAfter: time.Second,
	},
	mismatch: {
		Status: http.StatusUnprocessableEntity, Title: "This key was used for a different request",
		Detail: "The first request with this key had another method, path, query, media type or body. Send a new key for a new intent, or the first request unchanged to get its answer. This request was not run.",
	},
	unresolved: {
		Status: http.StatusConflict, Title: "The outcome of this key's request is unresolved",
		Detail: "The work may or may not have happened, and it is not run again. Don't send it under a new key. Ask the operator of this service to resolve the key; then the same request gets its answer.",
	},
	expired: {
		Status: http.StatusGone, Title: "This key has expired",
		Detail: "The request with this key was made so long ago that its answer is no longer kept. It is not run again. Look up its result, or send a new key if you mean a new request.",
	},
	notReplayable: {
		Status: http.StatusConflict, Title: "The request is done, but its answer was not kept",
		Detail: "The answer was streamed or too large to keep. The work is done and is not run again. Look up its result instead of sending it again.",
	},
	storeUnavailable: {
		Status: http.StatusServiceUnavailable, Title: "Requests can't be remembered at the moment",
		Detail: "Nothing was done. Send the same request with the same key again.", RetryAfter: time.Second,
	},
	unknown: {
		Status: http.StatusServiceUnavailable, Title: "The outcome is not known yet",
		Detail: "The work may have happened, but its outcome could not be recorded. Send the same request with the same key again, never with a new key.", RetryAfter: time.Second,
	},
	answerTooLarge: {
		Status: http.StatusInternalServerError, Title: "The answer is too large",
		Detail: "The service made an answer larger than it may keep. All its work was rolled back and nothing was changed. This is a fault of the service; the same request will most likely fail again.",
	},
	answerSealed: {
		Status: http.StatusServiceUnavailable, Title: "The kept answer can't be opened here",
		Detail: "Nothing was run. Send the same request with the same key again later; the operator of this service must give it back the sealing key.", RetryAfter: time.Second,
	},
	notFound: {
		Status: http.StatusNotFound, Title: "There is no request with this key",
		Detail: "No request of this caller with this key is known, or the one that there was did nothing and is forgotten. Send the request itself, with this key.",
	},
}

// problem returns a new Problem of a name that the table has.
func problem(name string) *Problem {
	p := problems[name]
	p.Name = name
	return &p
}

// ProblemOf says how an error of package idempotency is told to a client. Nothing of the error's text is
// in it. An error that is none of that package's is store-unavailable, since a call that ran nothing, or
// rolled back what it ran, returns the store's errors.
func ProblemOf(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	// ErrUnavailable comes before ErrUnknownOutcome: it may wrap one, of a claim, but nothing was run.
	for _, known := range []struct {
		err  error
		name string
	}{
		{idempotency.ErrMismatch, mismatch},
		{idempotency.ErrInFlight, inFlight},
		{idempotency.ErrNotReplayable, notReplayable},
		{idempotency.ErrExpired, expired},
		{idempotency.ErrSealed, answerSealed},
		{idempotency.ErrNotFound, notFound},
		{idempotency.ErrUnavailable, storeUnavailable},
		{fifty.ErrUnknownOutcome, unknown},
		{idempotency.ErrLost, unknown},
		{idempotency.ErrUnresolved, unresolved},
	} {
		if errors.Is(err, known.err) {
			p := problem(known.name)
			if flying, ok := errors.AsType[*idempotency.InFlightError](err); ok {
				p.RetryAfter = max(p.RetryAfter, flying.RetryAfter)
			}
			if sealed, ok := errors.AsType[*idempotency.SealedError](err); ok {
				p.Detail = "The answer was sealed with the key \"" + sealed.SealedWith + "\" of this service, which this host does not have, or not the right one. " + p.Detail
			}
			return p
		}
	}
	if invalid, ok := errors.AsType[*fifty.InvalidError](err); ok && invalid.Field == "Request.Key" {
		return invalidKey(invalid.Problem) // what only the store can tell: a time too far ahead
	}
	return problem(storeUnavailable)
}

package idempotency

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Response is a definite answer, kept so that every duplicate gets the very same one.
type Response struct {
	Status int                 // an HTTP status, or any number of yours
	Header map[string][]string // kept value by value; never joined, never split
	Body   []byte

	// Reference keeps the answer as a reference instead of its header and body: the id of what was made,
	// say. The first arrival gets the answer as it is; a duplicate gets what Config.Rebuild makes of the
	// status and the reference, which is today's answer, not the first one. Empty keeps it whole.
	Reference string

	// NotReplayable says that the answer was given but not kept whole: it was streamed, or larger than
	// Config.ResponseMax. The work is recorded as done and never runs again; duplicates get
	// ErrNotReplayable.
	NotReplayable bool
}

// size is about how many bytes are kept of r.
func (r Response) size() int {
	n := len(r.Body)
	for name, values := range r.Header {
		for _, v := range values {
			n += len(name) + len(v)
		}
	}
	return n
}

// JSON makes a Response of a value. On an error nothing is made: v has no JSON.
func JSON(status int, v any) (Response, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return Response{}, fmt.Errorf("idempotency: answer: %w", err)
	}
	return Response{
		Status: status,
		Header: map[string][]string{"Content-Type": {"application/json"}},
		Body:   body,
	}, nil
}

// Result is what a call gets: the answer, and whether it is that of an earlier arrival.
type Result struct {
	Response
	Replayed bool
}

// Decode reads the JSON body of a result.
func Decode[T any](r Result) (T, error) {
	var v T
	if r.NotReplayable {
		return v, errors.New("idempotency: decode: the answer's body was not kept")
	}
	if err := json.Unmarshal(r.Body, &v); err != nil {
		return v, fmt.Errorf("idempotency: decode: %w", err)
	}
	return v, nil
}

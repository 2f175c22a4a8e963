package idempotencyhttp

import (
	"bytes"
	"fmt"
	"io"
	"net/http"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/retry"
)

// AnswerError is an answer that does not settle the request, as the error of one attempt: Policy.Retryable
// gets it, and a TransportError may wrap it. It is a fifty.ErrUnknownOutcome when the work may have happened
// or may be going on. It unwraps to Problem, if there is one.
type AnswerError struct {
	Status  int
	Problem *Problem // what the answer says, or nil when it is no problem of Fifty's

	retry bool // worth another attempt
	open  bool // the work may have happened
}

func (e *AnswerError) Error() string {
	if e.Problem != nil {
		return fmt.Sprintf("answered %d: %v", e.Status, e.Problem)
	}
	return fmt.Sprintf("answered %d %s", e.Status, http.StatusText(e.Status))
}

// Is makes errors.Is(err, fifty.ErrUnknownOutcome) true where it is.
func (e *AnswerError) Is(target error) bool { return e.open && target == fifty.ErrUnknownOutcome }

// Unwrap returns the problem, or nil.
func (e *AnswerError) Unwrap() error {
	if e.Problem == nil {
		return nil
	}
	return e.Problem
}

// Names of problems that the gateway tells beside those of this package.
const upstreamUnreachable = "upstream-unreachable"

// judge says what an answer means for its request. nil is an answer to the request, whatever it says: its
// status is final. An error is about this attempt (nothing was run for it), or leaves open what was run.
//
// The whole table presumes a service that honours the key: under it a repeat can't take effect twice. That
// holds for a 500, 502 and 504 as well as for a connection that broke: all of them say only that nobody
// knows. A service that stored its failure replays it, and a replay is final; one that holds the key then
// answers unresolved, which is more than the failure told.
func judge(resp *http.Response, p *Problem, keyed bool) *AnswerError {
	e := &AnswerError{Status: resp.StatusCode, Problem: p}
	switch {
	case resp.Header.Get(ReplayedHeader) == "true": // kept, so it stays
		return nil
	case p != nil && keyed:
		switch p.Name {
		case inFlight, unknown:
			e.retry, e.open = true, true
			return e
		case storeUnavailable, bodyIncomplete, upstreamUnreachable:
			e.retry = true
			return e
		case keyMissing, keyInvalid, scopeMissing, methodNotAllowed, bodyTooLarge:
			return e
		case mismatch, unresolved, expired, notReplayable, answerTooLarge:
			return nil
		}
	}
	switch resp.StatusCode {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		e.retry = true
	case http.StatusUnauthorized, http.StatusProxyAuthRequired:
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		e.retry, e.open = true, keyed
	case http.StatusConflict:
		if !keyed || resp.Header.Get("Retry-After") == "" {
			return nil
		}
		e.retry, e.open = true, true
	default:
		return nil
	}
	return e
}

// receive judges an answer. First it reads what it can hold of it, of one to a request with a key and of
// one that may be retried: an answer that breaks off is then an error of the attempt, and not a surprise to
// whoever reads it, and the connection is free for the next attempt. An answer that is streamed or larger
// than TransportBodyMax is passed on, and so is a switch of protocols.
func receive(resp *http.Response, keyed bool) error {
	failed := keyed && resp.StatusCode >= http.StatusBadRequest || judge(resp, nil, keyed) != nil
	short := keyed && bodyAllowed(resp.StatusCode) && resp.ContentLength > 0 && resp.ContentLength <= TransportBodyMax
	if !failed && !short {
		return nil
	}
	if err := hold(resp); err != nil {
		return fmt.Errorf("the answer (%d) broke off: %w", resp.StatusCode, err)
	}
	p, _ := ProblemFrom(resp)
	e := judge(resp, p, keyed)
	if e == nil {
		return nil
	}
	wait := afterOf(resp.Header)
	if p != nil {
		wait = p.RetryAfter
	}
	return retry.After(wait, e)
}

// hold moves an answer's body to memory, up to TransportBodyMax. On an error the body is closed.
func hold(resp *http.Response) error {
	if resp.Body == nil {
		return nil
	}
	body := resp.Body
	text, more, err := readUpTo(body, TransportBodyMax)
	switch {
	case err != nil:
		_ = body.Close()
		return err
	case more:
		resp.Body = restore(text, body, body)
	default:
		_ = body.Close()
		resp.Body = io.NopCloser(bytes.NewReader(text))
	}
	return nil
}

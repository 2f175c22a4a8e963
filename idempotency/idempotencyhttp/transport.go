package idempotencyhttp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/retry"
)

// Transport makes a client's requests safe to send again, and sends them again under one key per intent,
// with full jitter and within the bounds of p. The service must honour Idempotency-Key, as Middleware, InTx
// and the gateway do: with any other a retry may take effect twice. base sends each attempt; nil is
// http.DefaultTransport. Transport panics when p is impossible.
//
// One RoundTrip is one intent. A POST or PATCH gets an Idempotency-Key, unless the request has one: that of
// WithKey, or else a new UUID of version 7. Any other method that is not safe gets the one of WithKey, if
// there is one, and is otherwise sent once and left alone. GET, HEAD, OPTIONS and TRACE need no key. A
// caller that tries again by itself, on whatever level, must use WithKey, so that all its attempts share the
// key. A redirect that http.Client follows is a RoundTrip of its own. The time in a new key is this host's.
//
// # What is sent again
//
// A network error, and an answer that breaks off, after the request may have been sent: its outcome is
// unknown, and only the key makes a repeat safe. The answers 408, 425, 429, 500, 502, 503 and 504, and 409
// if it is in-flight or has a Retry-After, which is heard within the bounds of p. Never an answer that is
// marked as a replay, and never unresolved, mismatch, expired or not-replayable: another attempt gets the
// same. p.Retryable can forbid more, and finds such an answer in its error as an *AnswerError. p.Idempotent
// is ignored.
//
// A 500, 502 or 504 says as little as a broken connection of what was done. Under a key that the service
// honours a repeat of it is as safe: work that was rolled back runs now, a failure that was kept is replayed,
// and a key that is held answers unresolved, which tells more than the failure did.
//
// Every attempt sends the same bytes: by GetBody, which http.NewRequest sets for the usual bodies, or from
// memory. A body without GetBody is read to its end before anything is sent; one above TransportBodyMax is
// sent once. An answer to a request with a key is read whole before it is returned, if it says its length
// and that is within TransportBodyMax: so one that breaks off is asked for again. Any other is passed on as
// it comes, and whoever reads it sees it break.
//
// base may also send a request again by itself. http.Transport does so for one with a key when a connection
// that it kept turns out dead, and doesn't tell (H1). Under the key that is harmless as well.
//
// # What is returned
//
// The answer that settles the request. When the attempts are used up, or the service asks for more patience
// than p has: the last answer, as it came. There is one exception. An answer that is about its attempt
// alone (401, 407, 408, 425, 429, and problems by which nothing was run) would say that nothing happened;
// when an earlier attempt may have taken effect, an error takes its place.
//
// Every other end is a *TransportError with the key, or a *fifty.InvalidError when the key can't be sent and
// nothing was. The former is a fifty.ErrUnknownOutcome if the request may have taken effect: send it again
// with WithKey and that key, never with a new one. The context ends the waits and, through base, the
// attempts. Prefer it to http.Client.Timeout, which puts a plain text in the error's place, without the key.
// resp.Request.Header has the key that an answer belongs to.
//
// The transport does not change the request, closes its body, and is safe for concurrent use.
func Transport(base http.RoundTripper, p retry.Policy) http.RoundTripper {
	probe := p
	probe.Budget, probe.Clock = nil, nil
	if err := retry.Do(context.Background(), probe, func(context.Context) error { return nil }); err != nil {
		panic("idempotencyhttp: Transport: " + err.Error())
	}
	if base == nil {
		base = http.DefaultTransport
	}
	return &transport{base: base, policy: p}
}

// TransportError is the error of Transport: no answer settled the request. It unwraps to what ended it,
// which is a fifty.ErrUnknownOutcome if the request may have taken effect, a *retry.ExhaustedError if a
// bound of the policy was reached, and the context's error if that ended.
type TransportError struct {
	// Key is the request's key, without quotes: give it to WithKey to ask again. It is empty for a request
	// without a key.
	Key string
	Err error
}

func (e *TransportError) Error() string {
	if e.Key == "" {
		return e.Err.Error()
	}
	return fmt.Sprintf("key %q: %v", e.Key, e.Err)
}

// Unwrap returns what ended the request.
func (e *TransportError) Unwrap() error { return e.Err }

// Timeout says whether time ran out, as net/url.Error asks.
func (e *TransportError) Timeout() bool {
	t, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](e.Err)
	return ok && t.Timeout()
}

type transport struct {
	base   http.RoundTripper
	policy retry.Policy
}

// CloseIdleConnections is that of the base, for http.Client.
func (t *transport) CloseIdleConnections() {
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	name, err := nameIntent(r)
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	if name.line == "" && !isSafe(r.Method) {
		return t.base.RoundTrip(r)
	}
	body, err := sourceOf(r)
	if err != nil {
		return nil, &TransportError{Key: name.key, Err: err}
	}
	defer body.close()
	s := &sending{base: t.base, request: r, name: name, body: body, asked: t.policy.Retryable}
	p := t.policy
	p.Idempotent, p.Retryable = true, s.retryable
	return s.conclude(retry.Do(r.Context(), p, s.attempt))
}

// sending is one RoundTrip. Its attempts come one after the other.
type sending struct {
	base    http.RoundTripper
	request *http.Request
	name    named
	body    *source
	asked   func(error) bool // the caller's Policy.Retryable, or nil

	answer *http.Response // of the latest attempt; nil when it got none
	final  bool           // the latest attempt must not be followed by another
}

// finalError ends the attempts.
type finalError struct{ err error }

func (e *finalError) Error() string { return e.err.Error() }
func (e *finalError) Unwrap() error { return e.err }

func (s *sending) keyed() bool { return s.name.line != "" }

// attempt sends the request once. nil means that the answer settles it.
func (s *sending) attempt(ctx context.Context) error {
	s.drop()
	body, err := s.body.next()
	if err != nil {
		return &finalError{fmt.Errorf("not sent again, its body can't be had again: %w", err)}
	}
	var connected atomic.Bool // in this attempt, by a base that tells
	if s.keyed() {
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
		})
	}
	r := s.request.WithContext(ctx)
	if !s.body.empty {
		r.Body, r.GetBody = body, s.body.again
	}
	if s.keyed() {
		r.Header = withKeyLine(r.Header, s.name.line)
	}
	resp, err := s.base.RoundTrip(r) //nolint:bodyclose // the caller closes what is returned, and drop the others
	if err == nil && resp == nil {
		err = errors.New("base returned neither an answer nor an error")
	}
	if err != nil {
		return s.failed(err, connected.Load())
	}
	err = receive(resp, s.keyed())
	if _, answered := errors.AsType[*AnswerError](err); err != nil && !answered {
		return s.failed(err, true)
	}
	s.answer = resp
	return err
}

// failed says what an attempt without an answer leaves open. Only a dial that failed, or a certificate that
// was refused, says that nothing was sent, and it says so of the last connection only: an attempt in which
// there was one before may have been sent over that.
func (s *sending) failed(err error, connected bool) error {
	op, ok := errors.AsType[*net.OpError](err)
	dialing := ok && op.Op == "dial"
	_, refused := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case refused && !connected:
		return &finalError{err}
	case !s.keyed(), dialing && !connected, errors.Is(err, fifty.ErrUnknownOutcome), errors.Is(err, fifty.ErrInvalid):
		return err // as it is, what a Transport below this one says of it included
	}
	return fmt.Errorf("%w: %w", fifty.ErrUnknownOutcome, err)
}

// retryable is the Policy.Retryable of the attempts.
func (s *sending) retryable(err error) bool {
	_, final := errors.AsType[*finalError](err)
	answer, answered := errors.AsType[*AnswerError](err)
	s.final = final || answered && !answer.retry || !s.body.repeatable() || s.asked != nil && !s.asked(err)
	return !s.final
}

// conclude turns the end of the attempts into what RoundTrip returns.
func (s *sending) conclude(err error) (*http.Response, error) {
	if err == nil {
		return s.answer, nil
	}
	if s.answer != nil && (s.final || errors.Is(err, retry.ErrExhausted)) {
		// An answer that leaves the request open says so itself. Any other that comes with an unknown
		// outcome, which is then that of an earlier attempt, would mislead.
		answer, ok := errors.AsType[*AnswerError](err)
		if ok && (answer.open || !errors.Is(err, fifty.ErrUnknownOutcome)) {
			return s.answer, nil
		}
	}
	s.drop()
	return nil, &TransportError{Key: s.name.key, Err: err}
}

// drop closes the answer of the latest attempt. What could be held of it was read by receive.
func (s *sending) drop() {
	if s.answer != nil && s.answer.Body != nil {
		_ = s.answer.Body.Close()
	}
	s.answer = nil
}

// withKeyLine is a copy of h with one key.
func withKeyLine(h http.Header, line string) http.Header {
	h = h.Clone()
	for name := range h {
		if http.CanonicalHeaderKey(name) == KeyHeader {
			delete(h, name)
		}
	}
	if h == nil {
		h = http.Header{}
	}
	h[KeyHeader] = []string{line}
	return h
}

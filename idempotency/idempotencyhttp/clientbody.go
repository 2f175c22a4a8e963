package idempotencyhttp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/fiftyhosts/fifty"
)

// TransportBodyMax is the largest body, in bytes, that Transport holds in memory: one of a request, to send
// it again, and one of an answer, to see that it is whole.
const TransportBodyMax = 1 << 20

// source gives each attempt the body of a request, from its start.
type source struct {
	first io.ReadCloser                 // for the first attempt; nil when it was taken, or when all use again
	again func() (io.ReadCloser, error) // nil when the body can be sent once only
	empty bool
}

// sourceOf takes over the body of r. A body without GetBody is read, up to TransportBodyMax. On an error
// the body is closed and nothing was sent.
func sourceOf(r *http.Request) (*source, error) {
	switch {
	case r.Body == nil || r.Body == http.NoBody:
		return &source{empty: true}, nil
	case r.GetBody != nil:
		return &source{first: r.Body, again: r.GetBody}, nil
	case r.ContentLength > TransportBodyMax:
		return &source{first: r.Body}, nil
	}
	text, more, err := readUpTo(r.Body, TransportBodyMax)
	switch {
	case err != nil:
		_ = r.Body.Close()
		return nil, fmt.Errorf("nothing was sent, the request's body can't be read: %w", err)
	case more:
		return &source{first: restore(text, r.Body, r.Body)}, nil
	}
	_ = r.Body.Close()
	if r.ContentLength > 0 && r.ContentLength != int64(len(text)) {
		return nil, &fifty.InvalidError{
			Field: "Request.ContentLength", Problem: fmt.Sprintf("is %d, but the body has %d bytes; nothing was sent", r.ContentLength, len(text)),
		}
	}
	return &source{again: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }}, nil
}

// repeatable says whether a second attempt can have the body.
func (s *source) repeatable() bool { return s.empty || s.again != nil }

// next is the body of the next attempt, which closes it.
func (s *source) next() (io.ReadCloser, error) {
	if first := s.first; first != nil {
		s.first = nil
		return first, nil
	}
	if s.empty {
		return http.NoBody, nil
	}
	body, err := s.again()
	if err == nil && body == nil {
		err = errors.New("GetBody returned no body")
	}
	return body, err
}

// close closes the body that no attempt took.
func (s *source) close() {
	if s.first != nil {
		_ = s.first.Close()
	}
}

// readUpTo reads at most max bytes, or one more to see that there are more.
func readUpTo(from io.Reader, max int64) (text []byte, more bool, err error) {
	text, err = io.ReadAll(io.LimitReader(from, max+1))
	return text, int64(len(text)) > max, err
}

// restore is a body of which text was read already.
func restore(text []byte, rest io.Reader, closer io.Closer) io.ReadCloser {
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(text), rest), closer}
}

// broken is a reader of which nothing is left but its error.
type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

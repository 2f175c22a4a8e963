package server

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/fiftyhosts/fifty/internal/wall"
)

// Bounds of a client that is slow. Neither is a bound of the work.
const (
	bodyReadMax    = time.Minute // for all of a keyed request's body
	answerWriteMax = time.Minute // for each part of an answer to be taken
)

// timedBody gives the connection a deadline for reading until the body is there, and takes it away then:
// later the same reading tells whether the client is still there. It stays when the body breaks off, since
// net/http then reads on, to find the next request.
type timedBody struct {
	io.ReadCloser
	conn *http.ResponseController
}

func newTimedBody(w http.ResponseWriter, body io.ReadCloser, within time.Duration) io.ReadCloser {
	conn := http.NewResponseController(w)
	if conn.SetReadDeadline(wall.Runtime().Add(within)) != nil {
		return body // no connection below that has deadlines
	}
	return &timedBody{body, conn}
}

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		_ = b.conn.SetReadDeadline(time.Time{})
	}
	return n, err
}

// pacedWriter gives the client a new deadline with each part of an answer, so that one that stops reading
// does not hold its request for ever. A deadline for the whole answer would bound the work.
type pacedWriter struct {
	http.ResponseWriter
	conn *http.ResponseController
}

func newPacedWriter(w http.ResponseWriter) *pacedWriter {
	p := &pacedWriter{w, http.NewResponseController(w)}
	// That of the connection's last answer may be over, and net/http itself writes before a handler does.
	_ = p.conn.SetWriteDeadline(time.Time{})
	return p
}

func (p *pacedWriter) pace() { _ = p.conn.SetWriteDeadline(wall.Runtime().Add(answerWriteMax)) }

func (p *pacedWriter) WriteHeader(status int) {
	p.pace()
	p.ResponseWriter.WriteHeader(status)
}

func (p *pacedWriter) Write(b []byte) (int, error) {
	p.pace()
	return p.ResponseWriter.Write(b)
}

// FlushError sends what is held back.
func (p *pacedWriter) FlushError() error {
	p.pace()
	return p.conn.Flush()
}

// Unwrap lets http.ResponseController find what this writer does not have.
func (p *pacedWriter) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// statusWriter remembers the status that was written.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController find what this writer does not have.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

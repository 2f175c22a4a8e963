package idempotencyhttp

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
)

// What a handler's answer tells the keys when it is not a definite one.
var (
	errFreed    = errors.New("idempotencyhttp: the handler's answer frees the key")
	errFailed   = errors.New("idempotencyhttp: the handler's answer is a failure")
	errTooLarge = errors.New("idempotencyhttp: an answer in a transaction is held back whole, and this one is larger than ResponseMax")
	errEnded    = errors.New("idempotencyhttp: the handler has returned; its answer can't be added to")
)

// recorder is the ResponseWriter of a protected request. It holds the answer back, so that nothing leaves
// before the outcome is durable (H9). An answer that outgrows max, or is flushed, is streamed instead: all
// but its end leaves at once, and the end waits. It is safe for concurrent use but for its header.
//
// It has no Unwrap: whatever reached the connection around it would send unrecorded bytes.
type recorder struct {
	w       http.ResponseWriter // the client's
	r       *http.Request       // the client's
	cfg     *Config
	request idempotency.Request
	whole   bool // the answer must not be streamed: it is made in a transaction

	header http.Header // the handler's

	mu        sync.Mutex
	status    int         // zero until the answer has begun
	head      http.Header // header as it was then
	length    int64       // the Content-Length that the handler declared, or -1
	written   int64       // bytes that the handler wrote
	buffer    bytes.Buffer
	streaming bool
	held      []byte      // the last byte of a streamed answer of declared length
	trailer   http.Header // at the end
	tooLarge  bool
	ended     bool
	keep      Keep // set by SetKeep, or zero
	decided   Keep // at the end
	unkept    bool // at the end: the answer is not kept whole
}

func newRecorder(x *exchange) *recorder {
	return &recorder{
		w: x.w, r: x.r, cfg: &x.guard.cfg, request: x.request, whole: x.guard.whole,
		header: http.Header{}, length: -1,
	}
}

// Header is the answer's. It holds nothing that outer handlers have set: what they set is not the answer's.
func (rec *recorder) Header() http.Header { return rec.header }

func (rec *recorder) setKeep(k Keep) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.keep = k
}

// WriteHeader begins the answer. Informational answers are dropped, since no duplicate could get them.
func (rec *recorder) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("idempotencyhttp: %d is no HTTP status", status)) // before it is stored
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if status >= http.StatusOK && rec.status == 0 && !rec.ended {
		rec.begin(status)
	}
}

func (rec *recorder) begin(status int) {
	rec.status = status
	rec.head = rec.header.Clone()
	if n, err := strconv.ParseInt(rec.head.Get("Content-Length"), 10, 64); err == nil && n >= 0 {
		rec.length = n // any other is dropped when it is sent, by net/http if not by us
	}
}

// Write adds to the answer. A client that has left is no error: the work goes on without it.
func (rec *recorder) Write(p []byte) (int, error) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if rec.ended {
		return 0, errEnded
	}
	if rec.status == 0 {
		rec.begin(http.StatusOK)
	}
	switch {
	case !bodyAllowed(rec.status):
		return 0, http.ErrBodyNotAllowed
	case rec.r.Method == http.MethodHead:
		return len(p), nil
	case rec.length >= 0 && rec.written+int64(len(p)) > rec.length:
		return 0, http.ErrContentLength
	case rec.tooLarge:
		return 0, errTooLarge
	}
	rec.written += int64(len(p))
	if !rec.streaming && rec.buffer.Len()+len(p) > rec.cfg.ResponseMax {
		if rec.whole {
			rec.tooLarge = true
			return 0, errTooLarge
		}
		rec.stream()
	}
	if rec.streaming {
		rec.pass(p, rec.written)
		return len(p), nil
	}
	return rec.buffer.Write(p)
}

// Flush is FlushError.
func (rec *recorder) Flush() { _ = rec.FlushError() }

// FlushError starts streaming and flushes what there is, unless Config.IgnoreFlush is set. In a transaction
// it is http.ErrNotSupported. An answer that has no body, or none to come, is held back all the same: its
// head would be all of it.
func (rec *recorder) FlushError() error {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	switch {
	case rec.ended:
		return errEnded
	case rec.whole:
		return http.ErrNotSupported
	case rec.cfg.IgnoreFlush && !rec.streaming:
		return nil
	}
	if rec.status == 0 {
		rec.begin(http.StatusOK)
	}
	if !bodyAllowed(rec.status) || rec.r.Method == http.MethodHead || rec.length == 0 {
		return nil
	}
	if !rec.streaming {
		rec.stream()
	}
	if err := http.NewResponseController(rec.w).Flush(); errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// SetReadDeadline does nothing: the request has been read.
func (rec *recorder) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline is that of the client's connection.
func (rec *recorder) SetWriteDeadline(t time.Time) error {
	return http.NewResponseController(rec.w).SetWriteDeadline(t)
}

// EnableFullDuplex does nothing: the request has been read.
func (rec *recorder) EnableFullDuplex() error { return nil }

// stream sends what is held back, and lets the rest pass.
func (rec *recorder) stream() {
	rec.streaming = true
	merge(rec.w.Header(), rec.head)
	rec.w.WriteHeader(rec.status)
	rec.pass(rec.buffer.Bytes(), int64(rec.buffer.Len()))
	rec.buffer = bytes.Buffer{}
}

// pass sends a part of a streamed answer; sum is how long the answer is with it. When its length was
// declared the client would know the answer whole by its last byte, so that one waits for the end.
func (rec *recorder) pass(p []byte, sum int64) {
	if len(p) > 0 && sum == rec.length {
		rec.held = []byte{p[len(p)-1]}
		p = p[:len(p)-1]
	}
	if len(p) > 0 {
		_, _ = rec.w.Write(p)
	}
}

// end closes the answer: later writes are errors.
func (rec *recorder) end() {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.ended = true
}

// finish ends the answer after its handler has returned, and says what the keys get of it. An answer
// shorter than its own Content-Length is a broken one: it ends like a panic of the handler.
func (rec *recorder) finish() (idempotency.Response, error) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if rec.tooLarge {
		return idempotency.Response{}, errTooLarge
	}
	if rec.status == 0 {
		rec.begin(http.StatusOK)
	}
	if bodyAllowed(rec.status) && rec.r.Method != http.MethodHead && rec.length > rec.written {
		panic(http.ErrAbortHandler)
	}
	rec.ended = true
	rec.trailer = rec.trailers()
	rec.decided = rec.keep
	if rec.decided == 0 {
		rec.decided = rec.cfg.Keep(rec.status)
	}
	switch rec.decided {
	case Freed:
		return idempotency.Response{}, idempotency.NotDone(errFreed)
	case Stored:
		header := rec.storable()
		rec.unkept = rec.streaming || rec.trailer != nil || sizeOf(header) > HeaderMax
		if rec.unkept {
			return idempotency.Response{Status: rec.status, NotReplayable: true}, nil
		}
		return idempotency.Response{Status: rec.status, Header: header, Body: bytes.Clone(rec.buffer.Bytes())}, nil
	default:
		return idempotency.Response{}, errFailed
	}
}

// trailers are the fields that the handler set to follow the body, by the rules of net/http. nil is none.
func (rec *recorder) trailers() http.Header {
	var found http.Header
	add := func(name string, values []string) {
		if found == nil {
			found = http.Header{}
		}
		found[name] = values
	}
	for _, line := range rec.head.Values("Trailer") {
		for name := range strings.SplitSeq(line, ",") {
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			if values, ok := rec.header[name]; ok {
				add(name, values)
			}
		}
	}
	for name, values := range rec.header {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			add(name, values)
		}
	}
	return found.Clone()
}

// deliver sends the answer, or the end of one that was streamed. The outcome is durable by now.
func (rec *recorder) deliver() {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if !rec.streaming {
		merge(rec.w.Header(), rec.head)
		if bodyAllowed(rec.status) && rec.r.Method != http.MethodHead && rec.trailer == nil {
			rec.w.Header().Set("Content-Length", strconv.Itoa(rec.buffer.Len()))
		}
		rec.w.WriteHeader(rec.status)
		rec.held = rec.buffer.Bytes()
	}
	if len(rec.held) > 0 {
		_, _ = rec.w.Write(rec.held)
	}
	maps.Copy(rec.w.Header(), rec.trailer)
}

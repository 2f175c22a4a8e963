package idempotencyhttp

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
)

// body is a request's body, whole: in memory, or in a temporary file when it is larger than MemoryMax.
type body struct {
	size   int64
	memory []byte
	file   *os.File // nil while it fits in memory
}

// readBody reads all of a request's body before anything is decided about the request. A body that ends
// early is a *Problem, body-incomplete, and one above max is body-too-large. Any other error is ours: the
// temporary file could not be written. On an error nothing is left behind.
func readBody(w http.ResponseWriter, r *http.Request, max, memoryMax int64) (*body, error) {
	if r.ContentLength > max {
		return nil, problem(bodyTooLarge)
	}
	if r.Body == nil {
		return &body{}, nil
	}
	in := &clientReader{from: http.MaxBytesReader(w, r.Body, max)} // it also bounds all that follows
	var memory bytes.Buffer
	if _, err := io.Copy(&memory, io.LimitReader(in, memoryMax)); err != nil {
		return nil, err
	}
	b := &body{size: int64(memory.Len()), memory: memory.Bytes()}
	if b.size < memoryMax {
		return b, nil
	}
	var next [1]byte
	switch _, err := io.ReadFull(in, next[:]); {
	case errors.Is(err, io.EOF):
		return b, nil
	case err != nil:
		return nil, err
	}
	if err := b.spill(io.MultiReader(bytes.NewReader(next[:]), in)); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

// spill moves the body to a temporary file and adds the rest to it.
func (b *body) spill(rest io.Reader) error {
	file, err := os.CreateTemp("", "fifty-body-*")
	if err != nil {
		return err
	}
	b.file = file
	// Where the system allows it the name goes at once, so that not even a crash leaves the file. Where it
	// does not, close removes it.
	_ = os.Remove(file.Name())
	if _, err := file.Write(b.memory); err != nil {
		return err
	}
	more, err := io.Copy(file, rest)
	b.size, b.memory = b.size+more, nil
	return err
}

// close frees what the body holds. A reader that is still in use gets an error from then on.
func (b *body) close() {
	if b.file != nil {
		_ = b.file.Close()
		_ = os.Remove(b.file.Name()) // gone already, on most systems
	}
}

// open returns a new reader from the body's start.
func (b *body) open() io.Reader {
	if b.file != nil {
		return io.NewSectionReader(b.file, 0, b.size)
	}
	return bytes.NewReader(b.memory)
}

// handed is the body that a handler gets. It is a type of our own, and is used for an empty body too:
// net/http knows how to send the bodies of its own types again, and does so by itself when a connection
// breaks and the request has a key (H1).
type handed struct {
	io.Reader
	closed bool
}

func (h *handed) Read(p []byte) (int, error) {
	if h.closed {
		return 0, http.ErrBodyReadAfterClose
	}
	return h.Reader.Read(p)
}

func (h *handed) Close() error {
	h.closed = true
	return nil
}

// clientReader tells the client's errors from ours: each of its errors is a *Problem.
type clientReader struct{ from io.Reader }

func (c *clientReader) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return n, problem(bodyTooLarge)
	}
	return n, problem(bodyIncomplete)
}

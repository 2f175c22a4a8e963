package server

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// deadlines is a ResponseWriter whose connection notes its deadlines.
type deadlines struct {
	*httptest.ResponseRecorder
	read, write []time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error {
	d.read = append(d.read, t)
	return nil
}

func (d *deadlines) SetWriteDeadline(t time.Time) error {
	d.write = append(d.write, t)
	return nil
}

func TestTheDeadlineOfABodyEndsWithIt(t *testing.T) {
	d := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	body := newTimedBody(d, io.NopCloser(strings.NewReader("body")), time.Minute)
	if len(d.read) != 1 || d.read[0].IsZero() {
		t.Fatalf("before the body the deadlines are %v", d.read)
	}
	if _, err := io.ReadAll(body); err != nil {
		t.Fatal(err)
	}
	if len(d.read) != 2 || !d.read[1].IsZero() {
		t.Errorf("after the body the deadlines are %v: work that takes longer looks like a client that left", d.read)
	}
	d.read = nil
	broken := newTimedBody(d, io.NopCloser(io.MultiReader(strings.NewReader("bo"), iotest.ErrReader(io.ErrUnexpectedEOF))), time.Minute)
	if _, err := io.ReadAll(broken); err == nil || len(d.read) != 1 {
		t.Errorf("after half a body, %v, the deadlines are %v: net/http reads on without end", err, d.read)
	}
	plain := io.NopCloser(strings.NewReader(""))
	if got := newTimedBody(httptest.NewRecorder(), plain, time.Minute); got != plain {
		t.Error("a connection without deadlines gets a body that needs one")
	}
}

func TestEachPartOfAnAnswerHasADeadline(t *testing.T) {
	d := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	w := newPacedWriter(d)
	if len(d.write) != 1 || !d.write[0].IsZero() {
		t.Fatalf("at the start of a request the deadlines are %v: the last answer's may be over", d.write)
	}
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write([]byte("part"))
	if err := http.NewResponseController(w).Flush(); err != nil {
		t.Fatal(err)
	}
	if len(d.write) != 4 || !d.Flushed || d.Body.String() != "part" {
		t.Errorf("deadlines %v, flushed %v, body %q", d.write, d.Flushed, d.Body)
	}
	for _, at := range d.write[1:] {
		if at.IsZero() {
			t.Errorf("a part has no deadline: %v", d.write)
		}
	}
}

// TestABodyThatNeverEndsIsRefused: the key that it names stays free.
func TestABodyThatNeverEndsIsRefused(t *testing.T) {
	up := startUpstream(t, created)
	g := startGate(t, up.URL, nil)
	conn, err := net.Dial("tcp", g.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "POST /charges HTTP/1.1\r\nHost: g\r\nIdempotency-Key: k1\r\nContent-Length: 100\r\n\r\nhalf"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	wantProblem(t, answer{resp.StatusCode, resp.Header, string(text)}, http.StatusBadRequest, "body-incomplete")
	wantEffects(t, up, 0)
	if a := g.send(t, http.MethodPost, "/charges", "k1", "whole"); a.status != http.StatusCreated || a.replayed() {
		t.Errorf("the whole request got %+v", a)
	}
}

package idempotencyhttp_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/idempotency/idempotencyhttp"
)

func TestAnswerAboveItsBoundIsSentWholeAndNotKept(t *testing.T) {
	for _, declared := range []bool{false, true} {
		t.Run(fmt.Sprintf("declared length %v", declared), func(t *testing.T) {
			large := strings.Repeat("0123456789", 10)
			s := newSite(t, idempotencyhttp.Config{ResponseMax: 32}, func(w http.ResponseWriter, r *http.Request) {
				if declared {
					w.Header().Set("Content-Length", fmt.Sprint(len(large)))
				}
				w.Header().Set("Location", "/reports/1")
				w.WriteHeader(http.StatusCreated)
				for part := range slices.Chunk([]byte(large), 7) {
					_, _ = w.Write(part)
				}
			})
			url, client := s.serve(nil)
			res := send(t, client, onWire(t, url, "k", "{}"))
			if res.StatusCode != 201 || res.Body != large || res.Header.Get("Location") != "/reports/1" {
				t.Fatalf("%d %q %v", res.StatusCode, res.Body, res.Header)
			}
			res = send(t, client, onWire(t, url, "k", "{}"))
			wantProblemOf(t, res, "not-replayable", 409)
			s.wantRuns(1)
			if s.events.count("idempotencyhttp.not_replayable") != 1 {
				t.Fatal("it was not counted")
			}
		})
	}
}

func TestAnswerOfExactlyItsBoundIsKept(t *testing.T) {
	s := newSite(t, idempotencyhttp.Config{ResponseMax: 32}, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", 32))
	})
	wantFirst(t, s.do(post("k", "{}")), 200, strings.Repeat("x", 32))
	wantReplay(t, s.do(post("k", "{}")), 200, strings.Repeat("x", 32))
}

func TestFlushedAnswerStreamsAndIsNotKept(t *testing.T) {
	next := make(chan struct{})
	s := newSite(t, idempotencyhttp.Config{}, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "one\n")
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		<-next
		_, _ = io.WriteString(w, "two\n")
	})
	url, client := s.serve(nil)
	res, err := client.Do(onWire(t, url, "k", "{}"))
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(res.Body)
	if line, err := lines.ReadString('\n'); err != nil || line != "one\n" {
		t.Fatalf("%q, %v", line, err)
	}
	close(next) // the client has seen the first line while the handler was at work
	if rest, err := io.ReadAll(lines); err != nil || string(rest) != "two\n" {
		t.Fatalf("%q, %v", rest, err)
	}
	_ = res.Body.Close()
	again := send(t, client, onWire(t, url, "k", "{}"))
	wantProblemOf(t, again, "not-replayable", 409)
}

func TestFlushAloneBeginsTheAnswer(t *testing.T) {
	s := newSite(t, idempotencyhttp.Config{}, func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		w.WriteHeader(http.StatusTeapot) // too late
	})
	if w := s.do(post("k", "{}")); w.Code != 200 || !w.Flushed {
		t.Fatalf("%d, flushed %v", w.Code, w.Flushed)
	}
	wantProblemIn(t, s.do(post("k", "{}")), "not-replayable", 409)
}

func TestFlushOnAConnectionThatCanNotIsSaidSo(t *testing.T) {
	s := newSite(t, idempotencyhttp.Config{}, func(w http.ResponseWriter, r *http.Request) {
		if err := http.NewResponseController(w).Flush(); !errors.Is(err, http.ErrNotSupported) {
			t.Errorf("%v", err)
		}
	})
	s.ServeHTTP(struct{ http.ResponseWriter }{httptest.NewRecorder()}, post("k", "{}"))
	s.wantRuns(1)
}

func TestIgnoredFlushKeepsTheAnswer(t *testing.T) {
	s := newSite(t, idempotencyhttp.Config{IgnoreFlush: true, ResponseMax: 32}, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "one")
		w.(http.Flusher).Flush()
		_, _ = io.WriteString(w, r.URL.RawQuery)
		w.(http.Flusher).Flush()
	})
	first := s.do(post("k", "{}"))
	wantFirst(t, first, 200, "one")
	if first.Flushed {
		t.Fatal("flushed")
	}
	wantReplay(t, s.do(post("k", "{}")), 200, "one")

	r := post("large", "{}")
	r.URL.RawQuery = strings.Repeat("q", 32) // once it has outgrown its bound it streams, and Flush counts
	if large := s.do(r); large.Body.String() != "one"+r.URL.RawQuery || !large.Flushed {
		t.Fatalf("%q, flushed %v", large.Body, large.Flushed)
	}
}

func TestFlushOfAnAnswerWithoutABodyIsHeldBackToo(t *testing.T) {
	for name, begin := range map[string]func(w http.ResponseWriter){
		"204":              func(w http.ResponseWriter) { w.WriteHeader(http.StatusNoContent) },
		"Content-Length 0": func(w http.ResponseWriter) { w.Header().Set("Content-Length", "0") },
	} {
		t.Run(name, func(t *testing.T) {
			client := httptest.NewRecorder()
			s := newSite(t, idempotencyhttp.Config{}, func(w http.ResponseWriter, r *http.Request) {
				begin(w)
				w.(http.Flusher).Flush()
				if client.Flushed {
					t.Error("the client has all of the answer before its outcome is recorded")
				}
			})
			s.ServeHTTP(client, post("k", "{}"))
			if again := s.do(post("k", "{}")); again.Code != client.Code || again.Header().Get("Idempotency-Replayed") != "true" {
				t.Fatalf("%d %v", again.Code, again.Header())
			}
		})
	}
}

// lossy breaks every completion from the moment that it is told to.
func lossy(s *site) {
	s.store.complete = func(idempotency.Completion) error { return errDown }
}

func TestStreamedAnswerThatCannotBeRecordedIsNeverComplete(t *testing.T) {
	const text = "all of the answer"
	for name, c := range map[string]struct {
		declared bool
		proto    string
	}{
		"chunked":                                 {false, "HTTP/1.1"},
		"declared length":                         {true, "HTTP/1.1"},
		"HTTP/1.0 with a declared length":         {true, "HTTP/1.0"},
		"HTTP/1.0, ended by the connection's end": {false, "HTTP/1.0"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, idempotencyhttp.Config{}, func(w http.ResponseWriter, r *http.Request) {
				if c.declared {
					w.Header().Set("Content-Length", fmt.Sprint(len(text)))
				}
				_, _ = io.WriteString(w, text)
				w.(http.Flusher).Flush()
			})
			lossy(s)
			url, _ := s.serve(nil)
			conn := raw(t, url, strings.Replace(head, "HTTP/1.1", c.proto, 1)+"Content-Length: 0\r\n\r\n", false)
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				return // not even the head arrived
			}
			defer func() { _ = res.Body.Close() }()
			if body, err := io.ReadAll(res.Body); err == nil {
				t.Fatalf("the client takes %q for the whole answer", body)
			}
			s.wantRuns(1)
			if s.events.count("idempotencyhttp.aborted") != 1 {
				t.Fatal("it was not counted")
			}
		})
	}
}

func TestStreamedAnswerOverHTTP2ThatCannotBeRecordedIsReset(t *testing.T) {
	s := newSite(t, idempotencyhttp.Config{}, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "all of the answer")
		w.(http.Flusher).Flush()
	})
	lossy(s)
	srv := httptest.NewUnstartedServer(s)
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	res, err := srv.Client().Do(onWire(t, srv.URL, "k", "{}"))
	if err != nil {
		return
	}
	defer func() { _ = res.Body.Close() }()
	if body, err := io.ReadAll(res.Body); err == nil || res.ProtoMajor != 2 {
		t.Fatalf("HTTP/%d: the client takes %q for the whole answer", res.ProtoMajor, body)
	}
}

func TestAnswerShorterThanItsOwnLengthIsABrokenOne(t *testing.T) {
	s := newSite(t, idempotencyhttp.Config{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "10")
		_, _ = io.WriteString(w, "short")
	})
	url, client := s.serve(nil)
	wantBroken(t, client, onWire(t, url, "k", "{}"))
	res := send(t, client, onWire(t, url, "k", "{}"))
	wantProblemOf(t, res, "unresolved", 409)
}

func TestAnswerLongerThanItsOwnLengthIsCutAsByNetHTTP(t *testing.T) {
	s := newSite(t, idempotencyhttp.Config{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "5")
		_, _ = io.WriteString(w, "right")
		if n, err := io.WriteString(w, "!"); n != 0 || !errors.Is(err, http.ErrContentLength) {
			t.Errorf("%d, %v", n, err)
		}
	})
	wantFirst(t, s.do(post("k", "{}")), 200, "right")
	wantReplay(t, s.do(post("k", "{}")), 200, "right")
}

func TestAnswerWithAHeaderAboveItsBoundIsSentAndNotKept(t *testing.T) {
	for size, kept := range map[int]bool{idempotencyhttp.HeaderMax: true, idempotencyhttp.HeaderMax + 1: false} {
		s := newSite(t, idempotencyhttp.Config{}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X", strings.Repeat("x", size-1))
		})
		wantFirst(t, s.do(post("k", "{}")), 200, "")
		if again := s.do(post("k", "{}")); kept {
			wantReplay(t, again, 200, "")
		} else {
			wantProblemIn(t, again, "not-replayable", 409)
		}
		s.wantRuns(1)
	}
}

func TestStreamedAnswerOverTLSAndHTTP10ThatCannotBeRecordedIsReset(t *testing.T) {
	s := newSite(t, idempotencyhttp.Config{}, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "all of the answer")
		w.(http.Flusher).Flush()
	})
	lossy(s)
	srv := httptest.NewTLSServer(s)
	defer srv.Close()
	config := srv.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	config.NextProtos = nil
	conn, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, strings.Replace(head, "HTTP/1.1", "HTTP/1.0", 1)+"Content-Length: 0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if all, err := io.ReadAll(conn); err == nil {
		t.Fatalf("the connection was closed as if all were well, after %q", all)
	}
}

func TestTrailersAreSentAndTheAnswerIsNotKept(t *testing.T) {
	for name, set := range map[string]func(h http.Header){
		"announced":   func(h http.Header) { h.Set("X-Checksum", "abc") },
		"unannounced": func(h http.Header) { h.Set(http.TrailerPrefix+"X-Checksum", "abc") },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, idempotencyhttp.Config{}, func(w http.ResponseWriter, r *http.Request) {
				if name == "announced" {
					w.Header().Set("Trailer", "X-Checksum")
				}
				_, _ = io.WriteString(w, strings.Repeat("x", 3000))
				set(w.Header())
			})
			url, client := s.serve(nil)
			res := send(t, client, onWire(t, url, "k", "{}"))
			if len(res.Body) != 3000 || res.Trailer.Get("X-Checksum") != "abc" {
				t.Fatalf("%d bytes, trailer %v", len(res.Body), res.Trailer)
			}
			res = send(t, client, onWire(t, url, "k", "{}"))
			wantProblemOf(t, res, "not-replayable", 409)
		})
	}
}

func TestWritesAfterTheHandlerHasReturnedAreRefused(t *testing.T) {
	returned := make(chan struct{})
	done := make(chan error, 2)
	decided := make(chan struct{})
	s := newSite(t, idempotencyhttp.Config{}, func(w http.ResponseWriter, r *http.Request) {
		charge(w, r)
		go func() { // what a handler leaves behind that gave up waiting for its own work
			<-returned
			_, err := io.WriteString(w, "late")
			done <- err
			done <- http.NewResponseController(w).Flush()
			w.WriteHeader(http.StatusTeapot)
			idempotencyhttp.SetKeep(r.Context(), idempotencyhttp.Freed)
			close(decided)
		}()
	})
	first := s.do(post("k", "{}"))
	close(returned)
	for _, what := range []string{"write", "flush"} {
		if err := <-done; err == nil {
			t.Errorf("a late %s was taken", what)
		}
	}
	<-decided
	wantFirst(t, first, 201, `{"id":"ch_1"}`)
	wantReplay(t, s.do(post("k", "{}")), 201, `{"id":"ch_1"}`)
}

func TestWritesAfterATimeoutHandlerHasAnsweredDoNotReachTheAnswer(t *testing.T) {
	gaveUp, wrote := make(chan struct{}), make(chan error, 1)
	s := newSite(t, idempotencyhttp.Config{}, func(w http.ResponseWriter, r *http.Request) {
		http.TimeoutHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-gaveUp
			_, err := io.WriteString(w, "late")
			wrote <- err
		}), 1, "gave up").ServeHTTP(w, r)
		close(gaveUp)
		if err := <-wrote; err == nil {
			t.Error("a late write was taken")
		}
	})
	wantFirst(t, s.do(post("k", "{}")), 503, "gave up")
	wantProblemIn(t, s.do(post("k", "{}")), "unresolved", 409) // the late work may have had its effect
}

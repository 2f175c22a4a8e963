package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// callMax bounds one call of a client, so that a server that hangs ends the case.
const callMax = 30 * time.Second

// A client has one connection to a server and keeps it. It is for one goroutine. It does less than
// http.Client, so that a ratio shows the servers and not the client that both share.
type client struct {
	conn   net.Conn
	reader *bufio.Reader
	body   bytes.Buffer
}

func newClient(address string) (*client, error) {
	conn, err := net.DialTimeout("tcp", address, callMax)
	if err != nil {
		return nil, err
	}
	return &client{conn: conn, reader: bufio.NewReader(conn)}, nil
}

// newClients makes one for each worker; they close with the case.
func newClients(b *bench, address string, workers int) ([]*client, error) {
	clients := make([]*client, workers)
	for i := range clients {
		c, err := newClient(address)
		if err != nil {
			return nil, err
		}
		clients[i] = c
		b.Cleanup(c.conn.Close)
	}
	return clients, nil
}

// An answer is valid until the client's next call.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// call sends the bytes of a whole request and reads the answer.
func (c *client) call(request []byte) (answer, error) {
	if err := c.conn.SetDeadline(time.Now().Add(callMax)); err != nil {
		return answer{}, err
	}
	if _, err := c.conn.Write(request); err != nil {
		return answer{}, err
	}
	resp, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	c.body.Reset()
	if _, err := c.body.ReadFrom(resp.Body); err != nil {
		return answer{}, err
	}
	return answer{resp.StatusCode, resp.Header, c.body.Bytes()}, nil
}

// The work behind a gateway: a charge, as small as one is.
const (
	chargeBody   = `{"account":"acct_1042","amount":1200,"currency":"EUR","memo":"order 7f3a"}`
	chargeAnswer = `{"id":"ch_0001","account":"acct_1042","amount":1200,"currency":"EUR","status":"succeeded","created":"2026-01-05T10:00:00Z"}`
)

// chargeRequest is a whole request with a key.
func chargeRequest(host, key string) []byte { return postRequest(host, key, chargeBody) }

// postRequest is chargeRequest with another body.
func postRequest(host, key, body string) []byte {
	return []byte("POST /charges HTTP/1.1\r\nHost: " + host + "\r\n" +
		"User-Agent: bench\r\nAccept: application/json\r\nAuthorization: Bearer 4f8c2f0b6a0d4c1e\r\n" +
		"Content-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n" +
		"Idempotency-Key: " + key + "\r\n\r\n" + body)
}

// charge is the handler of the work. It reads the request and answers.
func charge(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, chargeAnswer)
}

// checkCharge says what is wrong with an answer. replayed is what it must say of itself.
func checkCharge(a answer, replayed string) error {
	switch {
	case a.status != http.StatusCreated:
		return fmt.Errorf("status %d: %s", a.status, a.body)
	case string(a.body) != chargeAnswer:
		return fmt.Errorf("another answer: %s", a.body)
	case a.header.Get("Idempotency-Replayed") != replayed:
		return fmt.Errorf("Idempotency-Replayed is %q, want %q", a.header.Get("Idempotency-Replayed"), replayed)
	}
	return nil
}

// serveHTTP serves a handler on a free port until the case ends, and returns its address.
func serveHTTP(b *bench, h http.Handler) (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: callMax}
	done := make(chan error, 1)
	go func() { done <- s.Serve(listener) }()
	b.Cleanup(func() error {
		err := s.Close()
		if served := <-done; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	})
	return listener.Addr().String(), nil
}

package respwire_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fiftyhosts/fifty/faults"
	"github.com/fiftyhosts/fifty/faults/respwire"
)

// waitMax bounds each wait in these tests; a wait that gets there has failed.
const waitMax = 30 * time.Second

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// counters is a server, simulated, that knows HELLO and INCR.
type counters struct {
	mu     sync.Mutex
	values map[string]int
}

func (c *counters) value(key string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.values[key]
}

// serve answers commands that are arrays of short strings without line ends.
func (c *counters) serve(conn net.Conn) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	for {
		var n int
		if _, err := fmt.Fscanf(r, "*%d\r\n", &n); err != nil {
			return
		}
		words := make([]string, n)
		for i := range words {
			if _, err := r.ReadString('\n'); err != nil {
				return
			}
			word, err := r.ReadString('\n')
			if err != nil {
				return
			}
			words[i] = strings.TrimSpace(word)
		}
		if words[0] != "INCR" {
			_, _ = io.WriteString(conn, "+OK\r\n")
			continue
		}
		c.mu.Lock()
		c.values[words[1]]++
		value := c.values[words[1]]
		c.mu.Unlock()
		_, _ = fmt.Fprintf(conn, ":%d\r\n", value)
	}
}

func startCounters(t *testing.T) (*counters, string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &counters{values: map[string]int{}}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { c.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		wg.Wait()
	})
	return c, listener.Addr().String()
}

// incr connects, says hello and counts up key, and returns the answer.
func incr(addr, key string) (string, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(waitMax))
	if _, err := fmt.Fprintf(conn, "*1\r\n$5\r\nHELLO\r\n*2\r\n$4\r\nINCR\r\n$%d\r\n%s\r\n", len(key), key); err != nil {
		return "", err
	}
	r := bufio.NewReader(conn)
	if _, err := r.ReadString('\n'); err != nil {
		return "", fmt.Errorf("the answer to HELLO: %w", err)
	}
	answer, err := r.ReadString('\n')
	return strings.TrimSpace(answer), err
}

func TestEachFaultOnACommand(t *testing.T) {
	for fault, executed := range map[faults.Fault]struct{ before, after int }{ // the retry, the release
		faults.RequestLost: {0, 1},
		faults.ReplyLost:   {1, 2},
		faults.ClientGone:  {1, 2},
		faults.Zombie:      {0, 2},
	} {
		t.Run(string(fault), func(t *testing.T) {
			server, addr := startCounters(t)
			p, err := faults.Start(faults.Config{Upstream: addr, Protocol: respwire.Protocol{}, Plan: faults.At(1, fault)})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			ctx, cancel := context.WithTimeout(t.Context(), waitMax)
			defer cancel()

			if answer, err := incr(p.Addr(), "k"); err == nil || strings.Contains(err.Error(), "HELLO") {
				t.Fatalf("%q, %v: want the answer to HELLO and no other", answer, err)
			}
			s, err := p.WaitStrike(ctx, 1)
			if err != nil || s.Message.String() != "1 INCR k" {
				t.Fatalf("%v, %v", s, err)
			}
			if fault != faults.Zombie {
				if err := s.Wait(ctx); err != nil {
					t.Fatal(err)
				}
			}
			if got := server.value("k"); got != executed.before {
				t.Fatalf("executed %d times before the retry", got)
			}
			if _, err := incr(p.Addr(), "k"); err != nil {
				t.Fatal(err)
			}
			s.Release()
			if err := s.Wait(ctx); err != nil {
				t.Fatal(err)
			}
			if got := server.value("k"); got != executed.after {
				t.Fatalf("executed %d times in the end", got)
			}
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

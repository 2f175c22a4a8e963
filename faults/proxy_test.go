package faults_test

import (
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/faults"
)

// isReset says whether err is what a reset gives.
func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func TestMessagesAreCountedAndNamedHoweverTheyAreSplit(t *testing.T) {
	const stream = "part a\none\ntwo\n"
	for i := range len(stream) {
		b := setup(t, faults.Config{})
		b.proxy.Arm(nil)
		b.client.send(stream[:i])
		b.client.send(stream[i:])
		b.client.hears("ok one")
		b.client.hears("ok two")
		want := []faults.Message{
			{Number: 1, Conn: 1, OnConn: 1, Name: "part a", First: true},
			{Number: 2, Conn: 1, OnConn: 2, Name: "one", Last: true},
			{Number: 3, Conn: 1, OnConn: 3, Name: "two", First: true, Last: true},
		}
		if got := b.proxy.Trace(); !slices.Equal(got, want) {
			t.Fatalf("split at %d: %+v", i, got)
		}
	}
}

func TestConnectionsAreNumberedByTheirFirstMessage(t *testing.T) {
	b := setup(t, faults.Config{})
	other := b.dial()
	b.proxy.Arm(nil)
	other.send("a\n")
	other.hears("ok a")
	b.client.send("b\n")
	b.client.hears("ok b")
	other.send("c\n")
	other.hears("ok c")
	var got [][3]int
	for _, m := range b.proxy.Trace() {
		got = append(got, [3]int{m.Number, m.Conn, m.OnConn})
	}
	if want := [][3]int{{1, 1, 1}, {2, 2, 1}, {3, 1, 2}}; !slices.Equal(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
	b.proxy.Arm(faults.AtConn(2, 1, faults.RequestLost))
	b.client.send("d\n")
	b.client.hears("ok d")
	other.send("e\n")
	if _, err := other.ends(); !isReset(err) {
		t.Fatal(err)
	}
	b.received("a", "b", "c", "d")
}

func TestServersEndIsToldWithAllThatItSaid(t *testing.T) {
	b := setup(t, faults.Config{})
	b.client.send("one\nquit\n")
	if heard, err := b.client.ends(); !errors.Is(err, io.EOF) || !slices.Contains(heard, "ok one") {
		t.Fatalf("heard %q, then %v", heard, err)
	}
}

func TestClientsResetIsToldToTheServer(t *testing.T) {
	b := setup(t, faults.Config{})
	_ = b.client.conn.SetLinger(0)
	_ = b.client.conn.Close()
	if how := <-b.server.ended; !strings.Contains(how, "reset") {
		t.Fatalf("the server saw %s", how)
	}
}

func TestUpstreamThatIsDownResetsTheClient(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
	p, err := faults.Start(faults.Config{Upstream: listener.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	isRefused(t, p)
}

// isRefused connects and sees a reset, at once or a little later.
func isRefused(t *testing.T, p *faults.Proxy) {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	if err == nil {
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(waitMax))
		_, err = conn.Read(make([]byte, 1))
	}
	if !isReset(err) {
		t.Fatal(err)
	}
}

func TestWhatCanNotBeReadResetsAndIsReported(t *testing.T) {
	for _, c := range []struct {
		sent string
		want error
	}{
		{"\x00\n", faults.ErrMalformed},
		{strings.Repeat("a", 100) + "\n", faults.ErrTooLarge},
	} {
		b := setup(t, faults.Config{MessageMax: 50})
		b.client.send(c.sent)
		if _, err := b.client.ends(); err == nil {
			t.Fatal("the connection goes on")
		}
		if how := <-b.server.ended; !strings.Contains(how, "reset") {
			t.Fatalf("the server saw %s", how)
		}
		if err := b.proxy.Close(); !errors.Is(err, c.want) {
			t.Fatalf("%v, want %v", err, c.want)
		}
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	b := setup(t, faults.Config{ConnsMax: 2})
	b.dial()
	isRefused(t, b.proxy)
	if err := b.proxy.Err(); !errors.Is(err, faults.ErrTooManyConns) {
		t.Fatal(err)
	}
	b.client.send("one\n")
	b.client.hears("ok one")
}

func TestTraceIsBoundedAndTheCountIsNot(t *testing.T) {
	b := setup(t, faults.Config{TraceMax: 2})
	b.proxy.Arm(nil)
	for range 3 {
		b.client.send("one\n")
		b.client.hears("ok one")
	}
	if len(b.proxy.Trace()) != 2 || b.proxy.Count() != 3 {
		t.Fatalf("%d messages in the trace, %d counted", len(b.proxy.Trace()), b.proxy.Count())
	}
}

func TestUnknownFaultPassesAndIsReported(t *testing.T) {
	b := setup(t, faults.Config{})
	b.proxy.Arm(faults.At(1, "lost"))
	b.client.send("one\n")
	b.client.hears("ok one")
	if err := b.proxy.Err(); !errors.Is(err, faults.ErrUnknownFault) {
		t.Fatal(err)
	}
}

// Close must leave nothing behind (TestMain looks for goroutines), whatever is under way.
func TestCloseEndsWhateverIsHeld(t *testing.T) {
	for _, fault := range []faults.Fault{faults.Delayed, faults.Zombie, faults.Partition, faults.ReplyLost, faults.ClientGone, faults.RequestLost} {
		for _, closing := range []func(*faults.Proxy){
			func(p *faults.Proxy) { _ = p.Close() },
			func(p *faults.Proxy) { p.CloseAll() },
			func(p *faults.Proxy) { p.Partition(); _ = p.Close() },
		} {
			b := setup(t, faults.Config{})
			other := b.dial()
			b.proxy.Arm(func(m faults.Message) faults.Fault {
				if m.Number == 2 {
					return fault
				}
				return faults.Pass
			})
			if fault == faults.RequestLost {
				b.client.send("one\ntwo\n") // nothing can hold it
			} else {
				b.client.send("one\nhold\n")
			}
			s := b.strike(1)
			closing(b.proxy)
			err := s.Wait(b.ctx)
			if fault != faults.RequestLost && !errors.Is(err, faults.ErrClosed) {
				t.Fatalf("%s: %v", fault, err)
			}
			_, _ = b.client.ends()
			_, _ = other.ends()
			b.server.let()
		}
	}
}

func TestManyClientsUnderRandomFaultsLoseNothingElse(t *testing.T) {
	const clients, requests, budget = 8, 50, 20
	b := setup(t, faults.Config{})
	b.proxy.Arm(faults.Random(faults.RandomConfig{Seed: 1, OneIn: 5, Budget: budget}))
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			c := b.dialSilently()
			for range requests {
				for {
					_, err := c.conn.Write([]byte("one\n"))
					for line := "note\n"; err == nil && line == "note\n"; {
						line, err = c.r.ReadString('\n')
					}
					if err == nil {
						break
					}
					_ = c.conn.Close()
					c = b.dialSilently()
				}
			}
			_ = c.conn.Close()
		})
	}
	wg.Wait()
	struck, executed := b.proxy.Counts(), 0
	for i := range b.proxy.Strikes() {
		b.finished(b.strike(i + 1))
	}
	executed = len(b.server.received())
	if n := struck[faults.RequestLost] + struck[faults.ReplyLost] + struck[faults.ClientGone]; n != budget {
		t.Fatalf("%v struck, want %d", struck, budget)
	}
	if want := clients*requests + struck[faults.ReplyLost] + struck[faults.ClientGone]; executed != want {
		t.Fatalf("%d executed, want %d: %v", executed, want, struck)
	}
}

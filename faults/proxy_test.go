package faults_test

import (
	"context"
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
	if err, _ := other.ends(); !isReset(err) {
		t.Fatal(err)
	}
	b.received("a", "b", "c", "d")
}

func TestLostRequestStillLetsEarlierAnswersThrough(t *testing.T) {
	for range 20 { // an answer that is cut by chance
		b := setup(t, faults.Config{})
		b.proxy.Arm(faults.At(3, faults.RequestLost))
		b.client.send("one\npart a\ntwo\nthree\n") // in one write
		err, heard := b.client.ends()
		if !isReset(err) || !slices.Equal(heard, []string{"note", "ok one"}) {
			t.Fatalf("heard %q, then %v", heard, err)
		}
		b.finished(b.strike(1))
		b.received("one", "part a")
	}
}

func TestLostReplyIsCutWhenTheServerHasFinished(t *testing.T) {
	b := setup(t, faults.Config{})
	b.proxy.Arm(faults.At(2, faults.ReplyLost))
	b.client.send("one\nhold\n")
	s := b.strike(1)
	b.client.hears("ok one")
	select {
	case <-s.Cut():
		t.Fatal("cut before the server has finished")
	default:
	}
	close(b.server.hold)
	err, heard := b.client.ends()
	if !isReset(err) || len(heard) > 0 {
		t.Fatalf("heard %q, then %v", heard, err)
	}
	b.finished(s)
	b.received("one", "hold")
	if got := s.Replies(); !slices.Equal(got, []string{"note", "ok hold"}) {
		t.Fatalf("thrown away: %q", got)
	}
	if how := <-b.server.ended; how != "FIN" {
		t.Fatalf("the server saw %s", how)
	}
}

func TestClientIsGoneWhileTheServerWorks(t *testing.T) {
	b := setup(t, faults.Config{})
	b.proxy.Arm(faults.At(1, faults.ClientGone))
	b.client.send("hold\n")
	if err, heard := b.client.ends(); !isReset(err) || len(heard) > 0 {
		t.Fatalf("heard %q, then %v", heard, err)
	}
	s := b.strike(1)
	select {
	case <-s.Done():
		t.Fatal("done, though the server is at work")
	case <-s.Cut():
	}
	close(b.server.hold)
	b.finished(s)
	b.received("hold")
	if how := <-b.server.ended; how != "FIN" {
		t.Fatalf("the server saw %s", how)
	}
}

func TestZombieHoldsAllThatTheClientHadSent(t *testing.T) {
	b := setup(t, faults.Config{})
	b.proxy.Arm(faults.At(2, faults.Zombie))
	b.client.send("part a\npart b\none\npart c\ntwo\n")
	if err, heard := b.client.ends(); !errors.Is(err, io.EOF) || len(heard) > 0 {
		t.Fatalf("heard %q, then %v", heard, err)
	}
	s := b.strike(1)
	<-s.Cut()
	other := b.dial()
	other.send("retry\n")
	other.hears("ok retry")
	b.received("part a", "retry")
	s.Release()
	b.finished(s)
	b.received("part a", "retry", "part b", "one", "part c", "two")
	if got := s.Held(); !slices.Equal(got, []string{"part b", "one", "part c", "two"}) {
		t.Fatalf("held %q", got)
	}
	if got := s.Replies(); !slices.Equal(got, []string{"note", "ok one", "note", "ok two"}) {
		t.Fatalf("thrown away: %q", got)
	}
}

func TestZombieIsBounded(t *testing.T) {
	b := setup(t, faults.Config{HeldMax: 10})
	b.proxy.Arm(faults.At(1, faults.Zombie))
	b.client.send("one\ntwo\nthree\nfour\n")
	_, _ = b.client.ends()
	s := b.strike(1)
	<-s.Cut()
	s.Release()
	b.finished(s)
	b.received("one", "two")
}

func TestZombieOfAClientThatNeverClosesIsBoundedInTime(t *testing.T) {
	b := setup(t, faults.Config{FinishMax: 50 * time.Millisecond})
	b.proxy.Arm(faults.At(1, faults.Zombie))
	b.client.send("one\n")
	s := b.strike(1)
	<-s.Cut()
	s.Release()
	b.finished(s)
	b.received("one")
}

func TestDelayedMessageArrivesOnceAndInOrder(t *testing.T) {
	b := setup(t, faults.Config{})
	b.proxy.Arm(faults.At(2, faults.Delayed))
	b.client.send("one\ntwo\nthree\n")
	s := b.strike(1)
	b.client.hears("ok one")
	b.received("one")
	s.Release()
	s.Release()
	b.client.hears("ok two")
	b.client.hears("ok three")
	b.finished(s)
	b.received("one", "two", "three")
}

func TestPartitionOfAConnectionLeavesOthersAlone(t *testing.T) {
	b := setup(t, faults.Config{})
	b.proxy.Arm(faults.At(2, faults.Partition))
	b.client.send("one\ntwo\nthree\n")
	s := b.strike(1)
	b.client.hears("ok one")
	other := b.dial()
	other.send("four\n")
	other.hears("ok four")
	b.received("one", "four")
	s.Release()
	b.client.hears("ok two")
	b.client.hears("ok three")
	b.finished(s)
}

func TestPartitionHoldsBackEndsAnswersAndNewConnections(t *testing.T) {
	b := setup(t, faults.Config{})
	b.proxy.Arm(nil)
	b.client.send("hold\n")
	for len(b.server.received()) == 0 { // it is at work
		if b.ctx.Err() != nil {
			t.Fatal("the server has got nothing")
		}
	}
	b.proxy.Partition()
	close(b.server.hold) // answers into the partition
	_ = b.client.conn.CloseWrite()
	late := b.dialSilently()
	late.send("hello\nlate\n")
	select {
	case how := <-b.server.ended:
		t.Fatalf("the server saw %s", how)
	default:
	}
	b.received("hold")
	b.proxy.Heal()
	b.client.hears("ok hold")
	if how := <-b.server.ended; how != "FIN" {
		t.Fatalf("the server saw %s", how)
	}
	late.hears("ok hello")
	late.hears("ok late")
}

func TestServersEndIsToldWithAllThatItSaid(t *testing.T) {
	b := setup(t, faults.Config{})
	b.client.send("one\nquit\n")
	if err, heard := b.client.ends(); !errors.Is(err, io.EOF) || !slices.Contains(heard, "ok one") {
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

func TestStrikeWhoseServerEndedSaysSo(t *testing.T) {
	for _, fault := range []faults.Fault{faults.ReplyLost, faults.ClientGone} {
		b := setup(t, faults.Config{})
		b.proxy.Arm(faults.At(1, fault))
		b.client.send("quit\n")
		_, _ = b.client.ends()
		if err := b.strike(1).Wait(b.ctx); !errors.Is(err, faults.ErrServerEnded) {
			t.Fatalf("%s: %v", fault, err)
		}
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
		if err, _ := b.client.ends(); err == nil {
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
			close(b.server.hold)
		}
	}
}

func TestClosedProxyWaitsForNoStrike(t *testing.T) {
	b := setup(t, faults.Config{})
	failed := make(chan error)
	go func() {
		_, err := b.proxy.WaitStrike(b.ctx, 1)
		failed <- err
	}()
	_ = b.proxy.Close()
	if err := <-failed; !errors.Is(err, faults.ErrClosed) {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.ctx)
	cancel()
	open := setup(t, faults.Config{})
	if _, err := open.proxy.WaitStrike(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestSilentServerIsResetAfterFinishMax(t *testing.T) {
	// A server that answers and never ends its side.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ended := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			ended <- err
			return
		}
		defer conn.Close()
		buffer := make([]byte, 100)
		_, _ = conn.Read(buffer)
		_, _ = conn.Write([]byte("ok\n"))
		_, _ = conn.Read(buffer) // FIN
		for err = nil; err == nil; {
			_, err = conn.Write([]byte("note\n")) // until it is reset
		}
		ended <- err
	}()
	p, err := faults.Start(faults.Config{
		Upstream: listener.Addr().String(), Protocol: lines{}, Plan: faults.At(1, faults.ReplyLost), FinishMax: 20 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	b := bench{t: t, ctx: t.Context(), proxy: p}
	c := b.dialSilently()
	c.send("one\n")
	if err, _ := c.ends(); !isReset(err) {
		t.Fatal(err)
	}
	if err := b.strike(1).Wait(b.ctx); !errors.Is(err, faults.ErrUnfinished) {
		t.Fatal(err)
	}
	if err := <-ended; !isReset(err) {
		t.Fatal(err)
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

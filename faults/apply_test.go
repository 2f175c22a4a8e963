package faults_test

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/faults"
)

func TestLostRequestStillLetsEarlierAnswersThrough(t *testing.T) {
	for range 20 { // an answer that is cut by chance
		b := setup(t, faults.Config{})
		b.proxy.Arm(faults.At(3, faults.RequestLost))
		b.client.send("one\npart a\ntwo\nthree\n") // in one write
		heard, err := b.client.ends()
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
	b.client.hearsNothing()
	select {
	case <-s.Cut():
		t.Fatal("cut before the server has finished")
	default:
	}
	b.server.let()
	heard, err := b.client.ends()
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
	if heard, err := b.client.ends(); !isReset(err) || len(heard) > 0 {
		t.Fatalf("heard %q, then %v", heard, err)
	}
	s := b.strike(1)
	select {
	case <-s.Done():
		t.Fatal("done, though the server is at work")
	case <-s.Cut():
	}
	b.server.let()
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
	if heard, err := b.client.ends(); !errors.Is(err, io.EOF) || len(heard) > 0 {
		t.Fatalf("heard %q, then %v", heard, err)
	}
	s := b.strike(1)
	<-s.Cut()
	b.gets("part a")
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
	b.client.hearsNothing()
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
	b.client.hearsNothing()
	b.received("one", "four")
	s.Release()
	b.client.hears("ok two")
	b.client.hears("ok three")
	b.finished(s)
}

func TestPartitionOfAConnectionHoldsBackItsEnd(t *testing.T) {
	b := setup(t, faults.Config{})
	b.proxy.Arm(faults.At(1, faults.Partition))
	b.client.send("one\n")
	s := b.strike(1)
	b.server.hangUp()
	<-b.server.ended
	b.client.hearsNothing()
	b.proxy.Heal()
	if heard, err := b.client.ends(); err == nil || len(heard) > 0 {
		t.Fatalf("heard %q, then %v", heard, err)
	}
	<-s.Done()
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
	b.server.let() // answers into the partition
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
	if _, err := c.ends(); !isReset(err) {
		t.Fatal(err)
	}
	if err := b.strike(1).Wait(b.ctx); !errors.Is(err, faults.ErrUnfinished) {
		t.Fatal(err)
	}
	if err := <-ended; !isReset(err) {
		t.Fatal(err)
	}
}

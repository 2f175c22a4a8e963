package sqlite

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

func TestSQLiteWritersGetTheirTurnInOrderOfArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := newTurn()
		if err := queue.take(t.Context()); err != nil {
			t.Fatal(err)
		}
		served := make(chan int, 20)
		for i := range cap(served) {
			go func() {
				if err := queue.take(t.Context()); err != nil {
					t.Error(err)
				}
				served <- i
				queue.free()
			}()
			synctest.Wait() // it stands in the queue now
		}
		queue.free()
		for want := range cap(served) {
			if got := <-served; got != want {
				t.Fatalf("caller %d was served before caller %d", got, want)
			}
		}
	})
}

func TestSQLiteAWriterWhoseContextEndsLeavesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := newTurn()
		if err := queue.take(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error)
		go func() { left <- queue.take(ctx) }()
		synctest.Wait()
		cancel()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
		queue.free()
		if err := queue.take(t.Context()); err != nil { // nobody else has it
			t.Fatal(err)
		}
	})
}

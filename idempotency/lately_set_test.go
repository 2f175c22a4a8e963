package idempotency

import (
	"fmt"
	"hash/maphash"
	"testing"
)

func TestLatelyRemembersAsManyKeysAsItSaysAndTakesNoOtherForOne(t *testing.T) {
	l := &lately{seed: maphash.MakeSeed()}
	const keys = latelySets * latelyWays / 4
	req := func(i int) Request { return Request{Scope: "acme", Key: fmt.Sprint(i)} }
	for i := range keys {
		if l.see(req(i)) {
			t.Fatalf("key %d was never seen", i)
		}
	}
	forgotten := 0
	for i := range keys {
		if !l.see(req(i)) {
			forgotten++
		}
	}
	if forgotten > keys/100 {
		t.Errorf("%d of %d keys are forgotten", forgotten, keys)
	}
}

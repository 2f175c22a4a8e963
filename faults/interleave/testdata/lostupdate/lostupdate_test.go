// Package lostupdate has a race on purpose. The tests of interleave run it, to see what its failure prints.
package lostupdate

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/faults/interleave"
)

func TestCounter(t *testing.T) {
	t.Run("raised by six callers (10% each)", func(t *testing.T) {
		opts := interleave.Options{Test: t.Name(), Seed: 1_000, Grace: time.Minute}
		_, err := interleave.Sample(t.Context(), opts, func(uint64) interleave.Case {
			count := 0
			raise := func(ctx context.Context) {
				interleave.Point(ctx, "read")
				seen := count
				interleave.Point(ctx, "write")
				count = seen + 1
			}
			const callers = 6
			c := interleave.Case{Check: func() error {
				if count < 3 { // most orders lose some updates, and few so many
					return fmt.Errorf("six callers raised the counter to %d", count)
				}
				return nil
			}}
			for range callers {
				c.Callers = append(c.Callers, raise)
			}
			return c
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

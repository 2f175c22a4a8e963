package inventory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/fiftyhosts/fifty/internal/combine"
)

// lane is how asks go to the store: each by itself, or those of all callers of this process together. Settling
// has a lane of its own, so that a confirm never waits behind a crowd of new orders.
func (s *Stock) lane(name string, act func(ctx context.Context, asks []Ask) ([]Answer, error)) func(context.Context, Ask) (Answer, error) {
	if s.cfg.Strategy.alone {
		return func(ctx context.Context, a Ask) (Answer, error) {
			answers, err := act(ctx, []Ask{a})
			if err != nil {
				return Answer{}, err
			}
			return answers[0], nil
		}
	}
	c := combine.New(act, combine.Config[Ask, Answer]{
		Name: "inventory." + name, BatchMax: s.cfg.BatchMax, QueueMax: s.cfg.QueueMax,
		Timeout: s.cfg.StoreMax, Observer: s.cfg.Observer,
		// Ids in order, so that the index is written in order, and two batches with the same ids meet in one
		// order (H13). Equal ids stay in the order of their arrival.
		Compare: func(a, b Ask) int { return cmp.Compare(a.ID, b.ID) },
	})
	return func(ctx context.Context, a Ask) (Answer, error) {
		a.Items = maps.Clone(a.Items) // a caller that leaves may change its own while the batch is on its way
		answer, err := c.Do(ctx, a)
		if busy, ok := errors.AsType[*combine.BusyError](err); ok {
			return Answer{}, fmt.Errorf("%w: %d asks wait in this process", ErrBusy, busy.Waiting)
		}
		return answer, err
	}
}

package combine

import (
	"context"
	"time"

	"github.com/fiftyhosts/fifty"
)

// Defaults of Config.
const (
	batchMaxDefault = 256
	queueMaxDefault = 4096
	inFlightDefault = 1
	timeoutDefault  = 10 * time.Second
	callsMaxDefault = 64
	yieldsDefault   = 8
)

// Config is that of New. The zero value works: one group, one batch at a time.
type Config[Op, Out any] struct {
	// Name names the lane in events: "claims". Defaults to none.
	Name string

	// Group says what op is combined with: operations of one group share batches, and those of different
	// groups never wait for each other. It must not block. Defaults to one group for all.
	Group func(op Op) string

	// One does what run does, for a single operation: where a plain statement is quicker than the general
	// one. Defaults to run.
	One func(ctx context.Context, op Op) (Out, error)

	// BatchMax is the most operations of one batch. Defaults to 256.
	BatchMax int

	// Size and SizeMax bound the sum of what is in a batch, in bytes or whatever Size counts; a single
	// operation that is larger goes alone. Both or neither. Defaults to no such bound.
	Size    func(op Op) int
	SizeMax int

	// QueueMax is how many operations of a group wait for their batch; further ones get ErrBusy. Defaults to
	// 4,096.
	QueueMax int

	// InFlight is how many batches of a group are under way at once. With more than one, operations may
	// overtake each other. Defaults to 1.
	InFlight int

	// Timeout bounds a batch with all its calls; the context that run gets ends with it. It also bounds a
	// lone caller's, whose own context may end earlier. Defaults to 10 s.
	Timeout time.Duration

	// CallsMax is the most calls of run for one batch, the bisecting ones included. One bad member of 256
	// needs 17. What is not told apart by then fails with a TogetherError. Defaults to 64.
	CallsMax int

	// Split says of a definite failure of several members whether one of them may be the cause, so that
	// bisecting finds it. Defaults to always; say false where the store as a whole is not there.
	Split func(err error) bool

	// Compare sorts a batch before run gets it; equal ones stay in the order of their arrival. Defaults to
	// the order of arrival.
	Compare func(a, b Op) int

	// Yields is how often a batch yields the processor before it boards, so that callers who just got their
	// outcomes come along with their next operations. It ends early when all of them have. Negative means
	// never. Defaults to 8.
	Yields int

	// Observer sees the events named at Stats. Defaults to none.
	Observer fifty.Observer
}

func (c Config[Op, Out]) withDefaults() Config[Op, Out] {
	if c.BatchMax == 0 {
		c.BatchMax = batchMaxDefault
	}
	if c.QueueMax == 0 {
		c.QueueMax = queueMaxDefault
	}
	if c.InFlight == 0 {
		c.InFlight = inFlightDefault
	}
	if c.Timeout == 0 {
		c.Timeout = timeoutDefault
	}
	if c.CallsMax == 0 {
		c.CallsMax = callsMaxDefault
	}
	if c.Yields == 0 {
		c.Yields = yieldsDefault
	}
	return c
}

// Validate returns a *fifty.InvalidError that names the first field that is wrong, or nil.
func (c Config[Op, Out]) Validate() error {
	negative := "is negative; leave it zero for the default"
	switch {
	case c.BatchMax < 0:
		return &fifty.InvalidError{Field: "Config.BatchMax", Problem: negative}
	case c.QueueMax < 0:
		return &fifty.InvalidError{Field: "Config.QueueMax", Problem: negative}
	case c.InFlight < 0:
		return &fifty.InvalidError{Field: "Config.InFlight", Problem: negative}
	case c.Timeout < 0:
		return &fifty.InvalidError{Field: "Config.Timeout", Problem: negative}
	case c.CallsMax < 0:
		return &fifty.InvalidError{Field: "Config.CallsMax", Problem: negative}
	case c.SizeMax < 0:
		return &fifty.InvalidError{Field: "Config.SizeMax", Problem: negative}
	case (c.Size == nil) != (c.SizeMax == 0):
		return &fifty.InvalidError{Field: "Config.SizeMax", Problem: "goes with Config.Size; set both or neither"}
	}
	return nil
}

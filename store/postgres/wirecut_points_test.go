package postgres_test

import (
	"context"
	"os"
	"slices"

	"github.com/fiftyhosts/fifty/faults"
)

// points are the cut points: the smallest complete set, and each request delayed as a whole while its client
// waits. A partition leaves a server in no other state than a zombie does, so it is not among them.
func (op cutOp[Tx]) points(ctx context.Context, r *rig[Tx]) ([]faults.Point, error) {
	c, trace, err := op.traced(ctx, r)
	if err != nil {
		return nil, err
	}
	r.boundaries, r.final = boundariesOf(trace), trace[len(trace)-1].Number
	points := faults.Points(trace)
	for _, m := range trace {
		if m.First && r.about.delays {
			points = append(points, faults.Point{Fault: faults.Delayed, Message: m})
		}
	}
	return points, op.end(c, said{}, said{})
}

// traced runs the operation until it sends what it sent the time before: then all its statements are prepared. A
// slow machine may let a connection time out, and the next one has to prepare them again.
func (op cutOp[Tx]) traced(ctx context.Context, r *rig[Tx]) (c *cut[Tx], trace []faults.Message, err error) {
	for range aimTries {
		before := trace
		if c, err = op.alone(ctx, r); err != nil {
			return nil, nil, err
		}
		if trace = c.trace; !op.arms {
			trace = r.proxy.Trace()
		}
		if slices.EqualFunc(trace, before, sameMessage) {
			break
		}
	}
	return c, trace, nil
}

// sameMessage says that two runs sent the same.
func sameMessage(a, b faults.Message) bool { return a.Name == b.Name && a.Detail == b.Detail }

// worthIt says whether a sweep plays a point. Only make soak plays all. Otherwise it leaves out what leaves a server
// as another point does: within a request a message does something only where a statement is executed, so of the
// messages behind one Execute the first is enough; what was executed of a request that commits nothing is rolled
// back, wherever it ends; and a client that is gone after such a request is one whose next request is lost.
func (r *rig[Tx]) worthIt(p faults.Point) bool {
	m := p.Message
	switch {
	case os.Getenv("FIFTY_SOAK_ROUNDS") != "":
		return true
	case p.Fault == faults.ClientGone:
		return m.Number == r.final
	default:
		return m.First || m.Last || r.boundaries[m.Number]
	}
}

// boundariesOf are the numbers of the messages behind each Execute of the last request.
func boundariesOf(trace []faults.Message) map[int]bool {
	behind := map[int]bool{}
	for i, m := range trace {
		if m.First {
			clear(behind)
		}
		if i > 0 && trace[i-1].Name == "Execute" {
			behind[m.Number] = true
		}
	}
	return behind
}

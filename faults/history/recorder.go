package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// OperationsMax is how many operations one Recorder takes.
const OperationsMax = 1 << 20

// ErrFull says that more than OperationsMax operations were begun, so the history has a gap.
var ErrFull = errors.New("history: too many operations for one Recorder; record several short histories")

// Recorder notes the operations of any number of callers. It is safe for concurrent use.
type Recorder[In, Out any] struct {
	mu  sync.Mutex
	max int
	ops []*Pending[In, Out]
	log *json.Encoder
	err error // the first
}

// NewRecorder makes an empty Recorder. log, which may be nil, gets a line before each operation begins and one
// after it ended, so that what a killed process did can be read: see Read. In and Out are written as JSON.
func NewRecorder[In, Out any](log io.Writer) *Recorder[In, Out] {
	r := &Recorder[In, Out]{max: OperationsMax}
	if log != nil {
		r.log = json.NewEncoder(log)
		r.note(header{Version: fileVersion, Clock: origin(), Spread: spread()})
	}
	return r
}

// Pending is an operation whose end is not noted yet. It belongs to one caller.
type Pending[In, Out any] struct {
	rec     *Recorder[In, Out]
	number  int
	op      Operation[In, Out]
	ended   bool
	dropped bool
}

// Begin notes that client is about to ask. Call it just before, on the same goroutine. An operation that is
// never ended counts as one with an unknown outcome. client only tells callers apart for the reader.
func (r *Recorder[In, Out]) Begin(client int, key string, in In) *Pending[In, Out] {
	p := &Pending[In, Out]{rec: r, op: Operation[In, Out]{Client: client, Key: key, Return: Forever, Input: in}}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ops) >= r.max {
		r.fail(ErrFull)
		p.number = -1
		return p
	}
	p.number = len(r.ops)
	r.ops = append(r.ops, p)
	p.op.Call = now()
	if r.log != nil {
		r.note(lineOf(p.number, p.op))
	}
	return p
}

// End notes what the caller was told. Call it just after.
func (p *Pending[In, Out]) End(out Out) {
	at := now()
	p.once(func() {
		p.op.Return, p.op.Output = at, out
		if p.rec.log != nil && p.number >= 0 {
			p.rec.note(endOf(p.number, at, out))
		}
	})
}

// Unknown notes that the caller was not told whether it happened: a time-out, a lost connection.
func (p *Pending[In, Out]) Unknown() {
	p.once(func() {})
}

// Drop leaves the operation out, as if it had never been asked: it changed nothing, for certain, and told
// nothing. A read that failed is one.
func (p *Pending[In, Out]) Drop() {
	p.once(func() {
		p.dropped = true
		if p.rec.log != nil && p.number >= 0 {
			p.rec.note(line[In, Out]{Number: p.number, Dropped: true})
		}
	})
}

// once ends the operation as end says, the first time.
func (p *Pending[In, Out]) once(end func()) {
	p.rec.mu.Lock()
	defer p.rec.mu.Unlock()
	if p.ended {
		p.rec.fail(errTwice)
		return
	}
	p.ended = true
	end()
}

var errTwice = errors.New("history: an operation was ended twice")

// History is what was recorded so far; what has not ended is unknown. The error says that it is not whole:
// ErrFull, an operation that was ended twice, or a log that could not be written.
func (r *Recorder[In, Out]) History() (History[In, Out], error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := History[In, Out]{Clock: origin(), Spread: spread()}
	for _, p := range r.ops {
		if !p.dropped {
			h.Operations = append(h.Operations, p.op)
		}
	}
	h.sort()
	return h, r.err
}

// note writes a line of the log. The recorder is locked.
func (r *Recorder[In, Out]) note(v any) {
	if err := r.log.Encode(v); err != nil {
		r.fail(fmt.Errorf("history: log: %w", err))
	}
}

func (r *Recorder[In, Out]) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

package hosts

import (
	"bytes"
	"io"
	"sync"
)

// OutputMax bounds how many bytes of a run's output are kept. Beyond it the oldest are dropped, a half at
// a time.
const OutputMax = 1 << 20

// output keeps the newest part of what a run writes, and says when there is more.
type output struct {
	mu    sync.Mutex
	kept  []byte
	also  io.Writer     // nil when there is none, or after an error
	grown chan struct{} // closed, and replaced, by each write
}

func newOutput(also io.Writer) *output {
	return &output{also: also, grown: make(chan struct{})}
}

// Write never fails: a failure would close the pipe, which would end the host.
func (o *output) Write(b []byte) (int, error) {
	o.keep(b)
	// Only the goroutine that copies a run's output writes here, so that also needs no lock.
	if o.also != nil {
		if _, err := o.also.Write(b); err != nil {
			o.also = nil
		}
	}
	return len(b), nil
}

func (o *output) keep(b []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kept = append(o.kept, b...)
	if len(o.kept) > OutputMax {
		o.kept = bytes.Clone(o.kept[len(o.kept)-OutputMax/2:])
	}
	close(o.grown)
	o.grown = make(chan struct{})
}

// text is what is kept, and what is closed when there is more.
func (o *output) text() (string, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.kept), o.grown
}

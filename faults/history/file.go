package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

const (
	fileVersion = 1
	lineMax     = 16 << 20 // bytes of one line that is read
)

// header is the first line of a file.
type header struct {
	Version int    `json:"history"`
	Clock   string `json:"clock"`
	Spread  int64  `json:"spread,omitempty"`
}

// line is one line of a file: an operation, or what became of one that an earlier line began. A line
// without a return is an operation whose outcome is unknown, as long as no other line ends it.
type line[In, Out any] struct {
	Number  int     `json:"op"`
	Client  int     `json:"client,omitempty"`
	Key     *string `json:"key,omitempty"`
	Call    int64   `json:"call,omitempty"`
	Return  *int64  `json:"return,omitempty"`
	Input   *In     `json:"input,omitempty"`
	Output  *Out    `json:"output,omitempty"`
	Dropped bool    `json:"dropped,omitempty"`
}

func lineOf[In, Out any](number int, op Operation[In, Out]) line[In, Out] {
	l := line[In, Out]{Number: number, Client: op.Client, Key: &op.Key, Call: op.Call, Input: &op.Input}
	if !op.Unknown() {
		l.Return, l.Output = &op.Return, &op.Output
	}
	return l
}

// endOf is the line of an operation that has ended; its beginning was written before.
func endOf[Out any](number int, at int64, out Out) line[struct{}, Out] {
	return line[struct{}, Out]{Number: number, Return: &at, Output: &out}
}

// Write writes a history as JSON lines: one that names the clock, then one per operation.
func Write[In, Out any](w io.Writer, h History[In, Out]) error {
	buffered := bufio.NewWriter(w)
	out := json.NewEncoder(buffered)
	if err := out.Encode(header{Version: fileVersion, Clock: h.Clock, Spread: h.Spread}); err != nil {
		return fmt.Errorf("history: write: %w", err)
	}
	for i, op := range h.Operations {
		if err := out.Encode(lineOf(i, op)); err != nil {
			return fmt.Errorf("history: write operation %d: %w", i, err)
		}
	}
	if err := buffered.Flush(); err != nil {
		return fmt.Errorf("history: write: %w", err)
	}
	return nil
}

// Read reads what Write wrote, or the log of a Recorder. A last line without its end, which a killed process
// may leave, is passed over: the operation that it would have begun was not asked yet, and the one that it
// would have ended is unknown.
func Read[In, Out any](r io.Reader) (History[In, Out], error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, lineMax)
	lines.Split(wholeLines)
	var h History[In, Out]
	if !lines.Scan() {
		return h, fmt.Errorf("history: read: there is no first line: %w", errors.Join(lines.Err(), io.ErrUnexpectedEOF))
	}
	var head header
	if err := json.Unmarshal(lines.Bytes(), &head); err != nil || head.Version != fileVersion {
		return h, fmt.Errorf("history: read: the first line is not that of a history of version %d: %w", fileVersion, err)
	}
	h.Clock, h.Spread = head.Clock, head.Spread
	ops, at, dropped := []Operation[In, Out](nil), map[int]int{}, map[int]bool{}
	for n := 2; lines.Scan(); n++ {
		var l line[In, Out]
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return h, fmt.Errorf("history: read line %d: %w", n, err)
		}
		i, begun := at[l.Number]
		switch {
		case l.Key != nil && !begun:
			at[l.Number] = len(ops)
			ops = append(ops, l.operation())
		case l.Key != nil || !begun || dropped[i] || !ops[i].Unknown() || (l.Return == nil) != l.Dropped:
			return h, fmt.Errorf("history: read line %d: it neither begins operation %d nor ends it", n, l.Number)
		default:
			l.end(&ops[i])
			dropped[i] = l.Dropped
		}
	}
	if err := lines.Err(); err != nil {
		return h, fmt.Errorf("history: read: %w", err)
	}
	for i, op := range ops {
		if !dropped[i] {
			h.Operations = append(h.Operations, op)
		}
	}
	h.sort()
	return h, nil
}

// operation is what the line begins.
func (l line[In, Out]) operation() Operation[In, Out] {
	op := Operation[In, Out]{Client: l.Client, Key: *l.Key, Call: l.Call, Return: Forever}
	if l.Input != nil { // else it was null
		op.Input = *l.Input
	}
	l.end(&op)
	return op
}

// end notes on op what the line says of its end.
func (l line[In, Out]) end(op *Operation[In, Out]) {
	if l.Return != nil {
		op.Return = *l.Return
	}
	if l.Output != nil {
		op.Output = *l.Output
	}
}

// wholeLines splits at line feeds and leaves out what follows the last one.
func wholeLines(data []byte, _ bool) (advance int, token []byte, err error) {
	i := bytes.IndexByte(data, '\n')
	if i < 0 {
		return 0, nil, nil
	}
	return i + 1, data[:i], nil
}

// Load reads a file: see Read.
func Load[In, Out any](path string) (History[In, Out], error) {
	f, err := os.Open(path)
	if err != nil {
		return History[In, Out]{}, fmt.Errorf("history: %w", err)
	}
	defer f.Close()
	h, err := Read[In, Out](f)
	if err != nil {
		return h, fmt.Errorf("%s: %w", path, err)
	}
	return h, nil
}

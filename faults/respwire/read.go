package respwire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/fiftyhosts/fifty/faults"
)

// Bounds of one message, beside its size.
const (
	lineMax  = 64 << 10 // bytes of one line, as in Redis
	depthMax = 128      // arrays in arrays
)

// reader reads one message, and keeps its bytes.
type reader struct {
	r    *bufio.Reader
	max  int
	data []byte
}

// line reads up to and with the next "\n", and returns it without its end.
func (m *reader) line() ([]byte, error) {
	from := len(m.data)
	for {
		part, err := m.r.ReadSlice('\n')
		m.data = append(m.data, part...)
		switch {
		case len(m.data)-from > lineMax:
			return nil, fmt.Errorf("%w: a line of more than %d bytes", faults.ErrMalformed, lineMax)
		case len(m.data) > m.max:
			return nil, fmt.Errorf("%w: more than %d bytes", faults.ErrTooLarge, m.max)
		case err == nil:
			return bytes.TrimSuffix(m.data[from:len(m.data)-1], []byte("\r")), nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(m.data) > 0:
			return nil, io.ErrUnexpectedEOF
		default:
			return nil, err
		}
	}
}

// element reads a line that can't be the first of a message, so that the stream may not end before it.
func (m *reader) element() ([]byte, error) {
	line, err := m.line()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err == nil && len(line) == 0 {
		err = fmt.Errorf("%w: an empty line", faults.ErrMalformed)
	}
	return line, err
}

// bulk reads n bytes and the end of the line behind them.
func (m *reader) bulk(n int) ([]byte, error) {
	const end = "\r\n"
	if n > m.max-len(m.data)-len(end) {
		return nil, fmt.Errorf("%w: a string of %d bytes", faults.ErrTooLarge, n)
	}
	from := len(m.data)
	var err error
	if m.data, err = faults.AppendN(m.data, m.r, n+len(end)); err != nil {
		return nil, err
	}
	if !bytes.HasSuffix(m.data, []byte(end)) {
		return nil, fmt.Errorf("%w: a string is longer than it says", faults.ErrMalformed)
	}
	return m.data[from : len(m.data)-len(end)], nil
}

// size is the number behind a type, -1 for what is null.
func size(line []byte) (int, error) {
	n, err := strconv.ParseInt(string(line[1:]), 10, 32)
	if err != nil || n < -1 {
		return 0, fmt.Errorf("%w: %q is no length", faults.ErrMalformed, clip(line))
	}
	return int(n), nil
}

// command reads a client's message: an array of strings, or words in a line. It returns the beginnings of the first
// three words, as many as there are.
func (m *reader) command() ([][]byte, error) {
	line, err := m.line()
	if err != nil {
		return nil, err
	}
	if len(line) == 0 || line[0] != '*' {
		words := bytes.Fields(line)
		return words[:min(len(words), wordsKept)], nil
	}
	n, err := size(line)
	if err != nil {
		return nil, err
	}
	var words [][]byte
	for i := range n {
		line, err := m.element()
		if err != nil {
			return nil, err
		}
		if line[0] != '$' {
			return nil, fmt.Errorf("%w: a command with %q in it", faults.ErrMalformed, clip(line))
		}
		length, err := size(line)
		if err != nil {
			return nil, err
		}
		if length < 0 {
			return nil, fmt.Errorf("%w: a command with a null in it", faults.ErrMalformed)
		}
		word, err := m.bulk(length)
		if err != nil {
			return nil, err
		}
		if i < wordsKept {
			words = append(words, bytes.Clone(clip(word))) // data may move while it grows
		}
	}
	return words, nil
}

// reply is what must be known of a server's message.
type reply struct {
	kind byte   // of its first line, behind attributes
	text []byte // the first line without its kind
	word []byte // of an array or a push: its first element, if that is a string
}

// reply reads a server's message, in RESP2 or RESP3.
func (m *reader) reply() (reply, error) {
	line, err := m.line()
	if err != nil {
		return reply{}, err
	}
	for len(line) > 0 && line[0] == '|' { // attributes come before what they are about
		if _, err := m.rest(line, 0); err != nil {
			return reply{}, err
		}
		if line, err = m.element(); err != nil {
			return reply{}, err
		}
	}
	if len(line) == 0 {
		return reply{}, fmt.Errorf("%w: an empty line", faults.ErrMalformed)
	}
	rep := reply{kind: line[0], text: bytes.Clone(line[1:])}
	rep.word, err = m.rest(line, 0)
	return rep, err
}

// value reads one value of an aggregate and returns it if it is a string. end is true for the end of one whose
// length was not told.
func (m *reader) value(depth int) (word []byte, end bool, err error) {
	line, err := m.element()
	if err != nil {
		return nil, false, err
	}
	if line[0] == '.' && len(line) == 1 {
		return nil, true, nil
	}
	if line[0] == '|' {
		if _, err := m.rest(line, depth); err != nil {
			return nil, false, err
		}
		if depth >= depthMax {
			return nil, false, tooDeep()
		}
		return m.value(depth + 1)
	}
	from := len(m.data)
	if _, err := m.rest(line, depth); err != nil {
		return nil, false, err
	}
	switch {
	case line[0] == '$' && len(m.data) > from:
		word = bytes.Clone(clip(bytes.TrimSuffix(m.data[from:], []byte("\r\n"))))
	case line[0] == '+':
		word = bytes.Clone(clip(line[1:]))
	}
	return word, false, nil
}

// rest reads what belongs to a line, and returns the first string in it, if it is an aggregate.
func (m *reader) rest(line []byte, depth int) (first []byte, err error) {
	kind, streamed := line[0], len(line) == 2 && line[1] == '?'
	switch kind {
	case '+', '-', ':', '_', ',', '#', '(':
		return nil, nil
	case '$', '!', '=':
		if streamed && kind == '$' {
			return nil, m.chunks()
		}
		n, err := size(line)
		if err == nil && n >= 0 {
			_, err = m.bulk(n)
		}
		return nil, err
	case '*', '~', '>', '%', '|':
		if depth >= depthMax {
			return nil, tooDeep()
		}
		if streamed {
			return m.values(-1, depth)
		}
		n, err := size(line)
		if err != nil || n <= 0 {
			return nil, err
		}
		if kind == '%' || kind == '|' {
			n *= 2 // a key and a value each
		}
		return m.values(n, depth)
	default:
		return nil, fmt.Errorf("%w: a value that begins with %q", faults.ErrMalformed, kind)
	}
}

func tooDeep() error {
	return fmt.Errorf("%w: more than %d values in each other", faults.ErrMalformed, depthMax)
}

// values reads n values, or with -1 those up to the end mark, and returns the first if it is a string.
func (m *reader) values(n, depth int) (first []byte, err error) {
	for i := 0; n < 0 || i < n; i++ {
		word, end, err := m.value(depth + 1)
		if err != nil {
			return nil, err
		}
		if end {
			if n >= 0 {
				return nil, fmt.Errorf("%w: an end without a beginning", faults.ErrMalformed)
			}
			return first, nil
		}
		if i == 0 {
			first = word
		}
	}
	return first, nil
}

// chunks reads a string whose length was not told.
func (m *reader) chunks() error {
	for {
		line, err := m.element()
		if err != nil {
			return err
		}
		if line[0] != ';' {
			return fmt.Errorf("%w: a chunk that begins with %q", faults.ErrMalformed, line[0])
		}
		n, err := size(line)
		if err != nil || n < 0 {
			return fmt.Errorf("%w: a chunk without a length", faults.ErrMalformed)
		}
		if n == 0 {
			return nil
		}
		if _, err := m.bulk(n); err != nil {
			return err
		}
	}
}

// clip is as much of a line as is printed.
func clip(line []byte) []byte {
	const clipMax = 40
	return line[:min(len(line), clipMax)]
}

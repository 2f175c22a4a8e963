package pgwire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/fiftyhosts/fifty/faults"
)

// startupMax is Postgres's own bound for the first message, in bytes.
const startupMax = 10_000

// What the first message of a connection may be, beside a startup message.
const (
	codeCancel  = 80877102
	codeSSL     = 80877103
	codeGSS     = 80877104
	majorWanted = 3
)

// Protocol is version 3 of the Postgres protocol, unencrypted. It is safe for concurrent use.
type Protocol struct{}

// Open begins a connection.
func (Protocol) Open(messageMax int) faults.Conversation {
	return &conversation{max: messageMax, texts: newTexts()}
}

// conversation is one connection.
type conversation struct {
	max     int
	started bool // of the client's goroutine alone
	texts   *texts

	mu      sync.Mutex
	simple  bool // the last command was a Query
	copying bool // the server waits for the client's data
}

// ClientFrame reads the next message from the client.
func (c *conversation) ClientFrame(r *bufio.Reader) (faults.Frame, error) {
	if !c.started {
		return c.first(r)
	}
	kind, data, err := c.read(r)
	if err != nil {
		return faults.Frame{}, err
	}
	name, ok := clientNames[kind]
	if !ok {
		return faults.Frame{}, fmt.Errorf("%w: a client sent a message of type %q", faults.ErrMalformed, kind)
	}
	f := faults.Frame{Data: data, Name: name, Detail: c.texts.detail(kind, data[headerLen:])}
	switch kind {
	case 'p': // a password, or another step of authentication
		f.Setup, f.Asks, f.Last = true, 1, true
	case 'X': // Terminate
		f.Setup, f.Last = true, true
	case 'H': // Flush: what is answered so far is sent, but it completes nothing
		f.Last = true
	case 'S', 'Q', 'F': // Sync, Query, FunctionCall: each leads to one ReadyForQuery
		f.Asks, f.Last = 1, true
	case 'c', 'f': // CopyDone, CopyFail
		f.Asks, f.Last = c.endOfCopy()
	}
	c.command(kind)
	return f, nil
}

// first reads a message that has no type yet.
func (c *conversation) first(r *bufio.Reader) (faults.Frame, error) {
	head, err := r.Peek(8)
	if err != nil {
		return faults.Frame{}, cutShort(err, len(head))
	}
	size, code := int64(binary.BigEndian.Uint32(head)), binary.BigEndian.Uint32(head[4:])
	if size < 8 || size > startupMax {
		return faults.Frame{}, fmt.Errorf("%w: a first message of %d bytes", faults.ErrMalformed, size)
	}
	data, err := faults.AppendN(nil, r, int(size))
	if err != nil {
		return faults.Frame{}, err
	}
	f := faults.Frame{Data: data, Setup: true, Last: true}
	switch {
	case code == codeSSL || code == codeGSS:
		f.Name, f.Answer = "SSLRequest", []byte{'N'}
		if code == codeGSS {
			f.Name = "GSSEncRequest"
		}
	case code == codeCancel:
		var m pgproto3.CancelRequest
		if err := m.Decode(data[4:]); err != nil {
			return faults.Frame{}, fmt.Errorf("%w: %w", faults.ErrMalformed, err)
		}
		f.Name, f.Aims = "CancelRequest", session(m.ProcessID, m.SecretKey)
		c.started = true
	case code>>16 == majorWanted:
		f.Name, f.Asks = "StartupMessage", 1
		c.started = true
	default:
		return faults.Frame{}, fmt.Errorf("%w: a first message with code %d", faults.ErrMalformed, code)
	}
	return f, nil
}

// endOfCopy is how many answers the end of the client's data asks for. In the simple protocol the server then
// completes the Query; in the extended one it goes on to the Sync behind. When the copy has failed already,
// it ignores the message.
func (c *conversation) endOfCopy() (asks int, last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.simple && c.copying {
		return 1, true
	}
	return 0, c.simple
}

func (c *conversation) command(kind byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch kind {
	case 'Q':
		c.simple = true
	case 'P', 'B', 'E':
		c.simple = false
	}
}

// ServerFrame reads the next message from the server.
func (c *conversation) ServerFrame(r *bufio.Reader) (faults.Frame, error) {
	kind, data, err := c.read(r)
	if err != nil {
		return faults.Frame{}, err
	}
	body := data[headerLen:]
	f := faults.Frame{Data: data, Name: serverNames[kind], Detail: serverDetail(kind, body)}
	if f.Name == "" {
		return faults.Frame{}, fmt.Errorf("%w: a server sent a message of type %q", faults.ErrMalformed, kind)
	}
	switch kind {
	case 'Z': // ReadyForQuery
		f.Answers = 1
		c.setCopying(false)
	case 'G', 'W': // CopyInResponse, CopyBothResponse: the client's turn
		f.Answers = 1
		c.setCopying(true)
	case 'R': // Authentication…
		if asksForMore(body) {
			f.Answers = 1
		}
	case 'K': // BackendKeyData
		var m pgproto3.BackendKeyData
		if m.Decode(body) == nil {
			f.Session = session(m.ProcessID, m.SecretKey)
		}
	}
	return f, nil
}

func (c *conversation) setCopying(to bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.copying = to
}

// asksForMore says whether an authentication message is the client's turn.
func asksForMore(body []byte) bool {
	if len(body) < 4 {
		return false
	}
	switch binary.BigEndian.Uint32(body) {
	case pgproto3.AuthTypeOk, pgproto3.AuthTypeSASLFinal:
		return false
	default:
		return true
	}
}

func session(process uint32, secret []byte) string { return fmt.Sprintf("%d/%x", process, secret) }

// headerLen is a type and a length.
const headerLen = 5

// read reads one message that has a type.
func (c *conversation) read(r *bufio.Reader) (kind byte, data []byte, err error) {
	head, err := r.Peek(headerLen)
	if err != nil {
		return 0, nil, cutShort(err, len(head))
	}
	kind = head[0]
	size := int64(binary.BigEndian.Uint32(head[1:])) + 1
	switch {
	case size < headerLen:
		return 0, nil, fmt.Errorf("%w: a message with the length %d", faults.ErrMalformed, size-1)
	case size > int64(c.max):
		return 0, nil, fmt.Errorf("%w: %d bytes, of type %q", faults.ErrTooLarge, size, kind)
	}
	data, err = faults.AppendN(nil, r, int(size))
	return kind, data, err
}

// cutShort is the end of a stream, within a message if something of it has come.
func cutShort(err error, got int) error {
	if errors.Is(err, io.EOF) && got > 0 {
		return io.ErrUnexpectedEOF
	}
	return err
}

package faults

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// What a Protocol says of bytes that it can't pass on. The connection is then reset on both sides.
var (
	// ErrMalformed: the bytes are not of this protocol.
	ErrMalformed = errors.New("faults: the bytes are not of this protocol")

	// ErrTooLarge: a message is larger than Config.MessageMax.
	ErrTooLarge = errors.New("faults: a message is larger than MessageMax")
)

// AnswersAll is a Frame's Answers where one message may answer all that was asked.
const AnswersAll = 1 << 30

// Frame is one message as it is on the wire, with what the proxy must know of it.
type Frame struct {
	// Data are the bytes, passed on as they are. The frame owns them.
	Data []byte

	// Name and Detail are for people; see Message.
	Name, Detail string

	// Setup: from a client, the message belongs to the connection and not to a request, and isn't counted.
	Setup bool

	// Last: from a client, it may wait for an answer once it has sent this message.
	Last bool

	// Asks is how many answers the server owes for this message; Answers, from a server, is how many of
	// those it has given with this one. An answer is complete with its last message.
	Asks, Answers int

	// Answer, from a client: not delivered; the proxy itself answers with these bytes.
	Answer []byte

	// Session, from a server, names the session of this connection. Aims, from a client, names the session
	// of another connection that this message is about, such as one that cancels a query: it is not
	// delivered once a fault has struck that connection, since a client that is gone cancels nothing.
	Session, Aims string
}

// Protocol knows where messages begin and end. It must be safe for concurrent use.
type Protocol interface {
	// Open begins a connection. No message may be larger than messageMax bytes.
	Open(messageMax int) Conversation
}

// Conversation reads the messages of one connection.
//
// Each method is called by one goroutine, but the two are called concurrently. Each returns io.EOF where the
// stream ends between two messages, io.ErrUnexpectedEOF where it ends within one, and an error that wraps
// ErrMalformed or ErrTooLarge for what can't be read; the connection is over after any error.
type Conversation interface {
	// ClientFrame reads the next message from the client, and ServerFrame that from the server.
	ClientFrame(r *bufio.Reader) (Frame, error)
	ServerFrame(r *bufio.Reader) (Frame, error)
}

// AppendN appends n bytes of r to data, and grows it only as they arrive. It returns io.ErrUnexpectedEOF
// where r ends before, with what came. It is a help for writers of a Protocol.
func AppendN(data []byte, r *bufio.Reader, n int) ([]byte, error) {
	const stepMax = 64 << 10
	for n > 0 {
		step := min(n, stepMax)
		from := len(data)
		data = append(data, make([]byte, step)...)
		got, err := io.ReadFull(r, data[from:])
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return data[:from+got], err
		}
		n -= step
	}
	return data, nil
}

// TCP is for any protocol: it knows nothing but bytes. A message is what one read gives, so that the same
// request may be one message or several, and a count of them is no more than a hint. Each from the client
// asks, and any from the server answers all that was asked.
type TCP struct{}

// Open begins a connection.
func (TCP) Open(messageMax int) Conversation { return chunks{max: messageMax} }

type chunks struct{ max int }

func (c chunks) ClientFrame(r *bufio.Reader) (Frame, error) {
	f, err := c.next(r)
	f.Asks, f.Last = 1, true
	return f, err
}

func (c chunks) ServerFrame(r *bufio.Reader) (Frame, error) {
	f, err := c.next(r)
	f.Answers = AnswersAll
	return f, err
}

// next is all that one read gave, up to max.
func (c chunks) next(r *bufio.Reader) (Frame, error) {
	if _, err := r.Peek(1); err != nil {
		return Frame{}, err
	}
	data := make([]byte, min(r.Buffered(), c.max))
	if _, err := io.ReadFull(r, data); err != nil {
		return Frame{}, err
	}
	return Frame{Data: data, Name: "chunk", Detail: fmt.Sprintf("%d bytes", len(data))}, nil
}

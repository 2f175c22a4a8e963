package respwire_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/fiftyhosts/fifty/faults"
	"github.com/fiftyhosts/fifty/faults/respwire"
)

const messageMax = 1 << 16

// commands is a client's stream, message by message.
var commands = []struct {
	data, name, detail string
	setup              bool
	asks               int
}{
	{"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n", "HELLO", "", true, 1},
	{"*3\r\n$4\r\nAUTH\r\n$4\r\nuser\r\n$6\r\nsecret\r\n", "AUTH", "", true, 1},
	{"*3\r\n$3\r\nset\r\n$5\r\nkey\r\n\r\n$0\r\n\r\n", "SET", `key\r\n`, false, 1},
	{"*1\r\n$4\r\nPING\r\n", "PING", "", false, 1},
	{"PING\r\n", "PING", "", false, 1},
	{"  get  k \n", "GET", "k", false, 1},
	{"\r\n", "nothing", "", true, 0},
	{"*0\r\n", "nothing", "", true, 0},
	{"*-1\r\n", "nothing", "", true, 0},
	{"*3\r\n$6\r\nCLIENT\r\n$5\r\nREPLY\r\n$4\r\nSKIP\r\n", "CLIENT", "REPLY", true, 0},
	{"*1\r\n$4\r\nPING\r\n", "PING", "", false, 0},
	{"*1\r\n$4\r\nPING\r\n", "PING", "", false, 1},
	{"*3\r\n$6\r\nCLIENT\r\n$5\r\nREPLY\r\n$3\r\nOFF\r\n", "CLIENT", "REPLY", true, 0},
	{"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", "GET", "k", false, 0},
	{"*3\r\n$6\r\nCLIENT\r\n$5\r\nREPLY\r\n$2\r\nON\r\n", "CLIENT", "REPLY", true, 1},
	{"*3\r\n$9\r\nSUBSCRIBE\r\n$1\r\na\r\n$1\r\nb\r\n", "SUBSCRIBE", "a", false, 0},
}

// replies is a server's stream.
var replies = []struct {
	data, name, detail string
	answers            int
}{
	{"+OK\r\n", "string", "OK", 1},
	{"-ERR no\r\n", "error", "ERR no", 1},
	{":42\r\n", "integer", "42", 1},
	{"$-1\r\n", "bulk", "", 1},
	{"$0\r\n\r\n", "bulk", "", 1},
	{"$6\r\na\r\n+OK\r\n", "bulk", "", 1},
	{"*-1\r\n", "array", "", 1},
	{"*0\r\n", "array", "", 1},
	{"*3\r\n:1\r\n*2\r\n$1\r\na\r\n$-1\r\n-ERR in it\r\n", "array", "", 1},
	{"_\r\n", "null", "", 1},
	{",3.14\r\n", "double", "", 1},
	{"#t\r\n", "boolean", "", 1},
	{"(123456789012345678901234567890\r\n", "number", "", 1},
	{"!9\r\nERR large\r\n", "bulk-error", "", 1},
	{"=7\r\ntxt:abc\r\n", "verbatim", "", 1},
	{"~2\r\n+a\r\n+b\r\n", "set", "", 1},
	{"%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n:2\r\n", "map", "", 1},
	{"|1\r\n+ttl\r\n:3600\r\n$1\r\nv\r\n", "bulk", "", 1},
	{"*2\r\n|1\r\n+ttl\r\n:1\r\n:1\r\n:2\r\n", "array", "", 1},
	{"$?\r\n;4\r\nabcd\r\n;1\r\ne\r\n;0\r\n", "bulk", "", 1},
	{"*?\r\n:1\r\n*?\r\n.\r\n:2\r\n.\r\n", "array", "", 1},
	{">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$5\r\nhello\r\n", "push", "message", 0},
	{"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$5\r\nhello\r\n", "array", "", 1}, // nobody has subscribed
}

// splits gives the stream in pieces: whole, byte by byte, and in two at each place.
func splits(stream string) map[string]func() io.Reader {
	ways := map[string]func() io.Reader{
		"whole":        func() io.Reader { return strings.NewReader(stream) },
		"byte by byte": func() io.Reader { return iotest.OneByteReader(strings.NewReader(stream)) },
	}
	for i := range stream {
		ways["in two at "+stream[:i]] = func() io.Reader {
			return io.MultiReader(strings.NewReader(stream[:i]), strings.NewReader(stream[i:]))
		}
	}
	return ways
}

func TestCommandsAreToldApartHoweverTheyAreSplit(t *testing.T) {
	var stream strings.Builder
	for _, c := range commands {
		stream.WriteString(c.data)
	}
	for way, open := range splits(stream.String()) {
		talk, r := respwire.Protocol{}.Open(messageMax), bufio.NewReader(open())
		for i, want := range commands {
			f, err := talk.ClientFrame(r)
			if err != nil {
				t.Fatalf("%s: command %d: %v", way, i, err)
			}
			if string(f.Data) != want.data || f.Name != want.name || f.Detail != want.detail || f.Setup != want.setup || f.Asks != want.asks || !f.Last {
				t.Fatalf("%s: command %d is %+v of %q, want %+v", way, i, f, f.Data, want)
			}
		}
		if _, err := talk.ClientFrame(r); !errors.Is(err, io.EOF) {
			t.Fatalf("%s: the end is %v", way, err)
		}
	}
}

func TestRepliesAreToldApartHoweverTheyAreSplit(t *testing.T) {
	var stream strings.Builder
	for _, r := range replies {
		stream.WriteString(r.data)
	}
	for way, open := range splits(stream.String()) {
		talk, r := respwire.Protocol{}.Open(messageMax), bufio.NewReader(open())
		for i, want := range replies {
			f, err := talk.ServerFrame(r)
			if err != nil {
				t.Fatalf("%s: reply %d: %v", way, i, err)
			}
			if string(f.Data) != want.data || f.Name != want.name || f.Detail != want.detail || f.Answers != want.answers {
				t.Fatalf("%s: reply %d is %+v of %q, want %+v", way, i, f, f.Data, want)
			}
		}
		if _, err := talk.ServerFrame(r); !errors.Is(err, io.EOF) {
			t.Fatalf("%s: the end is %v", way, err)
		}
	}
}

func TestMessagesOfASubscriptionAnswerNothing(t *testing.T) {
	talk := respwire.Protocol{}.Open(messageMax)
	if _, err := talk.ClientFrame(bufio.NewReader(strings.NewReader("SUBSCRIBE c\r\n"))); err != nil {
		t.Fatal(err)
	}
	stream := bufio.NewReader(strings.NewReader("*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n*2\r\n$4\r\npong\r\n$0\r\n\r\n"))
	var answers []int
	for range 3 {
		f, err := talk.ServerFrame(stream)
		if err != nil {
			t.Fatal(err)
		}
		answers = append(answers, f.Answers)
	}
	if !slices.Equal(answers, []int{0, 0, 1}) {
		t.Fatalf("answers: %v", answers)
	}
}

func TestStreamThatEndsWithinAMessageSaysSo(t *testing.T) {
	for _, c := range commands {
		for i := 1; i < len(c.data); i++ {
			_, err := respwire.Protocol{}.Open(messageMax).ClientFrame(bufio.NewReader(strings.NewReader(c.data[:i])))
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("%q: %v", c.data[:i], err)
			}
		}
	}
	for _, r := range replies {
		for i := 1; i < len(r.data); i++ {
			_, err := respwire.Protocol{}.Open(messageMax).ServerFrame(bufio.NewReader(strings.NewReader(r.data[:i])))
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("%q: %v", r.data[:i], err)
			}
		}
	}
}

func TestWhatIsNoRESPIsRefused(t *testing.T) {
	deep := strings.Repeat("*1\r\n", 1_000) + ":1\r\n"
	for _, c := range []struct {
		stream string
		server bool
		want   error
	}{
		{"*x\r\n", false, faults.ErrMalformed},
		{"*-2\r\n", false, faults.ErrMalformed},
		{"*1\r\n:1\r\n", false, faults.ErrMalformed},
		{"*1\r\n$-1\r\n", false, faults.ErrMalformed},
		{"*1\r\n\r\n", false, faults.ErrMalformed},
		{"*1\r\n$1\r\nabc\r\n", false, faults.ErrMalformed},
		{"*1\r\n$1000000\r\n", false, faults.ErrTooLarge},
		{strings.Repeat("a", 1<<17), false, faults.ErrMalformed},
		{"HTTP/1.1 200 OK\r\n", true, faults.ErrMalformed},
		{"\r\n", true, faults.ErrMalformed},
		{"*1\r\n.\r\n", true, faults.ErrMalformed},
		{"$?\r\n$1\r\na\r\n", true, faults.ErrMalformed},
		{"$70000\r\n", true, faults.ErrTooLarge},
		{deep, true, faults.ErrMalformed},
		{strings.Repeat("|1\r\n", 1_000) + ":1\r\n", true, faults.ErrMalformed},
		{"*100000\r\n" + strings.Repeat(":1\r\n", 100_000), true, faults.ErrTooLarge},
	} {
		talk, r := respwire.Protocol{}.Open(messageMax), bufio.NewReader(strings.NewReader(c.stream))
		read := talk.ClientFrame
		if c.server {
			read = talk.ServerFrame
		}
		if _, err := read(r); !errors.Is(err, c.want) {
			t.Errorf("%.40q: %v, want %v", c.stream, err, c.want)
		}
	}
}

// all reads frames until there are no more.
func all(read func(*bufio.Reader) (faults.Frame, error), r io.Reader) (frames []faults.Frame, err error) {
	buffered := bufio.NewReader(r)
	for {
		f, err := read(buffered)
		if err != nil {
			return frames, err
		}
		frames = append(frames, f)
	}
}

func FuzzFrames(f *testing.F) {
	for _, c := range commands {
		f.Add([]byte(c.data), false)
	}
	for _, r := range replies {
		f.Add([]byte(r.data), true)
	}
	f.Fuzz(func(t *testing.T, stream []byte, server bool) {
		parse := func(r io.Reader) ([]faults.Frame, error) {
			talk := respwire.Protocol{}.Open(messageMax)
			if server {
				return all(talk.ServerFrame, r)
			}
			return all(talk.ClientFrame, r)
		}
		whole, err := parse(bytes.NewReader(stream))
		split, splitErr := parse(iotest.OneByteReader(bytes.NewReader(stream)))
		if err.Error() != splitErr.Error() || len(whole) != len(split) {
			t.Fatalf("whole: %d messages, %v; byte by byte: %d, %v", len(whole), err, len(split), splitErr)
		}
		var got []byte
		for i, frame := range whole {
			if !bytes.Equal(frame.Data, split[i].Data) || frame.Name != split[i].Name || frame.Asks != split[i].Asks || frame.Answers != split[i].Answers {
				t.Fatalf("message %d: %+v, byte by byte %+v", i, frame, split[i])
			}
			if frame.Name == "" || len(frame.Data) > messageMax {
				t.Fatalf("message %d: %+v", i, frame)
			}
			got = append(got, frame.Data...)
		}
		if !bytes.HasPrefix(stream, got) {
			t.Fatal("the messages are not what was sent")
		}
		if errors.Is(err, io.EOF) && len(got) != len(stream) {
			t.Fatalf("%d bytes are lost at the end", len(stream)-len(got))
		}
	})
}

package pgwire_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/fiftyhosts/fifty/faults"
	"github.com/fiftyhosts/fifty/faults/pgwire"
)

const messageMax = 1 << 16

type message interface {
	Encode(dst []byte) ([]byte, error)
}

func encode(tb testing.TB, m message) string {
	tb.Helper()
	data, err := m.Encode(nil)
	if err != nil {
		tb.Fatal(err)
	}
	return string(data)
}

type wanted struct {
	message      message
	name, detail string
	setup, last  bool
	asks         int
}

// fromClient is a client's stream, from its first byte on.
var fromClient = []wanted{
	{&pgproto3.SSLRequest{}, "SSLRequest", "", true, true, 0},
	{&pgproto3.GSSEncRequest{}, "GSSEncRequest", "", true, true, 0},
	{&pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersion30, Parameters: map[string]string{"user": "u"}}, "StartupMessage", "", true, true, 1},
	{&pgproto3.SASLInitialResponse{AuthMechanism: "SCRAM-SHA-256", Data: []byte("n,,")}, "PasswordMessage", "", true, true, 1},
	{&pgproto3.Parse{Name: "s1", Query: "select\n  $1"}, "Parse", "select $1", false, false, 0},
	{&pgproto3.Describe{ObjectType: 'S', Name: "s1"}, "Describe", "select $1", false, false, 0},
	{&pgproto3.Sync{}, "Sync", "", false, true, 1},
	{&pgproto3.Bind{PreparedStatement: "s1", Parameters: [][]byte{[]byte("x"), nil}}, "Bind", "select $1", false, false, 0},
	{&pgproto3.Describe{ObjectType: 'P'}, "Describe", "select $1", false, false, 0},
	{&pgproto3.Execute{}, "Execute", "select $1", false, false, 0},
	{&pgproto3.Flush{}, "Flush", "", false, true, 0},
	{&pgproto3.CopyDone{}, "CopyDone", "", false, false, 0}, // of an extended copy: the Sync completes it
	{&pgproto3.Sync{}, "Sync", "", false, true, 1},
	{&pgproto3.Close{ObjectType: 'S', Name: "s1"}, "Close", "select $1", false, false, 0},
	{&pgproto3.Bind{PreparedStatement: "s1"}, "Bind", "", false, false, 0},
	{&pgproto3.Query{String: "commit"}, "Query", "commit", false, true, 1},
	{&pgproto3.CopyData{Data: []byte("Q\x00\x00\x00\x04")}, "CopyData", "", false, false, 0},
	{&pgproto3.CopyFail{Message: "no"}, "CopyFail", "", false, true, 0}, // the server has not asked for data
	{&pgproto3.FunctionCall{Function: 1}, "FunctionCall", "", false, true, 1},
	{&pgproto3.Terminate{}, "Terminate", "", true, true, 0},
}

var fromServer = []struct {
	message      message
	name, detail string
	answers      int
}{
	{&pgproto3.AuthenticationSASL{AuthMechanisms: []string{"SCRAM-SHA-256"}}, "Authentication", "", 1},
	{&pgproto3.AuthenticationSASLContinue{Data: []byte("r=")}, "Authentication", "", 1},
	{&pgproto3.AuthenticationSASLFinal{Data: []byte("v=")}, "Authentication", "", 0},
	{&pgproto3.AuthenticationOk{}, "Authentication", "", 0},
	{&pgproto3.AuthenticationMD5Password{}, "Authentication", "", 1},
	{&pgproto3.ParameterStatus{Name: "a", Value: "b"}, "ParameterStatus", "", 0},
	{&pgproto3.BackendKeyData{ProcessID: 7, SecretKey: []byte{0, 0, 0, 9}}, "BackendKeyData", "", 0},
	{&pgproto3.ReadyForQuery{TxStatus: 'I'}, "ReadyForQuery", "I", 1},
	{&pgproto3.ParseComplete{}, "ParseComplete", "", 0},
	{&pgproto3.DataRow{Values: [][]byte{[]byte("Z\x00\x00\x00\x05I")}}, "DataRow", "", 0},
	{&pgproto3.CommandComplete{CommandTag: []byte("INSERT 0 1")}, "CommandComplete", "INSERT 0 1", 0},
	{&pgproto3.ErrorResponse{Severity: "ERROR", Code: "40001", Message: "no"}, "ErrorResponse", "40001 no", 0},
	{&pgproto3.CopyInResponse{}, "CopyInResponse", "", 1},
	{&pgproto3.NotificationResponse{Channel: "c"}, "NotificationResponse", "", 0},
}

func TestClientMessagesAreToldApartHoweverTheyAreSplit(t *testing.T) {
	var stream string
	for _, m := range fromClient {
		stream += encode(t, m.message)
	}
	for i := range stream {
		talk := pgwire.Protocol{}.Open(messageMax)
		r := bufio.NewReader(io.MultiReader(strings.NewReader(stream[:i]), strings.NewReader(stream[i:])))
		for _, want := range fromClient {
			f, err := talk.ClientFrame(r)
			if err != nil {
				t.Fatalf("split at %d: %s: %v", i, want.name, err)
			}
			if f.Name != want.name || f.Detail != want.detail || f.Setup != want.setup || f.Last != want.last || f.Asks != want.asks {
				t.Fatalf("split at %d: %+v, want %+v", i, f, want)
			}
			if string(f.Data) != encode(t, want.message) {
				t.Fatalf("split at %d: %s: %q", i, want.name, f.Data)
			}
			if encrypted := strings.HasSuffix(f.Name, "SSLRequest") || f.Name == "GSSEncRequest"; encrypted != (string(f.Answer) == "N") {
				t.Fatalf("%s is answered with %q", f.Name, f.Answer)
			}
		}
		if _, err := talk.ClientFrame(r); !errors.Is(err, io.EOF) {
			t.Fatalf("split at %d: the end is %v", i, err)
		}
	}
}

func TestServerMessagesAreToldApartHoweverTheyAreSplit(t *testing.T) {
	var stream string
	for _, m := range fromServer {
		stream += encode(t, m.message)
	}
	for i := range stream {
		talk := pgwire.Protocol{}.Open(messageMax)
		r := bufio.NewReader(io.MultiReader(strings.NewReader(stream[:i]), strings.NewReader(stream[i:])))
		for _, want := range fromServer {
			f, err := talk.ServerFrame(r)
			if err != nil {
				t.Fatalf("split at %d: %s: %v", i, want.name, err)
			}
			if f.Name != want.name || f.Detail != want.detail || f.Answers != want.answers || string(f.Data) != encode(t, want.message) {
				t.Fatalf("split at %d: %+v, want %+v", i, f, want)
			}
		}
		if _, err := talk.ServerFrame(r); !errors.Is(err, io.EOF) {
			t.Fatalf("split at %d: the end is %v", i, err)
		}
	}
}

// opened is a conversation past its startup message.
func opened(tb testing.TB) faults.Conversation {
	tb.Helper()
	talk := pgwire.Protocol{}.Open(messageMax)
	startup := encode(tb, &pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersion32, Parameters: map[string]string{"user": "u"}})
	if _, err := talk.ClientFrame(bufio.NewReader(strings.NewReader(startup))); err != nil {
		tb.Fatal(err)
	}
	return talk
}

func TestCancelRequestNamesTheSessionThatTheServerNamed(t *testing.T) {
	secret := []byte{1, 2, 3, 4}
	session, err := opened(t).ServerFrame(bufio.NewReader(strings.NewReader(encode(t, &pgproto3.BackendKeyData{ProcessID: 7, SecretKey: secret}))))
	if err != nil {
		t.Fatal(err)
	}
	talk := pgwire.Protocol{}.Open(messageMax)
	cancel, err := talk.ClientFrame(bufio.NewReader(strings.NewReader(encode(t, &pgproto3.CancelRequest{ProcessID: 7, SecretKey: secret}))))
	if err != nil {
		t.Fatal(err)
	}
	if cancel.Aims == "" || cancel.Aims != session.Session || !cancel.Setup {
		t.Fatalf("%+v aims at %q, the session is %q", cancel, cancel.Aims, session.Session)
	}
}

func TestEndOfACopyAsksForItsAnswerOnlyWhileTheServerWaitsForData(t *testing.T) {
	talk := opened(t)
	client := func(m message) faults.Frame {
		t.Helper()
		f, err := talk.ClientFrame(bufio.NewReader(strings.NewReader(encode(t, m))))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	server := func(m message) {
		t.Helper()
		if _, err := talk.ServerFrame(bufio.NewReader(strings.NewReader(encode(t, m)))); err != nil {
			t.Fatal(err)
		}
	}
	client(&pgproto3.Query{String: "copy t from stdin"})
	server(&pgproto3.CopyInResponse{})
	if f := client(&pgproto3.CopyDone{}); f.Asks != 1 || !f.Last {
		t.Fatalf("the end of the data: %+v", f)
	}
	client(&pgproto3.Query{String: "copy t from stdin"})
	server(&pgproto3.CopyInResponse{})
	server(&pgproto3.ReadyForQuery{TxStatus: 'I'}) // it has failed meanwhile
	if f := client(&pgproto3.CopyFail{}); f.Asks != 0 || !f.Last {
		t.Fatalf("the end of data that nobody waits for: %+v", f)
	}
}

func TestBytesOfAnotherProtocolAreRefused(t *testing.T) {
	length := func(n uint32, rest string) string { return string(binary.BigEndian.AppendUint32(nil, n)) + rest }
	for name, c := range map[string]struct {
		stream string
		read   func(*bufio.Reader) (faults.Frame, error)
		want   error
	}{
		"an HTTP request":           {"GET / HTTP/1.1\r\n\r\n", pgwire.Protocol{}.Open(messageMax).ClientFrame, faults.ErrMalformed},
		"a startup that is short":   {length(7, "\x00\x03\x00\x00"), pgwire.Protocol{}.Open(messageMax).ClientFrame, faults.ErrMalformed},
		"a startup that is long":    {length(10_001, "\x00\x03\x00\x00"), pgwire.Protocol{}.Open(messageMax).ClientFrame, faults.ErrMalformed},
		"version 2":                 {length(8, "\x00\x02\x00\x00"), pgwire.Protocol{}.Open(messageMax).ClientFrame, faults.ErrMalformed},
		"a cancel without a secret": {length(8, "\x04\xd2\x16\x2e"), pgwire.Protocol{}.Open(messageMax).ClientFrame, faults.ErrMalformed},
		"a client's unknown type":   {"!" + length(4, ""), opened(t).ClientFrame, faults.ErrMalformed},
		"a server's unknown type":   {"!" + length(4, ""), opened(t).ServerFrame, faults.ErrMalformed},
		"a length below its own":    {"S" + length(3, ""), opened(t).ClientFrame, faults.ErrMalformed},
		"a message that is large":   {"Q" + length(messageMax, ""), opened(t).ClientFrame, faults.ErrTooLarge},
		"the largest length":        {"D" + length(1<<32-1, ""), opened(t).ServerFrame, faults.ErrTooLarge},
		"an end within a header":    {"S\x00", opened(t).ClientFrame, io.ErrUnexpectedEOF},
		"an end within a body":      {"Q" + length(9, "a"), opened(t).ClientFrame, io.ErrUnexpectedEOF},
		"an end within a startup":   {length(9, "\x00\x03\x00\x00"), pgwire.Protocol{}.Open(messageMax).ClientFrame, io.ErrUnexpectedEOF},
	} {
		if _, err := c.read(bufio.NewReader(strings.NewReader(c.stream))); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestStartRefusesWhatItCanNotStandInFrontOf(t *testing.T) {
	for _, url := range []string{
		"", "not a url\x00", "host=127.0.0.1 user=u", "postgres:///db?host=/tmp", "postgres://127.0.0.1/db?sslmode=verify-full",
	} {
		if p, _, err := pgwire.Start(url, faults.Config{}); err == nil {
			t.Errorf("%q was taken", url)
			_ = p.Close()
		}
	}
}

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
	var stream string
	for _, m := range fromClient {
		stream += encode(f, m.message)
		f.Add([]byte(encode(f, m.message)), false)
	}
	f.Add([]byte(stream), false)
	for _, m := range fromServer {
		f.Add([]byte(encode(f, m.message)), true)
	}
	f.Fuzz(func(t *testing.T, stream []byte, server bool) {
		parse := func(r io.Reader) ([]faults.Frame, error) {
			talk := pgwire.Protocol{}.Open(messageMax)
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
			if !bytes.Equal(frame.Data, split[i].Data) || frame.Detail != split[i].Detail || frame.Asks != split[i].Asks {
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

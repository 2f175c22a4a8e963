package pgwire

import (
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgproto3"
)

var clientNames = map[byte]string{
	'B': "Bind", 'C': "Close", 'D': "Describe", 'E': "Execute", 'F': "FunctionCall", 'H': "Flush", 'P': "Parse",
	'Q': "Query", 'S': "Sync", 'X': "Terminate", 'c': "CopyDone", 'd': "CopyData", 'f': "CopyFail",
	'p': "PasswordMessage",
}

var serverNames = map[byte]string{
	'1': "ParseComplete", '2': "BindComplete", '3': "CloseComplete", 'A': "NotificationResponse",
	'C': "CommandComplete", 'D': "DataRow", 'E': "ErrorResponse", 'G': "CopyInResponse",
	'H': "CopyOutResponse", 'I': "EmptyQueryResponse", 'K': "BackendKeyData", 'N': "NoticeResponse",
	'R': "Authentication", 'S': "ParameterStatus", 'T': "RowDescription", 'V': "FunctionCallResponse",
	'W': "CopyBothResponse", 'Z': "ReadyForQuery", 'c': "CopyDone", 'd': "CopyData", 'n': "NoData",
	's': "PortalSuspended", 't': "ParameterDescription", 'v': "NegotiateProtocolVersion",
}

// Bounds of what is remembered and printed.
const (
	textMax  = 120    // characters of a statement
	textsMax = 10_000 // statements of one connection; those beyond have no text
	nameMax  = 256    // bytes of a statement's name; one with a longer name has no text
)

// texts knows the SQL of the prepared statements and portals of one connection, so that an Execute can be
// printed with the statement that it executes. Only the client's goroutine uses it.
type texts struct {
	statements map[string]string
	portals    map[string]string
}

func newTexts() *texts {
	return &texts{statements: map[string]string{}, portals: map[string]string{}}
}

// detail is what is printed of a client's message. A message that can't be decoded has none: the server is
// the one to complain.
func (t *texts) detail(kind byte, body []byte) string {
	switch kind {
	case 'Q':
		var m pgproto3.Query
		if m.Decode(body) == nil {
			return short(m.String)
		}
	case 'P':
		var m pgproto3.Parse
		if m.Decode(body) == nil {
			put(t.statements, m.Name, short(m.Query))
			return short(m.Query)
		}
	case 'B':
		var m pgproto3.Bind
		if m.Decode(body) == nil {
			put(t.portals, m.DestinationPortal, t.statements[m.PreparedStatement])
			return t.statements[m.PreparedStatement]
		}
	case 'E':
		var m pgproto3.Execute
		if m.Decode(body) == nil {
			return t.portals[m.Portal]
		}
	case 'D':
		var m pgproto3.Describe
		if m.Decode(body) == nil {
			return t.of(m.ObjectType)[m.Name]
		}
	case 'C':
		var m pgproto3.Close
		if m.Decode(body) == nil {
			text := t.of(m.ObjectType)[m.Name]
			delete(t.of(m.ObjectType), m.Name)
			return text
		}
	}
	return ""
}

func (t *texts) of(object byte) map[string]string {
	if object == 'S' {
		return t.statements
	}
	return t.portals
}

func put(texts map[string]string, name, text string) {
	if len(name) > nameMax {
		return
	}
	if _, there := texts[name]; there || len(texts) < textsMax {
		texts[name] = text
	}
}

// serverDetail is what is printed of a server's message.
func serverDetail(kind byte, body []byte) string {
	switch kind {
	case 'C':
		var m pgproto3.CommandComplete
		if m.Decode(body) == nil {
			return short(string(m.CommandTag))
		}
	case 'E':
		var m pgproto3.ErrorResponse
		if m.Decode(body) == nil {
			return m.Code + " " + short(m.Message)
		}
	case 'Z':
		return short(string(body))
	}
	return ""
}

// short is a statement in one line, and not more of it than people read.
func short(text string) string {
	const bytesMax = 4 * textMax
	if len(text) > bytesMax {
		text = text[:bytesMax]
	}
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")
	if utf8.RuneCountInString(text) <= textMax {
		return text
	}
	return string([]rune(text)[:textMax]) + "…"
}

package respwire

import (
	"bufio"
	"strconv"
	"strings"
	"sync"

	"github.com/fiftyhosts/fifty/faults"
)

// wordsKept is how many words of a command are looked at.
const wordsKept = 3

// Protocol is RESP, in its versions 2 and 3, unencrypted. It is safe for concurrent use.
type Protocol struct{}

// Open begins a connection.
func (Protocol) Open(messageMax int) faults.Conversation { return &conversation{max: messageMax} }

// setup are the commands that are about the connection.
var setup = map[string]bool{
	"AUTH": true, "CLIENT": true, "HELLO": true, "QUIT": true, "READONLY": true, "READWRITE": true,
	"RESET": true, "SELECT": true,
}

// subscribing are the commands that are answered once per channel, outside of the order of answers.
var subscribing = map[string]bool{
	"SUBSCRIBE": true, "PSUBSCRIBE": true, "SSUBSCRIBE": true,
	"UNSUBSCRIBE": true, "PUNSUBSCRIBE": true, "SUNSUBSCRIBE": true,
}

// published are the first words of what comes from a subscription.
var published = map[string]bool{
	"message": true, "pmessage": true, "smessage": true,
	"subscribe": true, "psubscribe": true, "ssubscribe": true,
	"unsubscribe": true, "punsubscribe": true, "sunsubscribe": true,
}

// conversation is one connection.
type conversation struct {
	max int

	// Of the client's goroutine alone.
	off  bool // after CLIENT REPLY OFF
	skip bool // after CLIENT REPLY SKIP: the next command has no answer either

	mu         sync.Mutex
	subscribed bool // the client has ever subscribed
}

// ClientFrame reads the next command.
func (c *conversation) ClientFrame(r *bufio.Reader) (faults.Frame, error) {
	m := reader{r: r, max: c.max}
	words, err := m.command()
	if err != nil {
		return faults.Frame{}, err
	}
	f := faults.Frame{Data: m.data, Last: true}
	if len(words) == 0 { // an empty line or array, which a server passes over
		f.Name, f.Setup = "nothing", true
		return f, nil
	}
	f.Name = strings.ToUpper(string(clip(words[0])))
	f.Setup = setup[f.Name]
	if len(words) > 1 && f.Name != "AUTH" && f.Name != "HELLO" {
		f.Detail = printable(words[1])
	}
	f.Asks = c.asks(f.Name, words)
	return f, nil
}

// asks is how many answers a command has.
func (c *conversation) asks(name string, words [][]byte) int {
	if subscribing[name] {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.subscribed = true
		return 0
	}
	if name == "CLIENT" && len(words) == wordsKept && strings.EqualFold(string(words[1]), "REPLY") {
		switch strings.ToUpper(string(words[2])) {
		case "OFF":
			c.off = true
			return 0
		case "SKIP":
			c.skip = !c.off
			return 0
		case "ON":
			c.off, c.skip = false, false
			return 1
		}
	}
	if c.off || c.skip {
		c.skip = false
		return 0
	}
	return 1
}

// ServerFrame reads the next reply, or a push.
func (c *conversation) ServerFrame(r *bufio.Reader) (faults.Frame, error) {
	m := reader{r: r, max: c.max}
	rep, err := m.reply()
	if err != nil {
		return faults.Frame{}, err
	}
	f := faults.Frame{Data: m.data, Name: names[rep.kind], Answers: 1}
	switch rep.kind {
	case '+', '-', ':':
		f.Detail = printable(rep.text)
	case '>':
		f.Answers, f.Detail = 0, printable(rep.word)
	case '*':
		if c.subscription(rep.word) {
			f.Answers, f.Detail = 0, printable(rep.word)
		}
	}
	return f, nil
}

// subscription says whether an array comes from one: in RESP2, nothing but its first word tells.
func (c *conversation) subscription(word []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.subscribed && published[string(word)]
}

var names = map[byte]string{
	'+': "string", '-': "error", ':': "integer", '_': "null", ',': "double", '#': "boolean", '(': "number",
	'$': "bulk", '!': "bulk-error", '=': "verbatim", '*': "array", '~': "set", '>': "push", '%': "map",
}

// printable is the beginning of a key or a text, on one line.
func printable(word []byte) string {
	quoted := strconv.Quote(string(clip(word)))
	return quoted[1 : len(quoted)-1]
}

package faults

// Fault is what happens to one message, or to the connection from that message on. Each has one word, which
// is used everywhere: in plans, in what is printed, in counts.
//
// All but Delayed first let the client have the answers to the requests that it had completed before message
// n. What a fault leaves behind is then the same in each run.
type Fault string

const (
	// Pass does nothing.
	Pass Fault = "pass"

	// RequestLost: message n is not delivered, nor is anything behind it. The server finishes with what came
	// before n and sees the connection end; after that the client's side is reset.
	RequestLost Fault = "request-lost"

	// ReplyLost: message n is delivered and executed. The answer is read and thrown away, the server sees
	// the connection end; after that the client's side is reset.
	ReplyLost Fault = "reply-lost"

	// Delayed: message n waits, with all that is behind it, for Config.Delay or until Strike.Release. It is
	// then delivered, and the connection goes on. The server's messages are not delayed.
	Delayed Fault = "delayed"

	// Zombie: message n is held, and the client sees its connection end. Everything that the client sent on
	// it is delivered to the server when Strike.Release is called, on the old connection: it executes late.
	// The answers are thrown away.
	Zombie Fault = "zombie"

	// Partition: from message n on, nothing goes through this connection in either direction, and neither
	// side is told: no FIN, no RST. It ends with Strike.Release or Proxy.Heal, and all that was held back
	// then arrives in order.
	Partition Fault = "partition"

	// ClientGone: message n is delivered, and the client's side is reset at once, while the server still
	// executes. The server is left to finish, its answer is thrown away.
	ClientGone Fault = "client-gone"
)

// cuts says whether the fault ends the client's side of the connection.
func (f Fault) cuts() bool {
	switch f {
	case RequestLost, ReplyLost, Zombie, ClientGone:
		return true
	default:
		return false
	}
}

// known says whether f is one of the faults, Pass among them.
func (f Fault) known() bool {
	return f.cuts() || f == Pass || f == Delayed || f == Partition
}

package faults

import (
	"fmt"
	"strings"
)

// Message is one message from a client, as a plan sees it and as a trace lists it.
type Message struct {
	// Number counts the messages of all connections since Arm, from 1. It is 0 for what sets a connection up
	// or ends it, such as authentication: that is not counted.
	Number int

	// Conn is the number of the connection, in the order of the connections' first counted messages since
	// Arm, from 1. OnConn counts the messages of that connection, from 1. Both are 0 where Number is.
	Conn, OnConn int

	// Name is what the protocol calls the message, such as Execute; Detail is for people, such as the SQL.
	Name, Detail string

	// First and Last say that the message begins or completes a request: before First and after Last the
	// client may have been waiting for an answer. A request of one message is both.
	First, Last bool
}

// String is the message's number and name, such as "7 Execute insert into orders".
func (m Message) String() string {
	return strings.TrimSpace(fmt.Sprintf("%d %s %s", m.Number, m.Name, m.Detail))
}

// Point is one place at which a sweep faults: a message of a clean run, and what happens to it.
type Point struct {
	Fault   Fault
	Message Message
}

// String is such as "reply-lost at 8 Sync".
func (p Point) String() string { return string(p.Fault) + " at " + p.Message.String() }

// Plan faults at this point and passes everything else.
func (p Point) Plan() Plan { return At(p.Message.Number, p.Fault) }

// Points lists the cut points of a clean run, message by message. With faults, it is each of them at each
// message. Without, it is the smallest complete set: see "How to sweep" in the package's doc.
func Points(trace []Message, faults ...Fault) []Point {
	var points []Point
	for _, m := range trace {
		at := faults
		if len(faults) == 0 {
			at = []Fault{RequestLost, Zombie}
			if m.Last {
				at = []Fault{RequestLost, ReplyLost, Zombie, ClientGone}
			}
		}
		for _, f := range at {
			points = append(points, Point{Fault: f, Message: m})
		}
	}
	return points
}

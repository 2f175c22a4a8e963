// Package respwire lets the fault proxy of package faults read RESP, the protocol of Redis, versions 2 and 3.
//
//	proxy, err := faults.Start(faults.Config{Upstream: "127.0.0.1:6379", Protocol: respwire.Protocol{}})
//
// # What is counted
//
// Each command counts and is a request of its own; it is printed with its first argument: "3 SET order:7". The
// commands that are about the connection do not count: HELLO, AUTH, CLIENT, SELECT, READONLY, READWRITE, RESET,
// QUIT. Within MULTI and EXEC each command counts, and is answered with QUEUED: nothing takes effect before
// EXEC, and a connection that ends before it discards what is queued.
//
// Each command has one answer, but for those behind CLIENT REPLY OFF or SKIP, and for subscriptions, whose
// messages and confirmations come outside of the order and answer nothing. Pushes answer nothing. MONITOR is
// passed on, but what follows counts as answers: fault no connection on which it was sent.
//
// Redis gives up a command that blocks, such as BLPOP, when it sees the connection end; the proxy waits for
// its answer before it ends the connection.
package respwire

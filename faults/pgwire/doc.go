// Package pgwire lets the fault proxy of package faults read the Postgres protocol.
//
//	proxy, through, err := pgwire.Start("postgres://…", faults.Config{})
//
// # What is counted
//
// Each message of the client counts, wherever the bytes were split: Parse, Bind, Describe, Execute, Sync, Flush,
// Query, Close, FunctionCall, CopyData, CopyDone, CopyFail. What sets a connection up does not (the startup
// message, requests for encryption and for a cancel, passwords), nor does Terminate. The same calls over
// prepared statements therefore give the same numbers in each run; a first call that prepares a statement has
// more messages than a later one, so warm up before Arm. Look at what the driver adds by itself: pgxpool, for
// one, pings a connection that was idle for a second (set ShouldPing in its configuration).
//
// A message is printed with its SQL: "7 Execute insert into orders…".
//
// # What the server does before the Sync
//
// Postgres executes Parse, Bind and Execute as they arrive, but keeps the answers until Sync or Flush, and the
// implicit transaction open until Sync. A connection that ends before the Sync therefore rolls back what was
// executed. An exception is an Execute of COMMIT, or of another statement that ends a transaction: it takes
// effect at once, Sync or not. Both are among the states that a sweep over all messages reaches.
//
// A request is complete, and its answer is, with ReadyForQuery, which answers a Query, a FunctionCall, or a
// Sync; and where the server asks the client for data, with CopyInResponse.
//
// # Encryption and cancels
//
// The proxy is for unencrypted connections. A client that asks for TLS or GSS encryption is told that the
// server has none. A cancel request is passed on, unless a fault has struck the connection that it is about:
// drivers send one when a connection dies under them, and a host that is gone does not.
package pgwire

// Package faults puts a proxy between a client and its server that loses, delays and repeats what passes, at a
// message of your choice. It is for testing your own service: does the effect happen exactly once, whatever
// message is lost?
//
//	proxy, err := faults.Start(faults.Config{Upstream: "127.0.0.1:5432", Protocol: pgwire.Protocol{}})
//	proxy.Arm(faults.At(7, faults.ReplyLost)) // count from here; fault the seventh message
//	…                                         // call your service through proxy.Addr()
//	strike, err := proxy.WaitStrike(ctx, 1)   // it has struck
//	err = strike.Wait(ctx)                    // the server has finished with it
//
// The proxy knows where messages begin and end, by a [Protocol]: faults/pgwire for Postgres, faults/respwire
// for Redis, and [TCP], which knows nothing, for everything else. A count of messages is therefore the same in
// each run, however the bytes were split. The messages of the client are numbered; faults strike at them.
//
// # The faults
//
//	word           message n       the server                   the client             Done when
//	request-lost   never arrives   finishes what came before    then sees a reset      it is cut
//	reply-lost     arrives         executes it and finishes     then sees a reset      it is cut
//	client-gone    arrives         executes it meanwhile        sees a reset at once   the server has finished
//	zombie         arrives late    executes it when released    sees its end at once   the server has finished
//	delayed        arrives late    executes it when released    waits                  it is delivered
//	partition      arrives late    hears nothing, even no end   hears nothing          it is delivered
//	pass           arrives         executes it                  gets its answer
//
// Each but delayed strikes once the client has the answers to all that it had completed before message n. With
// request-lost and reply-lost, the client learns of it only when the server has finished with the connection,
// so that a retry never overlaps with what it repeats; with client-gone and zombie it does overlap. Where the
// order matters, the difference is the point.
//
// To finish, the server gets the end of the stream (FIN) behind the last message, and the proxy reads until it
// ends its side too. A server that doesn't is reset after Config.FinishMax, and Strike.Wait says so.
//
// A zombie consists of message n and of all that the client sends until it has noticed the end: the rest of
// the request, and of a pipeline. Nothing is cut off by where the bytes were split.
//
// # How to sweep
//
// Run the operation once with nothing armed but the count (Arm(nil)), and keep [Proxy.Trace]: these are the
// messages, numbered and named. Each with a fault is a [Point]; for each point prepare the same state, Arm
// its plan, run the operation, and let the client retry on another connection with the same id. Then check
// the effect. Print the points, and fail when there are fewer than there were.
//
// What can be lost in a run of N messages? The server has got the first k of them, for any k from 0 to N; of
// the requests that it completed, the client knows the answers of all or of all but the last; the rest never
// arrives, or late; and the client goes on before the server has finished, or after. [Points] without faults
// lists each of these once:
//
//   - request-lost at each message: the server has k = n-1, and the client all its answers.
//   - reply-lost at each message that is the last of a request: k = n, and the answer is not known. (At another
//     message it is the same as request-lost at the one behind it: nothing was asked yet.)
//   - zombie at each message: k = n-1, and the rest arrives after the retry. At the first message of a request,
//     that is the whole request, executed late.
//   - client-gone at each last message: as reply-lost, but the retry overlaps with the execution.
//
// A zombie within a request, or within a transaction, leaves a server that has executed a part of it and waits
// for the rest, with the locks of that part: a retry that needs them waits, as it would in production. Such a
// point ends with the retry's own time-out or the server's; then release the strike, and retry again. Delayed and partition add no state that is
// not in the list, but the client's own time-outs decide when it gives up: run them where those matter.
//
// # Who is told
//
// [Proxy.WaitStrike] returns once a fault has taken hold; [Strike.Release] lets go on what it holds;
// [Strike.Wait] returns when it has run its course, with an error if the server never got or answered what it
// should have: a sweep that ignores it may prove nothing. [Proxy.Close] returns the first thing that the proxy
// itself could not do.
//
// # Bounds
//
// Connections, the size of a message, what a zombie holds, the trace and the waits for a silent peer are
// bounded by Config. Each connection has two goroutines, and a message in memory for each. Close leaves
// nothing behind.
//
// # Files
//
//   - fault.go, message.go, plan.go: the words, what is counted, what is chosen.
//   - protocol.go: what a protocol must tell, and TCP.
//   - proxy.go, control.go: the proxy and what a test does with it.
//   - conn.go: one connection, as long as nothing strikes.
//   - apply.go, strike.go: what the faults do, and how a test follows one.
package faults

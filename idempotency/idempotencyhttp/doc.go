// Package idempotencyhttp makes HTTP requests take effect once: a request with an Idempotency-Key runs for
// its first arrival, and every other arrival gets the same answer, with Idempotency-Replayed: true.
//
// [Middleware] is for any handler; [InTx] for one whose work is a write to the database of the keys.
//
// # What makes two requests the same
//
// The key names the intent, within the scope: the caller's verified identity, which [Config.Scope] returns.
// It is quoted, as the IETF draft has it, or bare: "abc" and abc are one key. Keys are compared byte for
// byte. A bare key can't have a quote, a comma or a semicolon in it; parameters after a quoted one are
// refused, since the draft knows none.
//
// Under one key all arrivals must ask for the same: method, escaped path, query as written, media type and
// body. JSON bodies of up to 1 MiB are compared as values, so that the order of members and white space
// don't matter; all other bodies are compared byte for byte. Of the Content-Type only type and subtype
// count. Other headers don't count, the host neither: put into the scope what must tell two requests apart.
//
// # The answer
//
// It is held back until it is stored. What is kept is what the handler wrote: status, body, and header
// value by value, without the fields about one connection; [Config.Headers] narrows it down. What outer
// handlers have set on the ResponseWriter is sent and not kept, and the handler does not see it.
// Informational answers (1xx) are dropped, and Hijack is not supported; requests with other methods pass
// untouched and can do both.
//
// An answer larger than [Config.ResponseMax], or flushed, is streamed: the client sees it grow, but for its
// end, which waits for the record. If that can't be made the connection is broken off. Such an answer, and
// one with trailers or a header above [HeaderMax], is not kept: the work never runs again, and a duplicate
// is told not-replayable. A client that leaves stops nothing, not even an answer that is being streamed to
// it.
//
// # While it is at work
//
// A duplicate gets 409, in-flight. With Config.Wait of the keys it waits first; with [Config.Status] it gets the
// same problem with 202 and a Location, where [StatusHandler] tells the caller how it stands.
//
// Everything that is answered in the handler's place is a [Problem]; docs/problems.md says for each whether
// anything was run and what the client should do.
//
// # Clients
//
// [Transport] is the other end of it: it gives each intent one key and sends a request again under it.
// [ProblemFrom] reads what a client is told.
//
// # Files
//
//   - config.go: Config; keep.go: what becomes of an answer, and what a handler can ask of its request
//   - middleware.go: Middleware and the course of a request; intx.go: InTx
//   - status.go: where a client sees what became of a request that was accepted
//   - key.go, body.go, fingerprint.go: what a request says of its intent
//   - recorder.go, header.go: the answer, held back, sent and replayed
//   - problem.go: what clients are told instead; problemfrom.go: how they read it
//   - transport.go: the client; clientkey.go, clientbody.go, clientanswer.go: what it sends, and what it makes
//     of an answer
//
// # Events
//
// An Observer in Config sees: idempotencyhttp.problem (attributes problem and status), .unprotected (a
// request without a key was let through), .not_replayable (an answer was given and not kept) and
// .aborted (a streamed answer was broken off, since its outcome could not be recorded). Those of package
// idempotency go to the Observer of the keys.
package idempotencyhttp

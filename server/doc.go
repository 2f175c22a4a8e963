// Package server is the gateway: a process in front of services in any language, unchanged, whose
// non-repeatable requests then take effect once however often, and from however many hosts, they are sent.
//
// Each route is a path of an upstream. A request with one of the route's methods and an Idempotency-Key
// is claimed in the store, sent to the upstream once, and its answer is kept for whoever sends it again.
// Everything else passes through.
//
// # What an upstream's answer means
//
//   - An answer below 500 is kept and replayed, but for 401, 408, 425 and 429, which free the key.
//   - An answer of 500 or above is passed on as it is, and the key is held as unresolved: the upstream may
//     have acted. The next request with the key gets 409, unresolved, and nothing is run again.
//   - No connection: 502, upstream-unreachable. Nothing was sent, so the key is free.
//   - No answer, or half of one, or none within the route's timeout: 503, unknown. The upstream may have
//     acted, so the key is held as unresolved.
//
// That is unknown: hold. With unknown: retry, for an upstream that knows a repeat by its key, nothing is held:
// the next request with the key is sent on under the key of the first attempt, which is written down before
// its first byte is sent. When the upstream's window has passed since then, the key is held after all (H8). A
// 409 to what was sent again is passed on and not kept: the first attempt may still be at work over there.
//
// # Files
//
//   - config.go, config_read.go, config_routes.go, config_scope.go, config_seal.go, config_values.go: the YAML,
//     strictly
//   - scope.go, jwt.go, jwt_keys.go: who the caller is (H2)
//   - transport.go: a request is sent once or not at all (H1)
//   - gateway.go, route.go, forward.go, doer.go: a request's way through
//   - retry.go: routes that send again; status.go: where a duplicate that was accepted looks
//   - conn.go: a client that is slow
//   - metrics.go: what is counted
//   - backend.go, backend_open.go: the database behind a URL
//   - sweep.go: what is old is dropped
//   - serve.go, listen.go, admin.go, banner.go, sandbox_serve.go: the process: listeners, health, drain
package server

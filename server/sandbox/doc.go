// Package sandbox is a payments service to try Fifty on. It is not idempotent, on purpose: each
// POST /charges makes another charge, whatever headers it carries, as many real services do. Put behind
// the gateway it shows that the same request twice is one charge; without it, two.
//
//	POST /charges       {"account":"alice","amount":1200,"currency":"EUR"} → 201, the charge, Location
//	GET  /charges       oldest first; ?account= filters, ?limit= and ?after=ID page
//	GET  /charges/{id}  one charge
//
// The ledger is committed before an answer is written, so a charge that was answered is there, and one
// that was made may have lost its answer. Errors are RFC 9457 problems of the type about:blank.
//
// # Faults
//
// The header Sandbox-Fault of a POST makes it go wrong, once:
//
//   - slow=2s: waits for that long (at most SlowMax), then charges and answers. The wait and the charge
//     go on when the client hangs up.
//   - drop: charges, then closes the connection without an answer.
//   - crash-before: the process exits before it charges.
//   - crash-after: charges, then the process exits without an answer.
//
// So whoever can reach the sandbox can end its process: it is for trying things, never for the public.
//
// # Files
//
//   - charge.go: what a charge is, and the strict reading of a request for one
//   - ledger.go, memory.go, sql.go: where charges are kept
//   - fault.go: the header Sandbox-Fault
//   - sandbox.go: the HTTP side
package sandbox

package idempotencyhttp

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency"
)

// Defaults of Config. The sizes are in bytes.
const (
	BodyMaxDefault     = 1 << 20
	MemoryMaxDefault   = 256 << 10
	ResponseMaxDefault = 1 << 20
	WorkMaxDefault     = 5 * time.Minute
)

// Config says how HTTP requests become requests of package idempotency. Only Scope is mandatory.
type Config struct {
	// Scope returns the verified identity of the caller: account, tenant, API credential. It is asked
	// first, before the key is read and before anything is replayed, so that nobody gets another's answer.
	// It must verify: a name that anyone may write into a request is no scope. The scope is stored, so
	// return a digest of a secret, never the secret.
	//
	// An error or an empty scope is answered with scope-missing; the error goes to the Observer and not to
	// the client. An error that is a *Problem is answered as it is. Mandatory.
	Scope func(r *http.Request) (string, error)

	// Methods are those that need a key. Requests with another method pass untouched, with a key too.
	// Defaults to POST and PATCH.
	Methods []string

	// NoKey says what becomes of a request without a key. Defaults to Refuse.
	NoKey NoKey

	// Keep says what becomes of an answer, by its status. Defaults to DefaultKeep. A handler overrides it
	// for its own request with SetKeep.
	Keep func(status int) Keep

	// Headers names the fields that are kept of an answer's header. The others go to the first client and
	// are not replayed: a Date, a trace id, a cookie of one session. Content-Type, Content-Encoding and
	// Content-Range are always kept, since they say what the body is, and Content-Length by the rules of
	// HTTP; those about one connection never are. A field that a client needs must be listed: Location
	// with a 201. Defaults to nil, which keeps all; an empty list keeps none beyond those.
	Headers []string

	// BodyMax bounds the body of a request, in bytes. A larger one is refused before any work. Defaults to
	// 1 MiB.
	BodyMax int64

	// MemoryMax is how much of a body is held in memory, in bytes; a larger body waits in a temporary file.
	// It does not change how bodies are compared. Defaults to 256 KiB.
	MemoryMax int64

	// ResponseMax is the largest answer that is held back and kept, in bytes of its body. A larger one is
	// streamed and not kept. It should not be above the ResponseMax of the keys. Defaults to 1 MiB.
	ResponseMax int

	// WorkMax bounds the context of an InTx handler, which the client's leaving does not end. Middleware
	// does not use it: there the bound is that of the keys. Defaults to 5 min.
	WorkMax time.Duration

	// IgnoreFlush makes Flush do nothing until an answer has outgrown ResponseMax, so that every answer
	// that fits is kept. Set it where something flushes out of habit: httputil.ReverseProxy does so for
	// every answer without a Content-Length. Defaults to false: the first Flush starts streaming.
	IgnoreFlush bool

	// Steps runs the handler under Keys.DoSteps, so that a request that broke off is resumed: see Middleware,
	// whose keys must then be a StepDoer. The handler finds its steps with idempotency.StepsFrom. Middleware
	// only. Defaults to false.
	Steps bool

	// Status answers a duplicate of a request that is at work with 202 Accepted instead of 409: its Location
	// is the path that Status returns, where a StatusHandler tells what becomes of the request. An empty path
	// leaves it at 409. Middleware only. Defaults to none.
	Status func(req idempotency.Request) (path string)

	// Observer sees the events that doc.go lists. Defaults to none.
	Observer fifty.Observer
}

// NoKey says what becomes of a request without an Idempotency-Key.
type NoKey int

const (
	// Refuse answers with key-missing.
	Refuse NoKey = iota
	// Pass lets the request through, untouched and unprotected: a retry of it runs again. Each one is
	// counted by the event idempotencyhttp.unprotected. Middleware only: InTx has no transaction to give.
	Pass
)

// Doer is what Middleware needs: *idempotency.Keys and *idempotency.TxKeys are ones.
type Doer interface {
	Do(ctx context.Context, req idempotency.Request, fn func(ctx context.Context) (idempotency.Response, error)) (idempotency.Result, error)
}

// StepDoer is what Middleware needs with Config.Steps: *idempotency.Keys and *idempotency.TxKeys are ones.
type StepDoer interface {
	Doer
	DoSteps(ctx context.Context, req idempotency.Request, fn func(ctx context.Context, s *idempotency.Steps) (idempotency.Response, error)) (idempotency.Result, error)
}

// filled returns c with its defaults. It panics on a fault, which is one of the program's set-up.
func (c Config) filled(form string) Config {
	if c.Scope == nil {
		panic("idempotencyhttp: " + form + ": Config.Scope is mandatory: return the verified identity of the caller")
	}
	if c.BodyMax < 0 || c.MemoryMax < 0 || c.ResponseMax < 0 || c.WorkMax < 0 {
		panic(fmt.Sprintf("idempotencyhttp: %s: a bound is negative: BodyMax %d, MemoryMax %d, ResponseMax %d, WorkMax %v",
			form, c.BodyMax, c.MemoryMax, c.ResponseMax, c.WorkMax))
	}
	if len(c.Methods) == 0 {
		c.Methods = []string{http.MethodPost, http.MethodPatch}
	}
	c.Methods = slices.Clone(c.Methods)
	c.Headers = headerList(form, c.Headers)
	if c.Keep == nil {
		c.Keep = DefaultKeep
	}
	if c.BodyMax == 0 {
		c.BodyMax = BodyMaxDefault
	}
	if c.MemoryMax == 0 {
		c.MemoryMax = MemoryMaxDefault
	}
	if c.ResponseMax == 0 {
		c.ResponseMax = ResponseMaxDefault
	}
	if c.WorkMax == 0 {
		c.WorkMax = WorkMaxDefault
	}
	return c
}

func (c Config) covers(method string) bool { return slices.Contains(c.Methods, method) }

func (c Config) observe(ctx context.Context, e fifty.Event) {
	if c.Observer != nil {
		c.Observer.Observe(ctx, e)
	}
}

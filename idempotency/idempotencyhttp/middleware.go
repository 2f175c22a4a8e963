package idempotencyhttp

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency"
)

// Middleware makes a handler take effect once per key, by Keys.Do: use it where the work reaches beyond
// the database of the keys. It panics when cfg has no Scope or a negative bound, or Steps and keys that can't.
//
// The handler gets the whole body, and a context that keeps its values but outlives the client's leaving.
// It never starts twice for one key. Its answer is held back until it is stored, and then sent; see Keep
// for what becomes of it. A panic goes on, and leaves the key unresolved.
//
// With Config.Steps the handler may run again: an answer that is Failed, a panic, or an owner that vanished lets
// the key go, and the next request with it runs the handler anew. The handler then skips what it did as a
// Step; what it does outside of one is done again. A Freed answer frees the key only if no step was sent, and
// otherwise lets it go. A step that can't be settled leaves the key unresolved.
//
// The WriteTimeout of an http.Server counts from the request's arrival. Set it above the WorkMax of the
// keys, or an answer that took long is stored but can't be sent.
//
// The handler that it returns is safe for concurrent use, on any number of hosts over one store.
func Middleware(keys Doer, cfg Config) func(http.Handler) http.Handler {
	if keys == nil {
		panic("idempotencyhttp: Middleware: keys is nil")
	}
	g := &guard{cfg: cfg.filled("Middleware")}
	do := keys.Do
	if g.cfg.Steps {
		do = inSteps(keys)
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !g.cfg.covers(r.Method) {
				next.ServeHTTP(w, r)
				return
			}
			x := &exchange{guard: g, w: w, r: r}
			if !x.prepare(next) {
				return
			}
			defer x.body.close()
			res, err := do(r.Context(), x.request, func(ctx context.Context) (idempotency.Response, error) {
				return x.run(ctx, next.ServeHTTP)
			})
			x.conclude(res, err)
		})
	}
}

// inSteps is Do by way of DoSteps. The handler finds its steps in its context.
func inSteps(keys Doer) func(context.Context, idempotency.Request, func(context.Context) (idempotency.Response, error)) (idempotency.Result, error) {
	steps, ok := keys.(StepDoer)
	if !ok {
		panic("idempotencyhttp: Middleware: Config.Steps needs keys with DoSteps: a StepDoer")
	}
	return func(ctx context.Context, req idempotency.Request, fn func(context.Context) (idempotency.Response, error)) (idempotency.Result, error) {
		return steps.DoSteps(ctx, req, func(ctx context.Context, _ *idempotency.Steps) (idempotency.Response, error) {
			return fn(ctx)
		})
	}
}

// guard is what the requests of one Middleware or InTx share.
type guard struct {
	cfg   Config
	whole bool // in a transaction: no answer is streamed
}

// exchange is one protected request.
type exchange struct {
	guard   *guard
	w       http.ResponseWriter
	r       *http.Request
	request idempotency.Request
	body    *body
	answer  *recorder // of the latest run; nil while the handler has not run
}

// prepare finds out who asks, for which key, and what for: in this order, so that nobody learns anything
// about a key before it is known who they are. It says whether the request is to be claimed now; if not,
// it was answered, and if so, the caller closes the body.
func (x *exchange) prepare(next http.Handler) bool {
	cfg := x.guard.cfg
	scope, ok := x.scope()
	if !ok {
		return false
	}
	key, p := keyOf(x.r.Header)
	if p != nil && p.Name == keyMissing && cfg.NoKey == Pass {
		cfg.observe(x.r.Context(), fifty.Event{Name: "idempotencyhttp.unprotected", Attrs: x.attrs()})
		next.ServeHTTP(x.w, x.r)
		return false
	}
	if p != nil {
		x.refuse(p, nil)
		return false
	}
	x.request = idempotency.Request{Scope: scope, Key: key}
	b, err := readBody(x.w, x.r, cfg.BodyMax, cfg.MemoryMax)
	if err != nil {
		x.refuse(ProblemOf(err), err)
		return false
	}
	x.request.Fingerprint, err = fingerprint(x.r, b)
	if err != nil {
		b.close()
		x.refuse(ProblemOf(err), err)
		return false
	}
	x.body = b
	return true
}

// run calls the handler once, with a body and an answer of its own.
func (x *exchange) run(ctx context.Context, handler http.HandlerFunc) (idempotency.Response, error) {
	rec := newRecorder(x)
	x.answer = rec
	defer rec.end() // after a panic too
	r := x.r.WithContext(context.WithValue(ctx, recorderKey{}, rec))
	r.Body = &handed{Reader: x.body.open()}
	r.ContentLength, r.TransferEncoding, r.GetBody = x.body.size, nil, nil
	handler(rec, r)
	return rec.finish()
}

// conclude answers the client. Whatever the keys say is durable by now.
func (x *exchange) conclude(res idempotency.Result, err error) {
	rec := x.answer
	ctx := x.r.Context()
	switch {
	case rec == nil && err != nil: // a duplicate, or no claim
		x.turnAway(err)
	case rec == nil:
		replay(x.w, x.r, res.Response)
	case rec.tooLarge:
		x.refuse(problem(answerTooLarge), err)
	case err == nil && !res.Replayed:
		if rec.unkept {
			x.guard.cfg.observe(ctx, fifty.Event{Name: "idempotencyhttp.not_replayable", Attrs: x.attrs()})
		}
		rec.deliver()
	case err != nil && rec.decided != Stored:
		// The answer is not kept; what became of the key does not change it.
		rec.deliver()
	case rec.streaming:
		x.abort(err)
	case err == nil: // the key was decided without this run, whose answer does not count
		replay(x.w, x.r, res.Response)
	default:
		x.refuse(ProblemOf(err), err)
	}
}

// turnAway answers a request whose handler does not run.
func (x *exchange) turnAway(err error) {
	if status := x.guard.cfg.Status; status != nil && errors.Is(err, idempotency.ErrInFlight) {
		if path := status(x.request); path != "" {
			x.w.Header().Set("Location", path)
			x.refuse(atWork(err, "Ask at the Location"), err)
			return
		}
	}
	x.refuse(ProblemOf(err), err)
}

// refuse answers with a problem.
func (x *exchange) refuse(p *Problem, cause error) {
	told := *p
	if told.Key == "" {
		told.Key = x.request.Key
	}
	x.guard.cfg.observe(x.r.Context(), fifty.Event{
		Name: "idempotencyhttp.problem", Err: cause,
		Attrs: append(x.attrs(), slog.String("problem", told.Name), slog.Int("status", told.Status)),
	})
	WriteProblem(x.w, &told)
}

// abort breaks off an answer that was streamed and whose outcome could not be recorded, so that its client
// does not take it for a whole one.
func (x *exchange) abort(cause error) {
	x.guard.cfg.observe(x.r.Context(), fifty.Event{Name: "idempotencyhttp.aborted", Err: cause, Attrs: x.attrs()})
	if !x.r.ProtoAtLeast(1, 1) {
		x.reset()
	}
	panic(http.ErrAbortHandler)
}

// reset closes the client's connection with a reset. In HTTP/1.0 the end of the connection may be the
// proper end of an answer; a reset is not.
func (x *exchange) reset() {
	conn, _, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		return
	}
	tcp, ok := conn.(*net.TCPConn)
	if layered, is := conn.(interface{ NetConn() net.Conn }); is { // TLS
		tcp, ok = layered.NetConn().(*net.TCPConn)
	}
	if ok {
		_ = tcp.SetLinger(0)
		_ = tcp.Close()
	}
	_ = conn.Close()
}

func (x *exchange) attrs() []slog.Attr {
	attrs := []slog.Attr{slog.String("method", x.r.Method), slog.String("path", x.r.URL.EscapedPath())}
	if x.request.Key != "" {
		attrs = append(attrs, slog.String("scope", x.request.Scope), slog.String("key", x.request.Key))
	}
	return attrs
}

// allowed is the value of an Allow header.
func (g *guard) allowed() string { return strings.Join(g.cfg.Methods, ", ") }

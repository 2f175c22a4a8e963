package idempotencyhttp

import (
	"context"
	"net/http"

	"github.com/fiftyhosts/fifty/idempotency"
)

// InTx serves requests whose work is a write to the database of the keys, by TxKeys.InTx: h writes through
// tx, and the work and its answer are committed together or not at all. Nothing is sent before the commit.
// It panics when cfg has no Scope or a negative bound, says Pass, since without a key there is no transaction, or
// has what is for Middleware only.
//
// The answer decides. Stored with a status below 400 it is committed with the work; stored with any other,
// it is a refusal: the work is rolled back and the answer kept. A Freed or Failed one rolls everything back
// and leaves the key as it was, and so does a panic, which goes on.
//
// h may run again after a lost race, each time in a new transaction with a new answer, and may begin for a duplicate,
// whose statements then fail with an idempotency.ErrUnclaimed and whose answer is dropped. So it must act
// through tx only. Its context outlives the client's leaving and ends after Config.WorkMax. Its answer is
// held back whole: Flush is not supported, and one above ResponseMax is rolled back and told to the client
// as answer-too-large. A method outside Config.Methods is refused as method-not-allowed.
//
// The handler that it returns is safe for concurrent use, on any number of hosts over one store.
func InTx[Tx any](keys *idempotency.TxKeys[Tx], cfg Config, h func(w http.ResponseWriter, r *http.Request, tx Tx)) http.Handler {
	if keys == nil || h == nil {
		panic("idempotencyhttp: InTx: keys or h is nil")
	}
	if cfg.NoKey == Pass {
		panic("idempotencyhttp: InTx: Config.NoKey is Pass, but without a key there is no transaction to run the handler in")
	}
	if cfg.Steps || cfg.Status != nil {
		panic("idempotencyhttp: InTx: Config.Steps and Config.Status are for Middleware: a transaction is not resumed, and nobody sees its key before it ends")
	}
	g := &guard{cfg: cfg.filled("InTx"), whole: true}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{guard: g, w: w, r: r}
		if !g.cfg.covers(r.Method) {
			w.Header().Set("Allow", g.allowed())
			x.refuse(problem(methodNotAllowed), nil)
			return
		}
		if !x.prepare(nil) {
			return
		}
		defer x.body.close()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), g.cfg.WorkMax)
		defer cancel()
		res, err := keys.InTx(ctx, x.request, func(ctx context.Context, tx Tx) (idempotency.Response, error) {
			answer, err := x.run(ctx, func(w http.ResponseWriter, r *http.Request) { h(w, r, tx) })
			if err == nil && answer.Status >= http.StatusBadRequest {
				err = idempotency.Refuse(answer)
			}
			return answer, err
		})
		x.conclude(res, err)
	})
}

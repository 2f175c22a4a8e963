package idempotencytest

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
)

// offerCases hold every store to what its Features say of operators.
var offerCases = []claim{
	{"a store offers itself to operators, or says why not", func(w *world) {
		_, ok := w.store.(idempotency.OperatorStore)
		switch {
		case !ok && w.f.NoOperator == "":
			w.Errorf("it is no idempotency.OperatorStore, and Features.NoOperator has no reason")
		case ok && w.f.NoOperator != "":
			w.Errorf("it is an idempotency.OperatorStore, and Features.NoOperator says %q", w.f.NoOperator)
		case !ok:
			w.Logf("not for operators: %s", w.f.NoOperator)
		}
	}},
}

// operators is the store as operators have it.
func (w *world) operators() idempotency.OperatorStore {
	w.Helper()
	op, ok := w.store.(idempotency.OperatorStore)
	if !ok {
		w.Fatalf("the store is no idempotency.OperatorStore")
	}
	return op
}

// listed is what List gives for a filter, and fails the case when that is more than its limit.
func (w *world) listed(f idempotency.Filter) []idempotency.Record {
	w.Helper()
	all, err := w.operators().List(w.ctx, f)
	if err != nil {
		w.Fatalf("List: %v", err)
	}
	if len(all) > f.Limit {
		w.Fatalf("List gave %d records with a limit of %d", len(all), f.Limit)
	}
	return all
}

// paged is what List gives for a filter page by page, up to the first record that is not of this case.
func (w *world) paged(f idempotency.Filter) (all []idempotency.Record) {
	w.Helper()
	f.AfterScope = w.scope
	const pagesMax = 1000
	for range pagesMax {
		page := w.listed(f)
		for _, rec := range page {
			if !strings.HasPrefix(rec.Request.Scope, w.scope) {
				return all
			}
			all = append(all, rec)
		}
		if len(page) < f.Limit {
			return all
		}
		last := page[len(page)-1].Request
		f.AfterScope, f.AfterKey = last.Scope, last.Key
	}
	w.Fatalf("List has no end: it gave %d records", len(all))
	return nil
}

// lists fails the case unless List gives these records, in the order of scope and key, page by page.
func (w *world) lists(f idempotency.Filter, want []idempotency.Record) {
	w.Helper()
	want = slices.Clone(want)
	slices.SortFunc(want, func(a, b idempotency.Record) int {
		return cmp.Or(cmp.Compare(a.Request.Scope, b.Request.Scope), cmp.Compare(a.Request.Key, b.Request.Key))
	})
	for _, f.Limit = range []int{1, 2, 3, 1000} {
		got := w.paged(f)
		for i := range max(len(got), len(want)) {
			switch {
			case i >= len(got):
				w.Errorf("%+v: %d records, want %d; the next were scope %q, key %q", f, len(got), len(want), want[i].Request.Scope, want[i].Request.Key)
				return
			case i >= len(want):
				w.Errorf("%+v: %d records, want %d; the next is %v", f, len(got), len(want), show(got[i]))
				return
			}
			if problem := cmp.Or(different(got[i], want[i]), differentSteps(got[i].Steps, want[i].Steps)); problem != "" {
				w.Errorf("%+v: record %d: %s", f, i, problem)
				return
			}
		}
	}
}

// zoo leaves one record in each state, by name, all of at least shortAge; for each it says whether an operator
// may decide it.
func (w *world) zoo() (recs map[string]idempotency.Record, unresolved map[string]bool) {
	w.Helper()
	recs = map[string]idempotency.Record{"tombstone": w.buried()} // before there is another that would be
	for _, name := range []string{"live", "live and resumable", "expired", "expired and resumable", "let go", "done", "unknown", "free"} {
		a := attempt(w.request())
		a.Resume = strings.Contains(name, "resumable") || name == "let go"
		if strings.HasPrefix(name, "expired") {
			a.Lease = shortLease
		}
		rec := w.save(w.win(a), finished("step of "+name, `"1"`))
		switch name {
		case "let go":
			w.letGo(rec)
		case "done":
			w.done(rec, "the answer")
			rec = ended(rec, idempotency.Done, "the answer")
		case "unknown":
			w.complete(rec, idempotency.Unknown, idempotency.Response{})
			rec = ended(rec, idempotency.Unknown, "")
		case "free":
			w.complete(rec, idempotency.Free, idempotency.Response{})
			rec = ended(rec, idempotency.Free, "")
		}
		recs[name] = rec
	}
	w.pass(shortAge) // longer than the short leases, too
	return recs, map[string]bool{"expired": true, "expired and resumable": true, "let go": true, "unknown": true}
}

func values(recs map[string]idempotency.Record, is func(name string) bool) (some []idempotency.Record) {
	for name, rec := range recs {
		if is(name) {
			some = append(some, rec)
		}
	}
	return some
}

var listCases = []claim{
	{"records are listed page by page in the order of scope and key, byte by byte", func(w *world) {
		var want []idempotency.Record
		for _, scope := range []string{"/b", "/a", "/A", "/ä", "/a/", "/a b", "/Z", "/_", "/1"} {
			for _, key := range []string{"b", "a", "B", "_", "10", "9", "a b", "ab", " a", "~", "A"} {
				a := attempt(w.request())
				a.Request.Scope, a.Request.Key = a.Request.Scope+scope, key
				want = append(want, w.win(a))
			}
		}
		w.lists(idempotency.Filter{}, want)
		mid := w.scope + "/a"
		inMid := slices.DeleteFunc(slices.Clone(want), func(r idempotency.Record) bool { return r.Request.Scope != mid })
		w.lists(idempotency.Filter{Scope: mid}, inMid)
		if all := w.listed(idempotency.Filter{Scope: mid, AfterScope: mid, AfterKey: "a", Limit: 1000}); len(all) != 4 {
			w.Errorf("behind %q are %d keys, want 4", "a", len(all)) // "a b", "ab", "b", "~"
		}
		if all := w.listed(idempotency.Filter{Scope: w.scope + "/no", Limit: 1000}); len(all) != 0 {
			w.Errorf("a scope without keys has %d", len(all))
		}
	}},
	{"records of every state are listed whole, and those that are unresolved by themselves", func(w *world) {
		recs, unresolved := w.zoo()
		every := func(string) bool { return true }
		open := func(name string) bool { return unresolved[name] }
		all := idempotency.Filter{Scope: w.scope}
		w.lists(all, values(recs, every))
		all.Unresolved = true
		w.lists(all, values(recs, open))
		w.lists(idempotency.Filter{Unresolved: true}, values(recs, open))
		for name, rec := range recs {
			for _, got := range w.listed(idempotency.Filter{Scope: w.scope, Limit: 1000}) {
				if got.Request.Key != rec.Request.Key {
					continue
				}
				if got.Expired() != (unresolved[name] && name != "unknown") {
					w.Errorf("%s: it is listed with %v left", name, got.ExpiresIn)
				}
				if got.Age < shortAge || got.Age >= longLease {
					w.Errorf("%s: it is listed with age %v", name, got.Age)
				}
			}
		}
	}},
	{"records are listed by the time since their first claim", func(w *world) {
		let := w.win(resumable(w.request()))
		w.letGo(let)
		unknown := w.win(attempt(w.request()))
		w.complete(unknown, idempotency.Unknown, idempotency.Response{})
		w.pass(shortAge)
		old := []idempotency.Record{w.win(resumable(let.Request)), ended(unknown, idempotency.Unknown, "")}
		w.lists(idempotency.Filter{Scope: w.scope, OlderThan: shortAge, Unresolved: true}, old[1:])
		if w.f.Advance == nil {
			w.lists(idempotency.Filter{Scope: w.scope, OlderThan: longLease}, nil)
			return
		}
		w.lists(idempotency.Filter{Scope: w.scope, OlderThan: shortAge}, old)
		w.lists(idempotency.Filter{Scope: w.scope, OlderThan: shortAge + time.Microsecond}, nil)
		young := w.win(attempt(w.request()))
		w.lists(idempotency.Filter{Scope: w.scope, OlderThan: shortAge}, old)
		w.lists(idempotency.Filter{Scope: w.scope}, append(old, young))
	}},
	{"an operator sees a claim that nobody may take over as unknown", func(w *world) {
		recs, _ := w.zoo()
		all, err := idempotency.NewOperator(w.operators()).List(w.ctx, idempotency.Filter{Scope: w.scope, Unresolved: true})
		if err != nil {
			w.Fatalf("List: %v", err)
		}
		want := map[string]idempotency.State{
			recs["expired"].Request.Key:               idempotency.Unknown,
			recs["unknown"].Request.Key:               idempotency.Unknown,
			recs["expired and resumable"].Request.Key: idempotency.InFlight,
			recs["let go"].Request.Key:                idempotency.InFlight,
		}
		if len(all) != len(want) {
			w.Errorf("%d are listed, want %d", len(all), len(want))
		}
		for _, rec := range all {
			if rec.State != want[rec.Request.Key] {
				w.Errorf("it is listed as %v", show(rec))
			}
		}
	}},
	{"a list that was called off is none", func(w *world) {
		ctx, cancel := contextThatEnded(w.ctx)
		defer cancel()
		if all, err := w.operators().List(ctx, idempotency.Filter{Limit: 1}); err == nil {
			w.Errorf("List under an ended context gave %d records", len(all))
		}
		if _, err := w.operators().Audit(ctx, w.scope, "key"); err == nil {
			w.Errorf("Audit under an ended context succeeded")
		}
		if all, err := w.operators().Audit(w.ctx, w.scope, "nobody"); err != nil && !errors.Is(err, idempotency.ErrNotFound) || len(all) != 0 {
			w.Errorf("a key that nobody claimed has %d decisions, %v", len(all), err)
		}
	}},
}

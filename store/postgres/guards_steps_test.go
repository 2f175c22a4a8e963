package postgres_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency"
)

// settled puts the row as put does, and a step with each of the three. The row itself is as old as can be, its
// neighbours are new.
func (s *scene) settled(state idempotency.State) error {
	if err := s.put(state, "1 hour"); err != nil {
		return err
	}
	return errors.Join(
		s.pool(`insert into fifty.steps (scope, key, name, sent) select scope, key, 'charge', true from fifty.keys where starts_with(scope, $1)`, s.row.scope),
		s.pool(`update fifty.keys set body = 'an answer' where starts_with(scope, $1)`, s.row.scope),
		s.pool(`update fifty.keys set created = created - interval '90 days', changed = changed - interval '90 days', expires = expires - interval '90 days',
			buried = case state when 5 then changed - interval '90 days' end where scope = $1 and key = 'k'`, s.row.scope),
		// A tombstone has none: they went with the answer.
		s.pool(`delete from fifty.steps s using fifty.keys k where k.state = 5 and s.scope = k.scope and s.key = k.key and k.scope = $1 and k.key = 'k'`, s.row.scope),
	)
}

// same says whether the neighbours are as settled put them.
func (s *scene) same() error {
	if err := s.neighbours(); err != nil {
		return err
	}
	for _, id := range [][2]string{{s.row.scope, "neighbour"}, {s.row.scope + " neighbour", "k"}} {
		rec, err := s.holder.Keys().Find(s.ctx, id[0], id[1])
		if err != nil {
			return err
		}
		if stepNames(rec) != "charge" || (rec.State == idempotency.Done && string(rec.Response.Body) != "an answer") {
			return fmt.Errorf("the neighbour %q is %+v", id, rec)
		}
	}
	return nil
}

// is finds the row in a state with so many steps; the state 0 is a row that is gone.
func (s *scene) is(state idempotency.State, steps int) error {
	rec, err := s.holder.Keys().Find(s.ctx, s.row.scope, "k")
	if err != nil && !errors.Is(err, idempotency.ErrNotFound) {
		return err
	}
	if rec.State != state {
		return fmt.Errorf("the record is %+v, want it %v", rec, state)
	}
	n, err := s.count(`select count(*) from fifty.steps where scope = $1 and key = 'k'`, s.row.scope)
	if err == nil && n != steps {
		err = fmt.Errorf("it has %d steps, want %d", n, steps)
	}
	return err
}

// saves is a holderCall.
func (s *scene) saves(c idempotency.Claim, want bool) error {
	err := s.store.Keys().SaveStep(s.ctx, c, idempotency.StepRecord{Name: "charge", Sent: true})
	if err := wantLost(err, want); err != nil {
		return err
	}
	n, err := s.count(`select count(*) from fifty.steps where starts_with(scope, $1)`, s.row.scope)
	if err == nil && (n == 0) != want {
		err = fmt.Errorf("%d steps", n)
	}
	if err == nil && n > 1 {
		err = errors.New("the neighbours have a step")
	}
	return err
}

// savesAgain writes a step over itself.
func savesAgain(s *scene) error {
	if err := s.put(idempotency.InFlight, "1 hour"); err != nil {
		return err
	}
	c := idempotency.Claim{Scope: s.row.scope, Key: "k", Token: s.row.token, Attempt: theirs}
	for _, step := range []idempotency.StepRecord{{Name: "charge"}, {Name: "other"}, {Name: "charge", Sent: true, Result: []byte("1")}, {Name: "charge"}} {
		if err := s.store.Keys().SaveStep(s.ctx, c, step); err != nil {
			return err
		}
	}
	rec, err := s.store.Keys().Find(s.ctx, s.row.scope, "k")
	if err != nil || stepNames(rec) != "charge other" || !rec.Steps[0].Sent || string(rec.Steps[0].Result) != "1" {
		return fmt.Errorf("%+v, %v", rec, err)
	}
	return nil
}

// refuses has an attempt ask for a new key that was made so long ago.
func refuses(by ask, ago time.Duration, want error) func(*scene) error {
	return func(s *scene) error {
		a := timed(rand.Text(), ago)
		got, err := by(s, a)
		if err != nil || got.Won || !errors.Is(got.Err, want) {
			return fmt.Errorf("%+v, %v; want %v", got, err, want)
		}
		return nil
	}
}

func windowGuards(statement string, by ask) []guard {
	return []guard{
		{
			name: statement + " of a key that is not too old", check: refuses(by, 40*day, idempotency.ErrExpired),
			changes: []change{{statement, "$9::timestamptz > clock_timestamp() - $10::bigint * interval '1 microsecond'", "$10::bigint > 0"}},
		},
		{
			name: statement + " of a key that is not ahead", check: refuses(by, -time.Hour, fifty.ErrInvalid),
			changes: []change{{statement, "and $9::timestamptz <= clock_timestamp() + interval '300000000 microseconds'", ""}},
		},
	}
}

// findsNoAnswer reads the answer of a key that has none; its neighbours have one.
func findsNoAnswer(set string) func(*scene) error {
	return func(s *scene) error {
		if err := errors.Join(s.settled(idempotency.Done), s.pool(set, s.row.scope)); err != nil {
			return err
		}
		if rec, err := s.store.Keys().FindAnswer(s.ctx, s.row.scope, "k"); !errors.Is(err, idempotency.ErrNotFound) {
			return fmt.Errorf("%+v, %v; want ErrNotFound", rec, err)
		}
		return nil
	}
}

// takesANewKey has InTx work on a key that has no record; its neighbours have an answer.
func takesANewKey(s *scene) error {
	if err := errors.Join(s.settled(idempotency.Done), s.pool(noRow, s.row.scope)); err != nil {
		return err
	}
	a := attempt("k")
	a.Request, a.Seen = s.request(), true // so that it looks first
	if got, err := byInTx(s, a); err != nil || !got.Won {
		return fmt.Errorf("%+v, %v", got, err)
	}
	return s.same()
}

const (
	noRow    = `delete from fifty.keys where scope = $1 and key = 'k'`
	noAnswer = `update fifty.keys set state = 3 where scope = $1 and key = 'k'`
)

func answerGuards() []guard {
	drop := func(statement, name, old, replacement string, check func(*scene) error) guard {
		return guard{name: statement + " " + name, changes: []change{{statement, old, replacement}}, check: check}
	}
	return []guard{
		drop("find.answer", "of its scope", "scope = $1::text and", "$1::text <> '' and", findsNoAnswer(noRow)),
		drop("find.answer", "of its key", "and key = $2::text", "and $2::text <> ''", findsNoAnswer(noRow)),
		drop("find.answer", "of what is done", "and state = 2", "", findsNoAnswer(noAnswer)),
		drop("intx.look", "of its scope", "scope = $1::text and", "$1::text <> '' and", takesANewKey),
		drop("intx.look", "of its key", "and key = $2::text", "and $2::text <> ''", takesANewKey),
	}
}

func stepGuards() []guard {
	const inFlight = "and state = 1"
	letGo := func(s *scene) error {
		if err := s.put(idempotency.InFlight, "1 hour"); err != nil {
			return err
		}
		c := idempotency.Claim{Scope: s.row.scope, Key: "k", Token: s.row.token, Attempt: theirs}
		for range 2 {
			all, err := s.store.Keys().Complete(s.ctx, []idempotency.Completion{{Claim: c, State: idempotency.InFlight}})
			if err != nil || all[0] != nil {
				return fmt.Errorf("%v, %v", all, err)
			}
		}
		if rec, err := s.store.Keys().Find(s.ctx, s.row.scope, "k"); err != nil || !rec.Expired() {
			return fmt.Errorf("%+v, %v", rec, err)
		}
		return s.neighbours()
	}
	return []guard{
		{name: "step.save by an owner in flight", changes: []change{{"step.save", inFlight, ""}}, check: held((*scene).saves, idempotency.Unknown, "1 hour", true, nil)},
		{name: "step.save by an owner that has expired", changes: []change{{"step.save", inFlight, "and state = 1 and expires > clock_timestamp()"}}, check: held((*scene).saves, idempotency.InFlight, "-1 second", false, nil)},
		{name: "step.save what was sent", changes: []change{{"step.save", "set sent = excluded.sent or steps.result is not null, result", "set result"}}, check: savesAgain},
		{name: "step.save its result", changes: []change{{"step.save", ", result = coalesce(excluded.result, steps.result)", ""}}, check: savesAgain},
		{name: "step.save of a step that is finished", changes: []change{{"step.save", "coalesce(excluded.result, steps.result)", "excluded.result"}}, check: savesAgain},
		{name: "step.save of a step that was sent and is finished", changes: []change{{"step.save", " or steps.result is not null", ""}}, check: savesAgain},
		{name: "find steps in their order", changes: []change{{"find", "order by s.position", "order by s.position desc"}}, check: savesAgain},
		{name: "find steps of the scope", changes: []change{{"find", "s.scope = k.scope and ", ""}}, check: sweeps(idempotency.InFlight, idempotency.InFlight, 1)},
		{name: "find steps of the key", changes: []change{{"find", " and s.key = k.key", ""}}, check: sweeps(idempotency.InFlight, idempotency.InFlight, 1)},
		{name: "complete lets go", changes: []change{{"complete", "case $5::smallint when 1", "case 0 when 1"}}, check: letGo},
	}
}

// decides has an operator decide a row, and finds what became of it and of its neighbours.
func decides(state idempotency.State, expires string, answer bool, token int64, want error) func(*scene) error {
	return func(s *scene) error {
		if err := s.settled(state); err != nil {
			return err
		}
		if err := s.pool(`update fifty.keys set expires = clock_timestamp() + $2::text::interval where scope = $1`, s.row.scope, expires); err != nil {
			return err
		}
		r := idempotency.Resolution{Scope: s.row.scope, Key: "k", Token: token, By: "ana", Note: "why"}
		to, steps := idempotency.Free, 0
		if answer {
			response := created("by hand")
			r.Response, to, steps = &response, idempotency.Done, 1
		}
		if err := s.store.Keys().Resolve(s.ctx, r); !errors.Is(err, want) {
			return fmt.Errorf("got %v, want %v", err, want)
		}
		log, err := s.holder.Keys().Audit(s.ctx, s.row.scope, "k")
		if err != nil || (len(log) == 1) != (want == nil) {
			return fmt.Errorf("audit %+v, %v", log, err)
		}
		if want != nil {
			to, steps = state, 1
		} else if log[0].From != state || log[0].To != to || log[0].Token != s.row.token+1 {
			return fmt.Errorf("audit %+v", log)
		}
		if err := s.is(to, steps); err != nil {
			return err
		}
		if n, err := s.count(`select count(*) from fifty.keys where scope = $1 and key = 'k' and attempt = $2`, s.row.scope, theirs); err != nil || (n == 1) != (want != nil) {
			return fmt.Errorf("the attempt is there %d times, %v", n, err)
		}
		return s.same()
	}
}

func resolveGuards() []guard {
	const hour, over = "1 hour", "-1 second"
	unknown := decides(idempotency.Unknown, hour, false, 0, nil)
	drop := func(name, old, replacement string, check func(*scene) error) guard {
		return guard{name: "resolve " + name, changes: []change{{"resolve", old, replacement}}, check: check}
	}
	return []guard{
		drop("of its scope", "k.scope = $1::text and", "$1::text <> '' and", unknown),
		drop("of its key", "and k.key = $2::text", "and $2::text <> ''", unknown),
		drop("with its token", "and $3::bigint in (0, k.token)", "and $3::bigint >= 0", decides(idempotency.Unknown, hour, false, 6, idempotency.ErrDecided)),
		drop("of any token", "in (0, k.token)", "= k.token", unknown),
		drop("of what is unknown", "k.state = 3 or ", "", unknown),
		drop("of what is in flight", "k.state = 1 and k.expires", "k.expires", decides(idempotency.Done, over, false, 0, idempotency.ErrDecided)),
		drop("of what has expired", " and k.expires <= clock_timestamp()", "", decides(idempotency.InFlight, hour, false, 0, idempotency.ErrDecided)),
		drop("of one scope", "where k.scope = open.scope and", "where", decides(idempotency.InFlight, over, true, 7, nil)),
		drop("of one key", "and k.key = open.key", "", decides(idempotency.InFlight, over, true, 7, nil)),
		drop("counts the token up", "token = k.token + 1", "token = k.token", unknown),
		drop("takes the attempt away", ", attempt = ''", "", unknown),
		drop("forgets the steps of a freed key only", "d.after = 4 and ", "", decides(idempotency.InFlight, over, true, 7, nil)),
		drop("forgets the steps of its scope", "s.scope = d.scope and ", "", unknown),
		drop("forgets the steps of its key", " and s.key = d.key", "", unknown),
	}
}

// lists has an operator list with a filter that only the row passes.
func lists(state idempotency.State, expires string, filter func(s *scene) idempotency.Filter) func(*scene) error {
	return func(s *scene) error {
		if err := s.settled(state); err != nil {
			return err
		}
		err := s.pool(`update fifty.keys set expires = clock_timestamp() + $2::text::interval where scope = $1 and key = 'k'`, s.row.scope, expires)
		if err != nil {
			return err
		}
		f := filter(s)
		f.Limit = 2
		all, err := s.store.Keys().List(s.ctx, f)
		if err != nil || len(all) != 1 || all[0].Request.Scope != s.row.scope || all[0].Request.Key != "k" {
			return fmt.Errorf("%+v, %v", all, err)
		}
		return nil
	}
}

func listGuards() []guard {
	drop := func(name, old, replacement string, check func(*scene) error) guard {
		return guard{name: "list " + name, changes: []change{{"list", old, replacement}}, check: check}
	}
	only := func(change func(f *idempotency.Filter)) func(s *scene) idempotency.Filter {
		return func(s *scene) idempotency.Filter {
			f := idempotency.Filter{Scope: s.row.scope, OlderThan: day}
			change(&f)
			return f
		}
	}
	unresolved := only(func(f *idempotency.Filter) { f.Unresolved, f.OlderThan = true, 0 })
	future := func(s *scene) error { // as after the server's clock was set back
		if err := s.settled(idempotency.Done); err != nil {
			return err
		}
		err := s.pool(`update fifty.keys set created = clock_timestamp() + interval '1 hour' where scope = $1 and key = 'k'`, s.row.scope)
		if err != nil {
			return err
		}
		all, err := s.store.Keys().List(s.ctx, idempotency.Filter{Scope: s.row.scope, Limit: 10})
		if err != nil || len(all) != 2 {
			return fmt.Errorf("%d records, %v", len(all), err)
		}
		return nil
	}
	ofScope := func(s *scene) error {
		if err := s.settled(idempotency.Done); err != nil {
			return err
		}
		all, err := s.store.Keys().List(s.ctx, idempotency.Filter{Scope: s.row.scope, Limit: 10})
		if err != nil || len(all) != 2 {
			return fmt.Errorf("%d records, %v", len(all), err)
		}
		return nil
	}
	return []guard{
		drop("of its scope", "and ($3::text = '' or k.scope = $3::text)", "and $3::text <> ''", ofScope),
		drop("what is unresolved", "and (not $4::boolean or (k.state = 3 or k.state = 1 and k.expires <= clock_timestamp()))", "and $4::boolean is not null", lists(idempotency.InFlight, "-1 hour", unresolved)),
		drop("what is old", "($5::bigint = 0 or k.created <= clock_timestamp() - $5::bigint * interval '1 microsecond')", "$5::bigint >= 0", lists(idempotency.Done, "1 hour", only(func(*idempotency.Filter) {}))),
		drop("what is of the future", "$5::bigint = 0 or ", "", future),
		drop("from the page before", "(k.scope, k.key) > ($1::text, $2::text)", "$1::text <> $2::text", pages),
		drop("only a page", "limit $6::bigint", "limit $6::bigint + 1", pages),
		{name: "audit of its scope", changes: []change{{"audit", "scope = $1::text and", "$1::text <> '' and"}}, check: audits},
		{name: "audit of its key", changes: []change{{"audit", "and key = $2::text", "and $2::text <> ''"}}, check: audits},
		{name: "audit in its order", changes: []change{{"audit", "order by id", "order by id desc"}}, check: audits},
	}
}

// pages has an operator list one by one.
func pages(s *scene) error {
	if err := s.settled(idempotency.Done); err != nil {
		return err
	}
	f := idempotency.Filter{Scope: s.row.scope, Limit: 1}
	for _, want := range []string{"k", "neighbour"} {
		all, err := s.store.Keys().List(s.ctx, f)
		if err != nil || len(all) != 1 || all[0].Request.Key != want {
			return fmt.Errorf("%+v, %v; want %q", all, err, want)
		}
		f.AfterScope, f.AfterKey = s.row.scope, want
	}
	return nil
}

// audits has an operator decide two keys, one of them twice, and reads what is written of each.
func audits(s *scene) error {
	if err := s.settled(idempotency.Unknown); err != nil {
		return err
	}
	for _, d := range []struct{ scope, key, note string }{
		{s.row.scope, "k", "first"}, {s.row.scope, "neighbour", "x"}, {s.row.scope + " neighbour", "k", "y"}, {s.row.scope, "k", "second"},
	} {
		if err := s.pool(`update fifty.keys set state = 3 where scope = $1 and key = $2`, d.scope, d.key); err != nil {
			return err
		}
		err := s.store.Keys().Resolve(s.ctx, idempotency.Resolution{Scope: d.scope, Key: d.key, By: "ana", Note: d.note})
		if err != nil {
			return err
		}
	}
	log, err := s.store.Keys().Audit(s.ctx, s.row.scope, "k")
	if err != nil || len(log) != 2 || log[0].Note != "first" || log[1].Note != "second" || time.Since(log[0].At) > time.Hour {
		return fmt.Errorf("%+v, %v", log, err)
	}
	return nil
}

package sqlite_test

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/store/sqlite"
)

func TestSQLiteKeysAreComparedByteForByte(t *testing.T) {
	s := open(t, newFile(t), sqlite.Config{})
	for _, id := range []struct{ scope, key string }{
		{"acme", "k"},
		{"acme", "K"},
		{"acme", "k "},
		{"acme", " k"},
		{"Acme", "k"},
		{"acme ", "k"},
		{"acmé", "k"},          // é in one code point
		{"acme\u0301", "k"},    // and in two
		{"acme", "1"},          // a number is no number here
		{"acme", "01"},         //
		{"acme", "1.0"},        //
		{"acme", "%"},          // and there are no patterns
		{"acme", "_"},          //
		{"acme", "'; --"},      //
		{"acme", `"a\u0000b"`}, //
		{"ac", "mek"},          // where one ends and the other begins counts
		{"acmek", "k"},         //
	} {
		a := attempt("a1", id.key)
		a.Request.Scope = id.scope
		if got := claim(t, s, a); !got.Won || got.Record.Token != 1 {
			t.Errorf("%q %q: taken for another key: %+v", id.scope, id.key, got.Record)
		}
		rec, err := s.Keys().Find(t.Context(), id.scope, id.key)
		if err != nil || rec.Request != a.Request {
			t.Errorf("%q %q: found %+v, %v", id.scope, id.key, rec.Request, err)
		}
	}
}

func TestSQLiteAnswersComeBackAsTheyWere(t *testing.T) {
	path := newFile(t)
	s := open(t, path, sqlite.Config{})
	for name, r := range map[string]idempotency.Response{
		"empty":   {},
		"cookies": {Status: 201, Header: map[string][]string{"Set-Cookie": {"b=2; Expires=Wed, 09 Jun 2027 10:18:14 GMT", "a=1", "b=2"}, "Location": {"/charges/1"}}},
		"binary":  {Status: 200, Body: []byte{0, 1, 0xff, 0xfe, '\n', 0}},
		"not utf-8": {Status: 299, Header: map[string][]string{
			"X-Name": {"caf\xe9", "", "ok"}, "X-\xff": {"<&>"}, "X-None": nil,
		}},
		"odd":      {Status: -7, Header: map[string][]string{"": {""}, "x": {"\u2028", "[", "{\"a\":1}"}, "X": {}}},
		"none":     {Status: 204, Header: map[string][]string{}},
		"not kept": {Status: 200, NotReplayable: true},
		"large":    {Status: 200, Body: slices.Repeat([]byte("0123456789abcdef"), 1<<16)},
	} {
		c := win(t, s, attempt("a1", name))
		if err := complete(t, s, c, idempotency.Done, r); err != nil {
			t.Fatal(err)
		}
		// Both a look at the same file by another, and a claim.
		other := open(t, path, sqlite.Config{})
		for _, rec := range []idempotency.Record{find(t, other, name), claim(t, other, attempt("a2", name)).Record} {
			got := rec.Response
			if got.Status != r.Status || got.NotReplayable != r.NotReplayable || !slices.Equal(got.Body, r.Body) {
				t.Errorf("%s: got %d, %d bytes, %v", name, got.Status, len(got.Body), got.NotReplayable)
			}
			if !maps.EqualFunc(got.Header, r.Header, slices.Equal[[]string]) {
				t.Errorf("%s: got header %q, want %q", name, got.Header, r.Header)
			}
			if rec.State != idempotency.Done || rec.ExpiresIn != 0 {
				t.Errorf("%s: got %v, %v", name, rec.State, rec.ExpiresIn)
			}
		}
	}
}

func TestSQLiteAnAttemptWhoseReplyWasLostAsksAgainAndHasItsClaim(t *testing.T) {
	s := open(t, newFile(t), sqlite.Config{})
	first := win(t, s, attempt("a1", "k"))
	if again := win(t, s, attempt("a1", "k")); again != first {
		t.Fatalf("asking again gave %+v, the first claim was %+v", again, first)
	}
	if got := claim(t, s, attempt("a2", "k")); got.Won || got.Record.State != idempotency.InFlight {
		t.Fatalf("another attempt got %+v", got)
	}
}

func TestSQLiteABatchIsDecidedInOrderInOneTransaction(t *testing.T) {
	s := open(t, newFile(t), sqlite.Config{})
	done := win(t, s, attempt("a0", "done"))
	if err := complete(t, s, done, idempotency.Done, idempotency.Response{Status: 201}); err != nil {
		t.Fatal(err)
	}
	answers, err := s.Keys().Claim(t.Context(), []idempotency.Attempt{
		attempt("a1", "twice"), attempt("a2", "twice"), attempt("a3", "done"), attempt("a4", "fresh"), attempt("a1", "twice"),
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		won     bool
		state   idempotency.State
		attempt string
	}{
		{true, idempotency.InFlight, "a1"},
		{false, idempotency.InFlight, "a1"},
		{false, idempotency.Done, "a0"},
		{true, idempotency.InFlight, "a4"},
		{true, idempotency.InFlight, "a1"},
	} {
		got := answers[i]
		if got.Won != want.won || got.Record.State != want.state || got.Record.Attempt != want.attempt {
			t.Errorf("answer %d is %+v, want %+v", i, got, want)
		}
	}
	empty, err := s.Keys().Claim(t.Context(), nil)
	if err != nil || len(empty) != 0 {
		t.Errorf("no attempts got %v, %v", empty, err)
	}
}

func TestSQLiteAnExpiredClaimIsNotRenewedYetItsLateResultCounts(t *testing.T) {
	clock := newHostClock()
	s := open(t, newFile(t), sqlite.Config{Now: clock.Now})
	c := win(t, s, attempt("a1", "k"))
	clock.Add(30 * time.Second)
	lost, ok := errors.AsType[*idempotency.LostError](renew(t, s, c))
	if !ok || lost.Superseded {
		t.Fatalf("renewal of an expired claim got %v", lost)
	}
	if rec := find(t, s, "k"); !rec.Expired() || rec.ExpiresIn != 0 {
		t.Fatalf("at its expiry the claim reads as %v, %v left", rec.State, rec.ExpiresIn)
	}
	if err := complete(t, s, c, idempotency.Done, idempotency.Response{Status: 201}); err != nil {
		t.Fatalf("a late result that nobody superseded: %v", err)
	}
}

func TestSQLiteAnOwnerWhoseKeyWasTakenOverCanDoNothingMore(t *testing.T) {
	clock := newHostClock()
	s := open(t, newFile(t), sqlite.Config{Now: clock.Now})
	old := win(t, s, steps("a1", "k"))
	clock.Add(31 * time.Second)
	next := win(t, s, steps("a2", "k"))
	if next.Token != old.Token+1 {
		t.Fatalf("the takeover's token is %d after %d", next.Token, old.Token)
	}
	for what, err := range map[string]error{
		"renew":    renew(t, s, old),
		"complete": complete(t, s, old, idempotency.Done, idempotency.Response{Status: 500}),
		"free":     complete(t, s, old, idempotency.Free, idempotency.Response{}),
		"let go":   complete(t, s, old, idempotency.InFlight, idempotency.Response{}),
		"save":     s.Keys().SaveStep(t.Context(), old, saved("charge", "1")),
	} {
		if lost, ok := errors.AsType[*idempotency.LostError](err); !ok || !lost.Superseded {
			t.Errorf("%s by the old owner: %v", what, err)
		}
	}
	if rec := find(t, s, "k"); rec.Attempt != "a2" || rec.State != idempotency.InFlight {
		t.Fatalf("the old owner changed the record to %+v", rec)
	}
}

func TestSQLiteAClaimOverAFreedKeyForgetsAllOfTheLastOne(t *testing.T) {
	s := open(t, newFile(t), sqlite.Config{})
	c := win(t, s, attempt("a1", "k"))
	left := idempotency.Response{Status: 7, Header: map[string][]string{"A": {"b"}}, Body: []byte("c"), NotReplayable: true}
	if err := complete(t, s, c, idempotency.Free, left); err != nil {
		t.Fatal(err)
	}
	a := attempt("a2", "k")
	a.Request.Fingerprint = idempotency.FingerprintOf("another body")
	a.Resume = true
	next := win(t, s, a)
	rec := find(t, s, "k")
	if next.Token != 2 || rec.Request != a.Request || !rec.Resume || rec.Attempt != "a2" {
		t.Fatalf("token %d, record %+v", next.Token, rec)
	}
	if r := rec.Response; r.Status != 0 || r.Header != nil || r.Body != nil || r.NotReplayable {
		t.Fatalf("it has an answer already: %+v", r)
	}
}

func TestSQLiteTokensStayAboveThoseOfKeysWhoseRowsAreGone(t *testing.T) {
	s := open(t, newFile(t), sqlite.Config{})
	if _, err := s.DB().ExecContext(t.Context(), `UPDATE fifty_marks SET value = 41 WHERE name = 'keys.token'`); err != nil {
		t.Fatal(err)
	}
	if c := win(t, s, attempt("a1", "k")); c.Token != 42 {
		t.Fatalf("token %d, although 41 may be in somebody's hands", c.Token)
	}
}

func TestSQLiteFindOfAKeyWithoutARecord(t *testing.T) {
	s := open(t, newFile(t), sqlite.Config{})
	if _, err := s.Keys().Find(t.Context(), "acme", "k"); !errors.Is(err, idempotency.ErrNotFound) {
		t.Fatalf("got %v", err)
	}
}

func TestSQLiteASecretIsMadeOncePerName(t *testing.T) {
	path := newFile(t)
	a, b := open(t, path, sqlite.Config{}), open(t, path, sqlite.Config{})
	secret := func(s *sqlite.Store, name string) string {
		got, err := s.Secret(t.Context(), name)
		if err != nil || len(got) != 32 {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
		return string(got)
	}
	one := secret(a, "scope")
	if secret(b, "scope") != one || secret(a, "scope") != one {
		t.Error("two stores on one file have two secrets of one name")
	}
	if secret(b, "other") == one {
		t.Error("two names have one secret")
	}
	if _, err := a.Secret(t.Context(), ""); err == nil {
		t.Error("a secret without a name")
	}
}

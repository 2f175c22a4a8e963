package idempotencytest

import (
	"bytes"
	"strings"

	"github.com/fiftyhosts/fifty/idempotency"
)

// everyByte is a body that no text encoding leaves alone.
func everyByte() []byte {
	b := make([]byte, 0, 4*256)
	for range 2 {
		for i := range 256 {
			b = append(b, byte(i))
		}
	}
	return append(b, "\x00\xff\xfe\x00\r\n\\x00\\\\'\"$1;--"...)
}

// answers is a table of what must come back as it was given.
var answers = []struct {
	name string
	r    idempotency.Response
}{
	{"nothing but a status", idempotency.Response{Status: 204}},
	{"no status", idempotency.Response{}},
	{"a status of the caller's own", idempotency.Response{Status: -7}},
	{"an empty body", idempotency.Response{Status: 200, Body: []byte{}}},
	{"created, with its Location", idempotency.Response{
		Status: 201, Header: map[string][]string{"Location": {"/charges/7?a=b&c=%20"}}, Body: []byte(`{"id":"7"}`),
	}},
	{"several values of one header, commas within", idempotency.Response{
		Status: 200, Header: map[string][]string{
			"Set-Cookie": {"a=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT; Path=/", "b=2, with a comma; HttpOnly"},
			"Vary":       {"Accept, Accept-Encoding", "Origin"},
			"X-Empty":    {""},
			"x-lower":    {"kept as written"},
			"X-Odd":      {"äöü \" ' \\ ; \t 日本", "", "twice", "twice"},
		},
	}},
	{"a body with every byte", idempotency.Response{Status: 200, Body: everyByte()}},
	{"a body of NULs", idempotency.Response{Status: 200, Body: make([]byte, 4096)}},
	{"JSON that must not be written anew", idempotency.Response{
		Status: 200, Body: []byte("{ \"b\":1.0, \"a\":9007199254740993,\n\"a\":\"\\u00e4\" }\n"),
	}},
	{"a body of a MiB", idempotency.Response{Status: 200, Body: bytes.Repeat([]byte("0123456789abcdef"), 1<<16)}},
	{"a header of 16 KiB", idempotency.Response{
		Status: 200, Header: map[string][]string{"X-Long": {strings.Repeat("v", 16<<10)}},
	}},
	{"done, and not kept", idempotency.Response{Status: 201, NotReplayable: true}},
}

var answerCases = []claim{
	{"an answer comes back as it was given", func(w *world) {
		for _, tc := range answers {
			rec := w.win(attempt(w.request()))
			w.complete(rec, idempotency.Done, tc.r)
			if problem := differentAnswer(w.find(rec.Request).Response, tc.r); problem != "" {
				w.Errorf("%s: Find: %s", tc.name, problem)
			}
			if problem := differentAnswer(w.lose(attempt(rec.Request)).Response, tc.r); problem != "" {
				w.Errorf("%s: a duplicate: %s", tc.name, problem)
			}
		}
	}},
	{"an answer is a copy, in and out", func(w *world) {
		rec := w.win(attempt(w.request()))
		given := answerOf("the answer")
		w.complete(rec, idempotency.Done, given)
		spoil(given)
		want := ended(rec, idempotency.Done, "the answer")
		w.is(want)
		spoil(w.find(rec.Request).Response)
		w.is(want)
		spoil(w.lose(attempt(rec.Request)).Response)
		w.is(want)
	}},
	{"an answer lasts beyond the lease of its claim", func(w *world) {
		a := attempt(w.request())
		a.Lease = longLease / 2
		rec := w.win(a)
		w.done(rec, "the answer")
		if w.f.Advance != nil {
			w.f.Advance(longLease)
		}
		// With a real clock the lease is over by way of a late completion.
		late := w.expired(attempt(w.request()))
		w.done(late, "the late answer")
		for _, want := range []idempotency.Record{ended(rec, idempotency.Done, "the answer"), ended(late, idempotency.Done, "the late answer")} {
			for _, next := range []idempotency.Attempt{attempt(want.Request), resumable(want.Request)} {
				if problem := different(w.lose(next), want); problem != "" {
					w.Errorf("a duplicate was told: %s", problem)
				}
			}
		}
	}},
}

// spoil writes over all that r points to.
func spoil(r idempotency.Response) {
	for i := range r.Body {
		r.Body[i] = '#'
	}
	for name, values := range r.Header {
		for i := range values {
			values[i] = "#"
		}
		r.Header[name] = append(values, "#")
	}
}

package idempotencytest

import (
	"testing"

	"github.com/fiftyhosts/fifty/idempotency"
)

func TestARunWithTooFewSchedulesFails(t *testing.T) {
	for _, tc := range []struct {
		ran, min int
		fails    bool
	}{{0, 0, false}, {9, 10, true}, {10, 10, false}, {11, 10, false}} {
		if problem := hooksLost(tc.ran, tc.min); (problem != "") != tc.fails {
			t.Errorf("%d of at least %d schedules: %q", tc.ran, tc.min, problem)
		}
	}
}

func TestNamesOfCasesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	all := append(cases(nil, Features{}), txCases[struct{}](nil)...)
	for _, c := range all {
		if seen[c.name] {
			t.Errorf("two cases are called %q", c.name)
		}
		seen[c.name] = true
	}
}

func TestRecordsThatDifferAreToldApart(t *testing.T) {
	same := idempotency.Record{State: idempotency.Done, Token: 2, Attempt: "a", Response: answerOf("the answer")}
	if problem := different(same, same); problem != "" {
		t.Errorf("a record differs from itself: %s", problem)
	}
	for name, change := range map[string]func(r *idempotency.Record){
		"scope":       func(r *idempotency.Record) { r.Request.Scope = "other" },
		"key":         func(r *idempotency.Record) { r.Request.Key = "other" },
		"fingerprint": func(r *idempotency.Record) { r.Request.Fingerprint = "other" },
		"state":       func(r *idempotency.Record) { r.State = idempotency.Free },
		"token":       func(r *idempotency.Record) { r.Token++ },
		"attempt":     func(r *idempotency.Record) { r.Attempt = "b" },
		"owner":       func(r *idempotency.Record) { r.Owner = "other" },
		"resume":      func(r *idempotency.Record) { r.Resume = true },
		"status":      func(r *idempotency.Record) { r.Response.Status = 200 },
		"body":        func(r *idempotency.Record) { r.Response.Body = []byte("other") },
		"header": func(r *idempotency.Record) {
			r.Response.Header = map[string][]string{"Content-Type": {"text", "plain"}}
		},
		"NotReplayable": func(r *idempotency.Record) { r.Response.NotReplayable = true },
	} {
		other := same
		change(&other)
		if different(other, same) == "" || different(same, other) == "" {
			t.Errorf("a record with another %s passes as the same", name)
		}
	}
}

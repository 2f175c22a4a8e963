package idempotencyhttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency"
)

func TestEachErrorIsToldAsItsProblem(t *testing.T) {
	secret := errors.New("pq: password authentication failed for user fifty")
	for _, c := range []struct {
		err   error
		name  string
		after time.Duration
	}{
		{&idempotency.MismatchError{Scope: "s", Key: "k"}, mismatch, 0},
		{&idempotency.InFlightError{Key: "k", RetryAfter: 3 * time.Second}, inFlight, 3 * time.Second},
		{&idempotency.InFlightError{Key: "k"}, inFlight, time.Second},
		{idempotency.ErrInFlight, inFlight, time.Second},
		{&idempotency.UnresolvedError{}, unresolved, 0},
		{&idempotency.UnresolvedError{Cause: secret}, unresolved, 0},
		{idempotency.ErrNotReplayable, notReplayable, 0},
		{idempotency.ErrExpired, expired, 0},
		{&idempotency.UnavailableError{Cause: secret}, storeUnavailable, time.Second},
		{&idempotency.UnavailableError{Cause: fifty.ErrUnknownOutcome}, storeUnavailable, time.Second}, // of a claim: nothing ran
		{fmt.Errorf("%w: %w", secret, fifty.ErrUnknownOutcome), unknown, time.Second},
		{&idempotency.LostError{Superseded: true}, unknown, time.Second},
		{errors.Join(&idempotency.LostError{Superseded: true}, secret), unknown, time.Second},
		{&idempotency.SealedError{SealedWith: "2025"}, answerSealed, time.Second},
		{idempotency.ErrNotFound, notFound, 0},
		{&fifty.InvalidError{Field: "Request.Key", Problem: "carries a time"}, keyInvalid, 0},
		{&fifty.InvalidError{Field: "Filter", Problem: "password"}, storeUnavailable, time.Second},
		{secret, storeUnavailable, time.Second},
		{context.Canceled, storeUnavailable, time.Second},
		{fmt.Errorf("wrapped: %w", problem(bodyTooLarge)), bodyTooLarge, 0},
	} {
		p := ProblemOf(c.err)
		if p.Name != c.name || p.RetryAfter != c.after || strings.Contains(p.Error(), "password") {
			t.Errorf("%v: %+v", c.err, p)
		}
	}
}

func TestTableOfProblemsIsWhatWasSettled(t *testing.T) {
	settled := map[string]int{
		"key-missing": 400, "key-invalid": 400, "scope-missing": 401, "in-flight": 409, "mismatch": 422, "unresolved": 409,
		"expired": 410, "not-replayable": 409, "body-too-large": 413, "body-incomplete": 400, "store-unavailable": 503,
		"unknown": 503, "answer-too-large": 500, "method-not-allowed": 405,
		"answer-sealed": 503, "not-found": 404,
	}
	for name, p := range problems {
		if settled[name] != p.Status {
			t.Errorf("%s has %d, settled is %d", name, p.Status, settled[name])
		}
		if p.Title == "" || !strings.HasSuffix(p.Detail, ".") {
			t.Errorf("%s does not say what to do: %+v", name, p)
		}
	}
	if len(problems) != len(settled) {
		t.Errorf("%d problems, %d settled", len(problems), len(settled))
	}
}

func TestDocumentHasEachProblemWithItsStatus(t *testing.T) {
	text, err := os.ReadFile("../../docs/problems.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for section := range strings.SplitSeq(string(text), "\n## ") {
		name, rest, _ := strings.Cut(section, "\n")
		sections[name] = rest
	}
	for name, p := range problems {
		section, ok := sections[name]
		if !ok {
			t.Errorf("docs/problems.md has no section %s", name)
			continue
		}
		if !strings.Contains(section, fmt.Sprintf("**%d", p.Status)) {
			t.Errorf("%s: its section does not say %d", name, p.Status)
		}
		for _, says := range []string{"When", "Was anything run", "What to do"} {
			if !strings.Contains(section, "**"+says) {
				t.Errorf("%s: its section does not answer: %s", name, says)
			}
		}
		if !strings.Contains(section, ProblemType+name) || !strings.Contains(section, p.Title) || !strings.Contains(section, p.Detail) {
			t.Errorf("%s: its example is not what is sent:\n%s\n%s", name, p.Title, p.Detail)
		}
	}
	if unknownTypes := regexp.MustCompile("urn:fifty:problem:([a-z-]+)").FindAllStringSubmatch(string(text), -1); len(unknownTypes) < len(problems) {
		t.Errorf("only %d examples", len(unknownTypes))
	}
}

func TestProblemIsWrittenByRFC9457(t *testing.T) {
	w := httptest.NewRecorder()
	w.Header().Set("Content-Encoding", "gzip") // of the answer that was to come
	w.Header().Set("Content-Length", "7")
	WriteProblem(w, &Problem{Name: "in-flight", Status: 409, Title: "t", Detail: `say "hi"`, Key: "k", RetryAfter: 2 * time.Second})
	const want = `{"type":"urn:fifty:problem:in-flight","title":"t","status":409,"detail":"say \"hi\"","key":"k","retry_after":2}` + "\n"
	if w.Code != 409 || w.Body.String() != want {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	for name, want := range map[string]string{
		"Content-Type": "application/problem+json", "Content-Encoding": "", "Content-Length": fmt.Sprint(len(want)),
		"Retry-After": "2", "Cache-Control": "no-store",
	} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestDefaultKeepCoversEveryStatus(t *testing.T) {
	for status := 200; status < 600; status++ {
		want := Stored
		switch {
		case status >= 500:
			want = Failed
		case status == http.StatusUnauthorized, status == 408, status == 425, status == 429:
			want = Freed
		}
		if got := DefaultKeep(status); got != want {
			t.Errorf("%d: %v, want %v", status, got, want)
		}
	}
}

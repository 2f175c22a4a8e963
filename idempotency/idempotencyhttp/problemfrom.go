package idempotencyhttp

import (
	"encoding/json"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/fiftyhosts/fifty/internal/wall"
	"github.com/fiftyhosts/fifty/retry"
)

// problemMax is the largest body, in bytes, that is read as a problem.
const problemMax = 64 << 10

// ProblemFrom reads the Problem that a client got in place of an answer. It is false when resp is anything
// else: another media type, the problem of another service, a body above 64 KiB or one that breaks off. The
// body can be read afterwards as if it had not been touched, its error included. The status is that of the
// answer, and RetryAfter that of the body or else of the Retry-After header. It is not safe for concurrent
// use with anything that reads the body.
func ProblemFrom(resp *http.Response) (*Problem, bool) {
	if resp == nil || resp.Body == nil || mediaType(resp.Header.Get("Content-Type")) != "application/problem+json" {
		return nil, false
	}
	body := resp.Body
	text, more, err := readUpTo(body, problemMax)
	if err != nil {
		resp.Body = restore(text, broken{err}, body)
		return nil, false
	}
	resp.Body = restore(text, body, body)
	if more {
		return nil, false
	}
	var told problemBody
	if err := json.Unmarshal(text, &told); err != nil {
		return nil, false
	}
	name, ours := strings.CutPrefix(told.Type, ProblemType)
	if !ours || name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return nil, false
	}
	p := &Problem{Name: name, Status: resp.StatusCode, Title: told.Title, Detail: told.Detail, Key: told.Key}
	if told.RetryAfter > 0 {
		p.RetryAfter = time.Duration(min(told.RetryAfter, int64(math.MaxInt64/time.Second))) * time.Second
	} else {
		p.RetryAfter = afterOf(resp.Header)
	}
	return p, true
}

// afterOf is the wait that a Retry-After header asks for, or zero. A date counts from the answer's own Date,
// where there is one, so that it does not matter whether the two clocks agree.
func afterOf(h http.Header) time.Duration {
	now := wall.Now()
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	wait, _ := retry.ParseAfter(h.Get("Retry-After"), now)
	return wait
}

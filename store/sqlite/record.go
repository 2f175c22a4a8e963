package sqlite

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/fiftyhosts/fifty/idempotency"
)

// stored is a row of fifty_keys; its times are those of the file's clock.
type stored struct {
	idempotency.Record
	expires int64
	created int64
}

// record is what the store tells of the row at the time now.
func (r stored) record(now int64) idempotency.Record {
	rec := r.Record
	// The time of a key that was claimed within InTx is not written down, so it may be ahead of now.
	rec.Age = time.Duration(max(now-r.created, 0)) * time.Microsecond
	if rec.State == idempotency.InFlight {
		rec.ExpiresIn = time.Duration(r.expires-now) * time.Microsecond
	}
	return rec
}

// claimedBy is the row that an attempt wins.
func claimedBy(a idempotency.Attempt, token, now int64) stored {
	return stored{idempotency.Record{
		Request: a.Request, State: idempotency.InFlight, Token: token,
		Attempt: a.ID, Owner: a.Owner, Resume: a.Resume,
	}, now + micros(a.Lease), now}
}

// madeMicros is the time in a time-ordered key, or 0 for any other key.
func madeMicros(a idempotency.Attempt) int64 {
	if a.Made.IsZero() {
		return 0
	}
	return a.Made.UnixMicro()
}

// micros rounds up, so that a lease that is positive never becomes none. Time is rounded up too, and so a
// lease of whole microseconds is exact wherever it began.
func micros(d time.Duration) int64 {
	us := int64(d / time.Microsecond)
	if d%time.Microsecond > 0 {
		us++
	}
	return us
}

// scan reads the columns of a row, and what stands behind them into more.
func scan(from row, scope, key string, more ...any) (stored, error) {
	r := stored{Record: idempotency.Record{Request: idempotency.Request{Scope: scope, Key: key}}}
	var print, header, steps []byte
	err := from.Scan(append([]any{
		&print, &r.State, &r.Token, &r.Attempt, &r.Owner, &r.Resume, &r.expires, &r.created,
		&r.Response.Status, &header, &r.Response.Body, &r.Response.NotReplayable, &steps,
	}, more...)...)
	if err != nil {
		return stored{}, err
	}
	r.Request.Fingerprint = idempotency.Fingerprint(print)
	if r.Response.Header, err = decodeHeader(header); err != nil {
		return stored{}, fmt.Errorf("sqlite: the stored header of key %q: %w", key, err)
	}
	if r.Steps, err = decodeSteps(steps); err != nil {
		return stored{}, fmt.Errorf("sqlite: the stored steps of key %q: %w", key, err)
	}
	return r, nil
}

// encodeHeader writes a header as a JSON object of lists, for people to read. JSON has no text that is not
// UTF-8, so a header with such bytes becomes a JSON array instead: for each name a list of base64 texts,
// the name and then its values. A nil header is NULL.
func encodeHeader(h map[string][]string) (any, error) {
	if h == nil {
		return nil, nil
	}
	readable, raw := true, make([][][]byte, 0, len(h))
	for name, values := range h {
		list := [][]byte{[]byte(name)}
		for _, v := range values {
			list = append(list, []byte(v))
		}
		for _, text := range list {
			readable = readable && utf8.Valid(text)
		}
		raw = append(raw, list)
	}
	var text []byte
	var err error
	if readable {
		text, err = json.Marshal(h)
	} else {
		slices.SortFunc(raw, func(a, b [][]byte) int { return slices.Compare(a[0], b[0]) })
		text, err = json.Marshal(raw)
	}
	return string(text), err
}

func decodeHeader(text []byte) (map[string][]string, error) {
	if text == nil {
		return nil, nil
	}
	h := map[string][]string{}
	if text[0] != '[' {
		return h, json.Unmarshal(text, &h)
	}
	var raw [][][]byte
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, err
	}
	for _, list := range raw {
		var values []string
		for _, v := range list[1:] {
			values = append(values, string(v))
		}
		h[string(list[0])] = values
	}
	return h, nil
}

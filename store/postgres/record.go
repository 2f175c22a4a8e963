package postgres

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency"
)

// recordColumns are read by record.scan. They are never null, so that they also stand for a missing row.
// Timestamps have whole microseconds, so what is zero or less here has expired for every statement.
const recordColumns = recordStart + `,
    ` + recordAge + `,
    ` + recordSteps

// askedColumns are recordColumns for one who wants to know whether a key is answered: of a record that is done the age
// and the steps decide nothing, and gathering them is most of the price of a look.
const askedColumns = recordStart + `,
    case k.state when 2 then 0 else ` + recordAge + ` end,
    case k.state when 2 then '' else ` + recordSteps + ` end`

const (
	recordStart = `
    coalesce(k.state, 0)::bigint,
    coalesce(k.token, 0),
    coalesce(k.fingerprint, ''),
    coalesce(k.attempt, ''),
    coalesce(k.owner, ''),
    coalesce(k.resume, false),
    case k.state when 1 then coalesce((extract(epoch from k.expires - clock_timestamp()) * 1000000)::bigint, 0) else 0 end,
    coalesce(k.status, 0)::bigint,
    k.header,
    k.body,
    coalesce(k.not_replayable, false)`

	recordAge = `coalesce((extract(epoch from clock_timestamp() - k.created) * 1000000)::bigint, 0)`

	recordSteps = `coalesce((
        select json_agg(json_build_array(s.name, s.sent, encode(s.result, 'base64')) order by s.position)
        from {schema}.steps s
        where s.scope = k.scope and s.key = k.key
    )::text, '')`
)

// record is a row of keys as recordColumns read it. A row that is not there has state 0.
type record struct {
	state, token   int64
	fingerprint    []byte
	attempt, owner string
	resume         bool
	expiresIn      int64 // microseconds by the server's clock
	status         int64
	header, body   []byte
	notReplayable  bool
	age            int64  // microseconds by the server's clock
	steps          string // JSON, in order: [name, sent, result in base64 or null]; empty for none
}

func (r *record) columns() []any {
	return []any{
		&r.state, &r.token, &r.fingerprint, &r.attempt, &r.owner, &r.resume, &r.expiresIn,
		&r.status, &r.header, &r.body, &r.notReplayable, &r.age, &r.steps,
	}
}

// lookColumns are those of enterLookSQL.
func (r *record) lookColumns() []any {
	return []any{&r.state, &r.token, &r.fingerprint, &r.attempt, &r.owner, &r.resume, &r.status, &r.header, &r.body, &r.notReplayable}
}

func (r *record) found() bool { return r.state != 0 }

func (r *record) isOf(c idempotency.Claim) bool {
	return r.found() && r.token == c.Token && r.attempt == c.Attempt
}

func (r *record) expired() bool { return r.expiresIn <= 0 }

// of makes the record of scope and key.
func (r *record) of(scope, key string) (idempotency.Record, error) {
	rec := idempotency.Record{
		Request: idempotency.Request{Scope: scope, Key: key, Fingerprint: idempotency.Fingerprint(r.fingerprint)},
		State:   idempotency.State(r.state),
		Token:   r.token,
		Attempt: r.attempt,
		Owner:   r.owner,
		Resume:  r.resume,
		Age:     time.Duration(r.age) * time.Microsecond,
	}
	var err error
	if rec.Steps, err = r.stepRecords(); err != nil {
		return idempotency.Record{}, err
	}
	switch rec.State {
	case idempotency.InFlight:
		rec.ExpiresIn = time.Duration(r.expiresIn) * time.Microsecond
	case idempotency.Done:
		header, err := decodeHeader(r.header)
		if err != nil {
			return idempotency.Record{}, err
		}
		rec.Response = idempotency.Response{
			Status: int(r.status), Header: header, Body: r.body, NotReplayable: r.notReplayable,
		}
	}
	return rec, nil
}

func (r *record) stepRecords() ([]idempotency.StepRecord, error) {
	if r.steps == "" {
		return nil, nil
	}
	var stored [][3]json.RawMessage
	if err := json.Unmarshal([]byte(r.steps), &stored); err != nil {
		return nil, fmt.Errorf("postgres: the steps can't be read: %w", err)
	}
	steps := make([]idempotency.StepRecord, len(stored))
	for i, s := range stored {
		into := []any{&steps[i].Name, &steps[i].Sent, &steps[i].Result}
		for j, column := range s {
			if err := json.Unmarshal(column, into[j]); err != nil {
				return nil, fmt.Errorf("postgres: step %d can't be read: %w", i, err)
			}
		}
	}
	return steps, nil
}

// answerArgs are a Response's four columns.
func answerArgs(r idempotency.Response) ([]any, error) {
	if err := checkStatus(r); err != nil {
		return nil, err
	}
	header, err := encodeHeader(r.Header)
	if err != nil {
		return nil, err
	}
	return []any{int64(r.Status), nullable(header), nullable(r.Body), r.NotReplayable}, nil
}

// checkStatus says that a status fits its column. The driver would say it too, but not that nothing was sent.
func checkStatus(r idempotency.Response) error {
	if r.Status < math.MinInt32 || r.Status > math.MaxInt32 {
		return &fifty.InvalidError{Field: "Response.Status", Problem: fmt.Sprintf("is %d; it is kept in 32 bits", r.Status)}
	}
	return nil
}

// nullable keeps a nil slice apart from an empty one under every driver.
func nullable(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}

// madeArg is the column of Attempt.Made.
func madeArg(a idempotency.Attempt) any {
	if a.Made.IsZero() {
		return nil
	}
	return a.Made
}

// claimedBy is the record that a gets when it wins a key that has none.
func claimedBy(a idempotency.Attempt, token int64) idempotency.Record {
	return idempotency.Record{
		Request: a.Request, State: idempotency.InFlight, Token: token,
		Attempt: a.ID, Owner: a.Owner, Resume: a.Resume, ExpiresIn: a.Lease,
	}
}

// heldByTransaction is what a learns of a key that a transaction works on. Nobody can know more before
// that ends, not even the fingerprint.
func heldByTransaction(a idempotency.Attempt) idempotency.Record {
	return idempotency.Record{Request: a.Request, State: idempotency.InFlight, ExpiresIn: a.Lease}
}

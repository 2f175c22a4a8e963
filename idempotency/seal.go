package idempotency

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"

	"github.com/fiftyhosts/fifty"
)

// ErrSealed says that a kept answer can't be opened: the key that sealed it is not in the ring, or the record
// was changed. Nothing was run. See SealedError.
var ErrSealed = errors.New("the kept answer is sealed with a key that is not here")

// SealedError is an ErrSealed. It names the ring's key, not the request's.
type SealedError struct {
	SealedWith string
	Cause      error // nil when the ring has no such key
}

func (e *SealedError) Error() string {
	if e.Cause == nil {
		return fmt.Sprintf("the kept answer was sealed with key %q, which is not in the ring; add it behind the current one", e.SealedWith)
	}
	return fmt.Sprintf("the kept answer does not open with key %q: wrong key or changed record", e.SealedWith)
}

// Unwrap returns ErrSealed and the cause.
func (e *SealedError) Unwrap() []error {
	if e.Cause == nil {
		return []error{ErrSealed}
	}
	return []error{ErrSealed, e.Cause}
}

// SealingKey is one key of a Ring.
type SealingKey struct {
	ID  string // stored with each answer that it sealed; 1 to 100 printable ASCII characters
	Key []byte // 32 random bytes, for AES-256-GCM
}

// Ring seals what is kept of an answer: header, body and the results of steps, which may hold secrets. Status,
// scope and key stay readable. A sealed answer opens only under the scope and key that it was stored for. It
// is safe for concurrent use.
type Ring struct {
	current string
	sealers map[string]cipher.AEAD
}

// NewRing makes a Ring. The first key seals; all of them open. To rotate, put a new key in front on every
// host's ring, and take the old one away when Config.Retention has passed. It returns a *fifty.InvalidError for
// a key that can't be used.
func NewRing(keys ...SealingKey) (*Ring, error) {
	const field = "keys"
	if len(keys) == 0 {
		return nil, &fifty.InvalidError{Field: field, Problem: "are none; at least one is needed to seal"}
	}
	r := &Ring{current: keys[0].ID, sealers: make(map[string]cipher.AEAD, len(keys))}
	for _, k := range keys {
		switch {
		case ValidateKey(k.ID) != nil || len(k.ID) > StepNameMax:
			return nil, &fifty.InvalidError{Field: field, Problem: fmt.Sprintf("have an ID %q; it must be 1 to %d printable ASCII characters", k.ID, StepNameMax)}
		case r.sealers[k.ID] != nil:
			return nil, &fifty.InvalidError{Field: field, Problem: fmt.Sprintf("have the ID %q twice", k.ID)}
		case len(k.Key) != 32:
			return nil, &fifty.InvalidError{Field: field, Problem: fmt.Sprintf("%q has %d bytes; 32 are needed", k.ID, len(k.Key))}
		}
		block, err := aes.NewCipher(k.Key)
		if err != nil {
			return nil, fmt.Errorf("idempotency: sealing key %q: %w", k.ID, err)
		}
		if r.sealers[k.ID], err = cipher.NewGCMWithRandomNonce(block); err != nil {
			return nil, fmt.Errorf("idempotency: sealing key %q: %w", k.ID, err)
		}
	}
	return r, nil
}

// sealedUnder is the header of a sealed answer. No HTTP header can have this name.
const sealedUnder = ":sealed-under"

// sealed is what is sealed of an answer.
type sealed struct {
	Header map[string][]string
	Body   []byte
}

// sealResponse returns r with its header and body sealed. A nil Ring seals nothing.
func (r *Ring) sealResponse(req Request, res Response) Response {
	if r == nil {
		return res
	}
	var text bytes.Buffer // gob, since a header's bytes need not be UTF-8
	if err := gob.NewEncoder(&text).Encode(sealed{res.Header, res.Body}); err != nil {
		panic(fmt.Sprintf("idempotency: gob can't write strings and bytes: %v", err))
	}
	res.Header = map[string][]string{sealedUnder: {r.current}}
	res.Body = r.sealers[r.current].Seal(nil, nil, text.Bytes(), sealedFor(req, "answer"))
	return res
}

// openResponse undoes sealResponse. What was never sealed comes back as it is.
func (r *Ring) openResponse(req Request, res Response) (Response, error) {
	under, ok := res.Header[sealedUnder]
	if !ok || len(under) != 1 {
		return res, nil
	}
	text, err := r.open(under[0], res.Body, sealedFor(req, "answer"))
	if err != nil {
		return Response{}, err
	}
	var s sealed
	if err := gob.NewDecoder(bytes.NewReader(text)).Decode(&s); err != nil {
		return Response{}, &SealedError{SealedWith: under[0], Cause: err}
	}
	res.Header, res.Body = s.Header, s.Body
	return res, nil
}

// SealedWith is the ID of the key that sealed a response as a store has it, or "" when it is in the clear.
func (r Response) SealedWith() string {
	if under := r.Header[sealedUnder]; len(under) == 1 {
		return under[0]
	}
	return ""
}

// SealedWith is the ID of the key that sealed the step's result, or "" when it is in the clear.
func (r StepRecord) SealedWith() string {
	if len(r.Result) < 2 || r.Result[0] != 0 || len(r.Result) < 2+int(r.Result[1]) {
		return ""
	}
	return string(r.Result[2 : 2+int(r.Result[1])])
}

// sealStep returns a step's result sealed: a NUL, which no JSON begins with, the length of the key's ID in a
// byte, the ID, and the sealed text.
func (r *Ring) sealStep(req Request, name string, result []byte) []byte {
	if r == nil || len(result) == 0 {
		return result
	}
	head := append([]byte{0, byte(len(r.current))}, r.current...)
	return r.sealers[r.current].Seal(head, nil, result, sealedFor(req, "step "+name))
}

// openStep undoes sealStep.
func (r *Ring) openStep(req Request, name string, result []byte) ([]byte, error) {
	if len(result) < 2 || result[0] != 0 {
		return result, nil
	}
	n := 2 + int(result[1])
	if len(result) < n {
		return nil, &SealedError{Cause: errors.New("too short")}
	}
	return r.open(string(result[2:n]), result[n:], sealedFor(req, "step "+name))
}

func (r *Ring) open(id string, text, data []byte) ([]byte, error) {
	if r == nil || r.sealers[id] == nil {
		return nil, &SealedError{SealedWith: id}
	}
	plain, err := r.sealers[id].Open(nil, nil, text, data)
	if err != nil {
		return nil, &SealedError{SealedWith: id, Cause: err}
	}
	return plain, nil
}

// sealedFor is the additional data that ties a sealed text to its record, so that it can't be moved.
func sealedFor(req Request, what string) []byte {
	var data []byte
	for _, part := range []string{req.Scope, req.Key, what} {
		data = binary.BigEndian.AppendUint64(data, uint64(len(part)))
		data = append(data, part...)
	}
	return data
}

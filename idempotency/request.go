package idempotency

import (
	"fmt"
	"unicode/utf8"

	"github.com/fiftyhosts/fifty"
)

// Bounds of a request's identity, in bytes.
const (
	KeyMax   = 255
	ScopeMax = 512
)

// Request is one intent of one caller: every retry of the intent carries the same three fields.
type Request struct {
	// Scope is the caller's verified identity: account, tenant, API credential. It is mandatory, since a
	// key that is shared by all callers lets one of them read another's answer. Up to ScopeMax bytes of
	// UTF-8 without control characters, compared byte for byte.
	Scope string

	// Key names the intent within the scope. The client makes it once per intent, not per attempt. One to
	// KeyMax printable ASCII characters, compared byte for byte: "a" and "A" are two keys.
	Key string

	// Fingerprint tells another intent under the same key apart: see FingerprintOf. It is mandatory.
	Fingerprint Fingerprint
}

// Validate returns a *fifty.InvalidError that names the first field that is wrong, or nil.
func (r Request) Validate() error {
	if err := ValidateScope(r.Scope); err != nil {
		return err
	}
	if err := ValidateKey(r.Key); err != nil {
		return err
	}
	if len(r.Fingerprint) < 2 {
		return &fifty.InvalidError{Field: "Request.Fingerprint", Problem: "is empty; make one with FingerprintOf, from parts that JSON can hold"}
	}
	return nil
}

// ValidateScope returns a *fifty.InvalidError unless scope can be a Request's Scope.
func ValidateScope(scope string) error {
	const field = "Request.Scope"
	switch {
	case scope == "":
		return &fifty.InvalidError{Field: field, Problem: "is empty; it must name the verified caller"}
	case len(scope) > ScopeMax:
		return &fifty.InvalidError{Field: field, Problem: fmt.Sprintf("has %d bytes; at most %d are allowed", len(scope), ScopeMax)}
	case !utf8.ValidString(scope):
		return &fifty.InvalidError{Field: field, Problem: "is not valid UTF-8"}
	}
	for i, r := range scope {
		if r < ' ' || r == 0x7f {
			return &fifty.InvalidError{Field: field, Problem: fmt.Sprintf("has a control character at byte %d", i)}
		}
	}
	return nil
}

// ValidateKey returns a *fifty.InvalidError unless key can be a Request's Key.
func ValidateKey(key string) error {
	const field = "Request.Key"
	switch {
	case key == "":
		return &fifty.InvalidError{Field: field, Problem: "is empty; the client makes one per intent, a UUID for example"}
	case len(key) > KeyMax:
		return &fifty.InvalidError{Field: field, Problem: fmt.Sprintf("has %d characters; at most %d are allowed", len(key), KeyMax)}
	}
	for i := range len(key) {
		if key[i] < ' ' || key[i] > '~' {
			return &fifty.InvalidError{Field: field, Problem: fmt.Sprintf("has a character at position %d that is not printable ASCII", i)}
		}
	}
	return nil
}

package idempotency

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"hash"

	"github.com/fiftyhosts/fifty/internal/canon"
)

// fingerprintV1 is the version byte of SHA-256 over tagged, length-prefixed parts. A change of what is
// hashed is a new version, so that a deploy never invalidates the keys that are live.
const fingerprintV1 = 1

// Fingerprint is a digest of what a request asks for: a version byte, then SHA-256. It is raw bytes in a
// string; String prints them. Make one with FingerprintOf.
type Fingerprint string

// String is the fingerprint in hexadecimal.
func (f Fingerprint) String() string { return hex.EncodeToString([]byte(f)) }

// Matches says whether f may be a retry of the request that left stored. Two fingerprints of different
// versions can't be compared; they match, because the key already says that the intent is the same, and
// a rolling upgrade must not turn a retry into a mismatch.
func (f Fingerprint) Matches(stored Fingerprint) bool {
	if len(f) == 0 || len(stored) == 0 {
		return false
	}
	return f[0] != stored[0] || f == stored
}

// FingerprintOf digests the parts in order: method, path, body, say. A []byte or a string counts as it
// is. Anything else counts as its JSON in canonical form (RFC 8785), so that the order of an object's
// members does not matter; that includes a json.RawMessage, which is the way to pass a JSON body. JSON
// that RFC 8785 can't carry faithfully (a number beyond 2^53, a name twice) counts as raw bytes instead.
//
// Parts are told apart: ("ab", "c") and ("a", "bc") differ. When a part has no JSON at all (a channel, a
// NaN) the result is empty, and every call that is given it is refused with fifty.ErrInvalid.
func FingerprintOf(parts ...any) Fingerprint {
	sum := sha256.New()
	for _, part := range parts {
		switch p := part.(type) {
		case []byte:
			addPart(sum, 'b', p)
		case string:
			addPart(sum, 'b', []byte(p))
		case json.RawMessage:
			addJSON(sum, p)
		default:
			text, err := json.Marshal(p)
			if err != nil {
				return ""
			}
			addJSON(sum, text)
		}
	}
	return Fingerprint(sum.Sum([]byte{fingerprintV1}))
}

func addJSON(sum hash.Hash, text []byte) {
	if canonical, ok := canon.JSON(text); ok {
		addPart(sum, 'j', canonical)
		return
	}
	addPart(sum, 'b', text)
}

func addPart(sum hash.Hash, tag byte, p []byte) {
	var head [9]byte
	head[0] = tag
	binary.BigEndian.PutUint64(head[1:], uint64(len(p)))
	sum.Write(head[:])
	sum.Write(p)
}

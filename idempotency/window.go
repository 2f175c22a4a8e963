package idempotency

import (
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/fiftyhosts/fifty"
)

// AheadMax is how far a time-ordered key may lie in the future by the store's clock: clients' clocks are
// never quite right.
const AheadMax = 5 * time.Minute

// Made returns the time that a time-ordered key carries: a UUIDv7 in its usual spelling, or a ULID. ok is
// false for any other key. A UUID says that it carries a time, a ULID does not: some of the 26 letters and
// digits that crypto/rand.Text gives read as one. So one that would be of before 2016, when there were no
// ULIDs, or of after 2115, is an opaque key.
func Made(key string) (at time.Time, ok bool) {
	switch len(key) {
	case len("01234567-89ab-7def-8123-456789abcdef"):
		return madeUUID(key)
	case len("01ARZ3NDEKTSV4RRFFQ69G5FAV"):
		return madeULID(key)
	default:
		return time.Time{}, false
	}
}

func madeUUID(key string) (time.Time, bool) {
	if key[8] != '-' || key[13] != '-' || key[18] != '-' || key[23] != '-' || key[14] != '7' {
		return time.Time{}, false
	}
	raw, err := hex.DecodeString(key[:8] + key[9:13] + key[14:18] + key[19:23] + key[24:])
	if err != nil || raw[8]>>6 != 0b10 {
		return time.Time{}, false
	}
	var ms int64
	for _, b := range raw[:6] {
		ms = ms<<8 | int64(b)
	}
	return time.UnixMilli(ms), true
}

// crockford is the alphabet of a ULID; the case of a letter has no meaning.
const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

func madeULID(key string) (time.Time, bool) {
	var ms int64
	for i, r := range strings.ToUpper(key) {
		digit := strings.IndexRune(crockford, r)
		if digit < 0 || (i == 0 && digit > 7) { // the time has 48 of the first 50 bits
			return time.Time{}, false
		}
		if i < 10 {
			ms = ms<<5 | int64(digit)
		}
	}
	at := time.UnixMilli(ms)
	return at, !at.Before(ulidFirst) && at.Before(ulidLast)
}

// The times that a ULID may have.
var (
	ulidFirst = time.Date(2016, time.January, 1, 0, 0, 0, 0, time.UTC)
	ulidLast  = time.Date(2116, time.January, 1, 0, 0, 0, 0, time.UTC)
)

// CheckWindow says whether a key without a record may be claimed at now, by the store's clock. A store asks
// before it writes a new record, or takes a Free one. An opaque key always may. A time-ordered one gets
// ErrExpired when it is older than the window, for its record may have been swept, and a *fifty.InvalidError
// when it is further ahead than a client's clock should be.
func (a Attempt) CheckWindow(now time.Time) error {
	switch {
	case a.Made.IsZero():
		return nil
	case !a.Made.After(now.Add(-a.Window)): // at this very moment its tombstone may go
		return ErrExpired
	case a.Made.After(now.Add(AheadMax)):
		return &fifty.InvalidError{Field: "Request.Key", Problem: fmt.Sprintf("carries a time more than %v ahead of the store's clock; check the client's clock", AheadMax)}
	default:
		return nil
	}
}

package idempotency

// Verdict is what a store must do about an attempt whose key has a record.
type Verdict int

const (
	// Answer: the record is the answer; change nothing.
	Answer Verdict = iota
	// Mine: the attempt owns the record already; its earlier reply was lost. It has won, with the
	// record's token; change nothing.
	Mine
	// Take: write the attempt over the record, with a token one higher, on the condition that token and
	// state are still those of the record and, for a claim in flight, that it is still expired by the
	// store's clock. When the condition fails, look again.
	Take
)

// Judge is the one place that says what becomes of an attempt whose key has a record. It is pure: the
// store reads the record, asks, and acts conditionally on what it read.
func Judge(rec Record, a Attempt) Verdict {
	own, same := rec.Attempt == a.ID, a.Request.Fingerprint.Matches(rec.Request.Fingerprint)
	switch {
	case own && same && rec.State == InFlight && !rec.Expired():
		return Mine
	case own:
		// A claim of this attempt that was held up on its way arrives late, after what the attempt did with
		// an earlier one. Taking anything now would take it for nobody.
		return Answer
	case rec.State == Free:
		return Take
	case !same:
		return Answer
	case rec.Expired() && rec.Resume && a.Resume:
		// Only work made of steps may be started again: the steps that finished are skipped.
		return Take
	default:
		return Answer
	}
}

package retry

import (
	"sync"
	"time"
)

// BudgetConfig sets the size of a Budget. The zero value works.
type BudgetConfig struct {
	// Ratio is the part of a token that each first attempt deposits: 0.1 allows one retry for every ten
	// calls. Negative means none. Defaults to 0.1.
	Ratio float64

	// MinPerSecond is how many tokens come by themselves each second, so that a client with few calls
	// may retry as well. Negative means none. Defaults to 1.
	MinPerSecond float64

	// Max bounds the tokens that can gather, and with them a burst of retries. A Budget starts with Max.
	// Below 1 means the default. Defaults to 100.
	Max int

	// Clock tells the time; its Sleep is not used. Defaults to the system's monotonic clock.
	Clock Clock
}

// Budget is a bucket of tokens that the calls to one peer share: each first attempt deposits a part of a
// token, each retry takes a whole one, and without one there is no retry. So a peer that is down for
// all gets only little more load than its calls alone, however many attempts each call may make. The
// idea is that of Finagle's retry budget and of gRPC's retry throttling.
//
// A Budget is safe for concurrent use. A nil *Budget allows every retry.
type Budget struct {
	ratio, perSecond, most float64
	clock                  Clock

	mu     sync.Mutex
	tokens float64
	filled time.Time // up to when MinPerSecond has been paid in
}

// NewBudget returns a full Budget. Make one for each peer, not for each call.
func NewBudget(cfg BudgetConfig) *Budget {
	b := &Budget{
		ratio:     orDefault(cfg.Ratio, 0.1),
		perSecond: orDefault(cfg.MinPerSecond, 1),
		most:      100,
		clock:     cfg.Clock,
	}
	if cfg.Max >= 1 {
		b.most = float64(cfg.Max)
	}
	if b.clock == nil {
		b.clock = systemClock{}
	}
	b.tokens, b.filled = b.most, b.clock.Now()
	return b
}

// orDefault returns the default for zero, and zero for what is negative or not a number.
func orDefault(value, standard float64) float64 {
	switch {
	case value == 0:
		return standard
	case value > 0:
		return value
	}
	return 0
}

// deposit pays in for a first attempt.
func (b *Budget) deposit() {
	if b != nil {
		b.add(b.ratio)
	}
}

// refund gives back the token of a retry that was not made after all.
func (b *Budget) refund() {
	if b != nil {
		b.add(1)
	}
}

// withdraw takes the token of one retry. It reports false, and takes nothing, when there is none.
func (b *Budget) withdraw() bool {
	// Linearization point: the decrement under mu. A loser sees less than one token, and doesn't wait.
	return b == nil || b.add(-1)
}

// slack is what rounding may take from a token: ten deposits of a tenth are one retry, though their sum
// as floating-point numbers is a little less than one.
const slack = 1e-9

// add changes the tokens by n. It refuses, and adds only what time has paid in, if fewer than none would
// be left.
func (b *Budget) add(n float64) bool {
	now := b.clock.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if past := now.Sub(b.filled); past > 0 { // not for a clock that went backwards, nor a caller that came late
		b.tokens = min(b.tokens+past.Seconds()*b.perSecond, b.most)
		b.filled = now
	}
	if b.tokens+n < -slack {
		return false
	}
	b.tokens = max(min(b.tokens+n, b.most), 0)
	return true
}

package faults

import (
	"errors"
	"math/rand/v2"
	"slices"
)

// Plan chooses what happens to a message. It is called once per message from a client, one call at a time,
// in the order of the numbers; also for the messages that are not counted (Number 0). It may call the proxy,
// but not Arm or Close.
type Plan func(Message) Fault

// ErrUnknownFault: a plan chose a word that is no fault. The message was passed on.
var ErrUnknownFault = errors.New("faults: a plan chose what is no fault")

// At faults message n, counted over all connections since Arm.
func At(n int, f Fault) Plan {
	return func(m Message) Fault {
		if n > 0 && m.Number == n {
			return f
		}
		return Pass
	}
}

// AtConn faults message n of the k-th connection since Arm.
func AtConn(k, n int, f Fault) Plan {
	return func(m Message) Fault {
		if k > 0 && n > 0 && m.Conn == k && m.OnConn == n {
			return f
		}
		return Pass
	}
}

// Once faults the first message that match says yes to. The plan is good for one Arm.
func Once(match func(Message) bool, f Fault) Plan {
	struck := false
	return func(m Message) Fault {
		if struck || !match(m) {
			return Pass
		}
		struck = true
		return f
	}
}

// RandomConfig says what Random does.
type RandomConfig struct {
	// Seed makes the choices repeatable: the same seed chooses the same for the same sequence of messages.
	Seed uint64

	// OneIn is how many messages there are to one fault, on average. Defaults to 10.
	OneIn int

	// Budget is the most faults, so that every client gets through in the end. Defaults to 100.
	Budget int

	// Faults are chosen from with equal chances. A fault that holds something must be released by somebody.
	// Defaults to RequestLost, ReplyLost and ClientGone.
	Faults []Fault
}

// Random faults counted messages by chance, for soaks. The plan is good for one Arm.
func Random(cfg RandomConfig) Plan {
	if cfg.OneIn <= 0 {
		cfg.OneIn = 10
	}
	if cfg.Budget <= 0 {
		cfg.Budget = 100
	}
	kinds := slices.Clone(cfg.Faults)
	if len(kinds) == 0 {
		kinds = []Fault{RequestLost, ReplyLost, ClientGone}
	}
	rnd := rand.New(rand.NewPCG(cfg.Seed, cfg.Seed)) //nolint:gosec // a run that can be repeated
	budget := cfg.Budget
	return func(m Message) Fault {
		if m.Number == 0 || budget == 0 || rnd.IntN(cfg.OneIn) > 0 {
			return Pass
		}
		budget--
		return kinds[rnd.IntN(len(kinds))]
	}
}

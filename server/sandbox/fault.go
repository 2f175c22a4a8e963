package sandbox

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// FaultHeader is the header of a POST that makes it go wrong: see the package's doc.
const FaultHeader = "Sandbox-Fault"

// SlowMax is the longest wait of the fault slow.
const SlowMax = 60 * time.Second

// exitCode is that of a process that was ended by SIGKILL, as a shell reports it.
const exitCode = 137

type faultKind int

const (
	noFault faultKind = iota
	slow
	drop
	crashBefore
	crashAfter
)

type fault struct {
	kind faultKind
	wait time.Duration // of slow
}

// parseFault reads the header. At most one fault is allowed; the error is a sentence for the client.
func parseFault(h http.Header) (fault, error) {
	values := h.Values(FaultHeader)
	switch len(values) {
	case 0:
		return fault{}, nil
	case 1:
	default:
		return fault{}, fmt.Errorf("%s is there %d times; send one fault", FaultHeader, len(values))
	}
	text := strings.TrimSpace(values[0])
	switch text {
	case "drop":
		return fault{kind: drop}, nil
	case "crash-before":
		return fault{kind: crashBefore}, nil
	case "crash-after":
		return fault{kind: crashAfter}, nil
	}
	span, isSlow := strings.CutPrefix(text, "slow=")
	if !isSlow {
		return fault{}, fmt.Errorf("%s %q is unknown; there are slow=2s, drop, crash-before and crash-after", FaultHeader, text)
	}
	wait, err := time.ParseDuration(span)
	if err != nil || wait <= 0 || wait > SlowMax {
		return fault{}, fmt.Errorf("%s slow=%s must be a span above zero and at most %v, such as slow=2s", FaultHeader, span, SlowMax)
	}
	return fault{kind: slow, wait: wait}, nil
}

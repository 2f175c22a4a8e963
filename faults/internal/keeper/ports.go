//go:build linux || darwin

package keeper

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

const (
	// PortTries bounds the ports that are tried.
	PortTries = 20
	// Ports come from below those that systems hand out for outgoing
	// connections, so that a server that is down for a while finds its own free.
	portLow, portHigh = 17000, 30000
)

// ErrPortTaken says that another process was faster.
var ErrPortTaken = errors.New("the port is taken")

// FreePort is a loopback port on which nobody listens at the moment.
func FreePort() (int, error) {
	for range PortTries {
		port := portLow + rand.IntN(portHigh-portLow)
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return port, listener.Close()
		}
	}
	return 0, fmt.Errorf("no free port found between %d and %d in %d tries", portLow, portHigh, PortTries)
}

// OnFreePort calls start with free ports until it returns another error than ErrPortTaken, or none.
func OnFreePort(next func() (int, error), start func(port int) error) error {
	for range PortTries {
		port, err := next()
		if err != nil {
			return err
		}
		if err := start(port); !errors.Is(err, ErrPortTaken) {
			return err
		}
	}
	return fmt.Errorf("%w, %d times in a row", ErrPortTaken, PortTries)
}

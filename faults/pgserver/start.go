//go:build linux || darwin

package pgserver

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	// startMax bounds a start, recovery after a kill included.
	startMax = time.Minute
	// readyInterval is between two looks whether the server is ready.
	readyInterval = 5 * time.Millisecond
	// portTries bounds the ports that are tried.
	portTries = 20
	// Ports come from below those that systems hand out for outgoing
	// connections, so that a server that is down for a while finds its own free.
	portLow, portHigh = 17000, 30000
)

// errPortTaken says that another process was faster.
var errPortTaken = errors.New("the port is taken")

// launch makes a server with a keeper of its own and starts it.
func launch(with options) (*Server, error) {
	programs, err := find(usualPlaces)
	if err != nil {
		return nil, err
	}
	who, err := serverOwner()
	if err != nil {
		return nil, err
	}
	k, err := startKeeper()
	if err != nil {
		return nil, err
	}
	s := &Server{kept: k, programs: programs, owner: who, with: with}
	if err := s.fillAndStart(); err != nil {
		return nil, errors.Join(err, k.close())
	}
	return s, nil
}

func (s *Server) fillAndStart() error {
	from := templateFor(s.programs, s.owner)
	if err := from.fill(s.kept, s.programs, s.owner); err != nil {
		return err
	}
	password, err := os.ReadFile(passwordFile(s.kept.folder))
	if err != nil {
		return err
	}
	s.password = string(password)
	err = s.startOnOneOf(freePort)
	if err != nil && len(s.with.settings) == 0 && s.with.clock == nil {
		from.forget()
	}
	return err
}

// startOnOneOf starts the server on the first port of next that is still free
// when the server binds it.
func (s *Server) startOnOneOf(next func() (int, error)) error {
	for range portTries {
		port, err := next()
		if err != nil {
			return err
		}
		s.port = port
		if err := s.start(); !errors.Is(err, errPortTaken) {
			return err
		}
	}
	return fmt.Errorf("%w, %d times in a row", errPortTaken, portTries)
}

// freePort is a loopback port on which nobody listens at the moment.
func freePort() (int, error) {
	for range portTries {
		port := portLow + rand.IntN(portHigh-portLow)
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return port, listener.Close()
		}
	}
	return 0, fmt.Errorf("no free port found between %d and %d in %d tries", portLow, portHigh, portTries)
}

// start starts the server on its port and returns once it takes connections.
func (s *Server) start() error {
	logged := len(s.Log())
	args := []string{"-D", dataFolder(s.kept.folder), "-p", strconv.Itoa(s.port)}
	for _, setting := range s.with.settings {
		args = append(args, "-c", setting)
	}
	env, err := s.with.clock.set(s.kept.folder, s.owner)
	if err != nil {
		return err
	}
	pid, err := s.kept.ask(request{Do: "start", Command: command{Path: s.programs.server(), Args: args, Env: env, Owner: s.owner}})
	if err != nil {
		return err
	}
	ticker := time.NewTicker(readyInterval)
	defer ticker.Stop()
	for deadline := time.Now().Add(startMax); time.Now().Before(deadline); <-ticker.C {
		// The file may be that of the server before a kill: its pid tells.
		if file, err := readPostmasterPID(dataFolder(s.kept.folder)); err == nil && file.pid == pid && file.ready {
			s.pid = pid
			return s.checkClock()
		}
		running, err := s.kept.ask(request{Do: "state"})
		if err != nil {
			return err
		}
		if running == 0 {
			return s.startError(s.Log()[logged:])
		}
	}
	return fmt.Errorf("Postgres was not ready within %v:\n%s", startMax, s.kept.tail())
}

func (s *Server) startError(log string) error {
	if strings.Contains(log, "could not bind") {
		return fmt.Errorf("%w: %d", errPortTaken, s.port)
	}
	return fmt.Errorf("Postgres did not start (%s, %s):\n%s", s.programs.version, s.programs.folder, s.kept.tail())
}

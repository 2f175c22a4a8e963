//go:build linux || darwin

package pgserver

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/fiftyhosts/fifty/faults/internal/keeper"
)

const (
	// startMax bounds a start, recovery after a kill included.
	startMax = time.Minute
	// readyInterval is between two looks whether the server is ready.
	readyInterval = 5 * time.Millisecond
)

// launch makes a server with a keeper of its own and starts it.
func launch(with options) (*Server, error) {
	programs, err := find(usualPlaces)
	if err != nil {
		return nil, err
	}
	who, err := keeper.ServerOwner()
	if err != nil {
		return nil, err
	}
	k, err := keeper.Start(kind)
	if err != nil {
		return nil, err
	}
	s := &Server{kept: k, programs: programs, owner: who, with: with}
	if err := s.fillAndStart(); err != nil {
		return nil, errors.Join(err, k.Close())
	}
	return s, nil
}

func (s *Server) fillAndStart() error {
	from := templateFor(s.programs, s.owner)
	if err := from.fill(s.kept, s.programs, s.owner); err != nil {
		return err
	}
	password, err := os.ReadFile(passwordFile(s.kept.Folder))
	if err != nil {
		return err
	}
	s.password = string(password)
	err = s.startOnOneOf(keeper.FreePort)
	if err != nil && len(s.with.settings) == 0 && s.with.clock == nil {
		from.forget()
	}
	return err
}

// startOnOneOf starts the server on the first port of next that is still free
// when the server binds it.
func (s *Server) startOnOneOf(next func() (int, error)) error {
	return keeper.OnFreePort(next, func(port int) error {
		s.port = port
		return s.start()
	})
}

// start starts the server on its port and returns once it takes connections.
func (s *Server) start() error {
	logged := len(s.Log())
	args := []string{"-D", dataFolder(s.kept.Folder), "-p", strconv.Itoa(s.port)}
	for _, setting := range s.with.settings {
		args = append(args, "-c", setting)
	}
	env, err := s.with.clock.Set(s.kept.Folder, s.owner)
	if err != nil {
		return err
	}
	pid, err := s.kept.Ask(keeper.Request{Do: "start", Command: keeper.Command{Path: s.programs.server(), Args: args, Env: env, Owner: s.owner}})
	if err != nil {
		return err
	}
	ticker := time.NewTicker(readyInterval)
	defer ticker.Stop()
	for deadline := time.Now().Add(startMax); time.Now().Before(deadline); <-ticker.C {
		// The file may be that of the server before a kill: its pid tells.
		if file, err := readPostmasterPID(dataFolder(s.kept.Folder)); err == nil && file.pid == pid && file.ready {
			s.pid = pid
			return s.checkClock()
		}
		running, err := s.kept.Ask(keeper.Request{Do: "state"})
		if err != nil {
			return err
		}
		if running == 0 {
			return s.startError(s.Log()[logged:])
		}
	}
	return fmt.Errorf("Postgres was not ready within %v:\n%s", startMax, s.kept.Tail())
}

func (s *Server) startError(log string) error {
	if strings.Contains(log, "could not bind") {
		return fmt.Errorf("%w: %d", keeper.ErrPortTaken, s.port)
	}
	return fmt.Errorf("Postgres did not start (%s, %s):\n%s", s.programs.version, s.programs.folder, s.kept.Tail())
}

//go:build linux || darwin

package redisserver

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/fiftyhosts/fifty/faults/internal/keeper"
)

const (
	// startMax bounds a start, the reading of the append-only file included.
	startMax = time.Minute
	// readyInterval is between two looks whether the server is ready.
	readyInterval = 5 * time.Millisecond
	// askMax bounds one question to the server.
	askMax = 5 * time.Second
	// clockSlack is how far a server's clock may be from what it was set to: libfaketime takes whole seconds.
	clockSlack = 2 * time.Second
)

// ProgramVariable names redis-server, which is then the only one looked at.
const ProgramVariable = "FIFTY_REDIS_SERVER"

// ErrNotFound is returned when redis-server is not found. Its message says what to install.
var ErrNotFound = errors.New("a Redis server to start needs redis-server, and it was not found")

const help = `
  Debian, Ubuntu:  apt-get install redis-server
  Fedora:          dnf install redis
  Alpine:          apk add redis
  macOS:           brew install redis
  or set ` + ProgramVariable + ` to the program.
No server needs to be set up or running: each test binary starts its own.`

// Find returns the path of redis-server: that of FIFTY_REDIS_SERVER, or else the one in PATH. The error wraps
// [ErrNotFound] when there is none.
func Find() (string, error) {
	name := "redis-server"
	if given := os.Getenv(ProgramVariable); given != "" {
		name = given
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%w: %w%s", ErrNotFound, err, help)
	}
	return path, nil
}

// launch makes a server with a keeper of its own and starts it.
func launch(settings []string, clock *keeper.Clock) (*Server, error) {
	program, err := Find()
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
	s := &Server{kept: k, program: program, owner: who, settings: settings, clock: clock, password: rand.Text()}
	err = keeper.OnFreePort(keeper.FreePort, func(port int) error {
		s.port = port
		return s.start()
	})
	if err != nil {
		return nil, errors.Join(err, k.Close())
	}
	return s, nil
}

// configure writes redis.conf. A later line wins.
func (s *Server) configure() (file string, err error) {
	lines := append([]string{
		"bind 127.0.0.1",
		"port " + strconv.Itoa(s.port),
		"requirepass " + s.password,
		"dir " + s.kept.Folder,
		"save \"\"",
		"appendonly yes",
		"appendfsync always",
	}, s.settings...)
	file = s.kept.Folder + "/redis.conf"
	err = os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600)
	return file, errors.Join(err, s.owner.Give(file))
}

// start starts the server on its port and returns once it answers.
func (s *Server) start() error {
	logged := len(s.Log())
	file, err := s.configure()
	if err != nil {
		return err
	}
	env, err := s.clock.Set(s.kept.Folder, s.owner)
	if err != nil {
		return err
	}
	for i, variable := range env {
		if strings.HasPrefix(variable, "LD_PRELOAD=") {
			// jemalloc asks for the time while it begins, and libfaketime for memory to tell it: with the
			// allocator of libc neither waits for the other.
			env[i] += ":libc.so.6"
		}
	}
	pid, err := s.kept.Ask(keeper.Request{Do: "start", Command: keeper.Command{Path: s.program, Args: []string{file}, Env: env, Owner: s.owner}})
	if err != nil {
		return err
	}
	ticker := time.NewTicker(readyInterval)
	defer ticker.Stop()
	for deadline := time.Now().Add(startMax); time.Now().Before(deadline); <-ticker.C {
		// The password is this server's alone. While it reads its log it answers with an error.
		if reply, err := s.ask("PING", 1); err == nil && reply[0] == "+PONG" {
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
	return fmt.Errorf("Redis was not ready within %v:\n%s", startMax, s.kept.Tail())
}

func (s *Server) startError(log string) error {
	if strings.Contains(log, "Address already in use") {
		return fmt.Errorf("%w: %d", keeper.ErrPortTaken, s.port)
	}
	return fmt.Errorf("Redis did not start (%s):\n%s", s.program, s.kept.Tail())
}

// ask sends one command on a connection of its own, and reads so many lines of its answer.
func (s *Server) ask(command string, lines int) ([]string, error) {
	conn, err := net.DialTimeout("tcp", s.Addr(), askMax)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(askMax)); err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(conn, "AUTH %s\r\n%s\r\n", s.password, command); err != nil {
		return nil, err
	}
	r := bufio.NewReader(conn)
	var answer []string
	for range 1 + lines {
		line, err := r.ReadString('\n')
		if err != nil {
			return nil, err
		}
		answer = append(answer, strings.TrimSpace(line))
	}
	if answer[0] != "+OK" {
		return nil, errors.New(answer[0])
	}
	return answer[1:], nil
}

// ahead returns the bounds of the skew.
func (s *Server) ahead() (low, high time.Duration, err error) {
	before := time.Now()
	reply, err := s.ask("TIME", 5) // *2, length, seconds, length, microseconds
	if err != nil {
		return 0, 0, err
	}
	seconds, err1 := strconv.ParseInt(reply[2], 10, 64)
	micros, err2 := strconv.ParseInt(reply[4], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return 0, 0, err
	}
	at := time.Unix(seconds, micros*1000)
	return at.Sub(time.Now().Round(0)), at.Sub(before.Round(0)), nil
}

// checkClock fails when the clock is not where it was set.
func (s *Server) checkClock() error {
	if s.clock == nil {
		return nil
	}
	low, high, err := s.ahead()
	if err != nil {
		return fmt.Errorf("ask for the time: %w", err)
	}
	if want := s.clock.Skew; low-clockSlack > want || want > high+clockSlack {
		return fmt.Errorf("the server's clock is ahead by %v and not by %v: does %s work with this Redis?", high, want, s.clock.Library)
	}
	return nil
}

//go:build linux || darwin

package redisserver

import (
	"net/url"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/fiftyhosts/fifty/faults/internal/keeper"
)

// kind is what keepers of this package's servers are called.
const kind = "redisserver"

// A process that is started as a keeper is one before any test starts.
func init() { keeper.Main(kind, nil) }

// A Server is a Redis server that belongs to this test process.
//
// [Server.URL], [Server.Addr], [Server.Password], [Server.Ahead] and [Server.Log] are safe for concurrent use. The
// others change the server's state: they are for the test that owns it, to be called from that test's goroutine,
// and fail it when they can't do what they say.
type Server struct {
	kept     *keeper.Kept
	program  string
	owner    keeper.Owner
	settings []string
	clock    *keeper.Clock // nil for the host's
	password string
	port     int
	pid      int
	paused   bool

	tb TB // the owner of a private server, nil for the shared one
}

// TB is what a test tells about itself, and is told: every [testing.TB] is one. A program that is no test may
// bring its own.
type TB interface {
	Helper()
	Failed() bool
	Cleanup(f func())
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	// Fatalf must not return.
	Fatalf(format string, args ...any)
}

// shared is the one server of this test binary.
var shared = sync.OnceValues(func() (*Server, error) { return launch(nil, nil) })

// Shared returns the server that all tests of this test binary share. It starts at the first call and ends with
// the process. Tests keep apart by their keys. It is safe for concurrent use.
//
// Where redis-server is missing, the test fails with a message that says what to install.
func Shared(tb TB) *Server {
	tb.Helper()
	server, err := shared()
	if err != nil {
		tb.Fatalf("redisserver: the shared server: %v", err)
	}
	return server
}

// New returns a server for this test alone, which may kill, stop and pause it. It ends with the test, which
// also fails when the server then can't be removed. When the test has failed, the end of the server's log is
// printed. Each setting is a line of redis.conf, such as "appendfsync everysec"; it wins over the usual ones.
func New(tb TB, settings ...string) *Server {
	tb.Helper()
	return own(tb, settings, nil)
}

// NewSkewed is [New] with a clock that is ahead of the host's by skew, in whole seconds; negative is behind. It
// fails the test where libfaketime is missing, with what to install, and where the server's clock is then not
// where it should be. What TIME says, and so what scripts see, has the skewed time.
func NewSkewed(tb TB, skew time.Duration, settings ...string) *Server {
	tb.Helper()
	library, err := keeper.FindFaketime(keeper.FaketimePlaces)
	if err != nil {
		tb.Fatalf("redisserver: %v", err)
	}
	return own(tb, settings, &keeper.Clock{Library: library, Skew: skew})
}

// own starts a server that belongs to tb.
func own(tb TB, settings []string, clock *keeper.Clock) *Server {
	tb.Helper()
	server, err := launch(settings, clock)
	if err != nil {
		tb.Fatalf("redisserver: %v", err)
	}
	server.tb = tb
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("redisserver: the end of the server's log:\n%s", server.kept.Tail())
		}
		if err := server.kept.Close(); err != nil {
			tb.Errorf("redisserver: end the server: %v", err)
		}
	})
	return server
}

// URL is the address of the server's database 0, with its password.
func (s *Server) URL() string {
	u := url.URL{Scheme: "redis", User: url.UserPassword("default", s.password), Host: s.Addr()}
	return u.String()
}

// Addr is where the server listens, as host:port.
func (s *Server) Addr() string { return "127.0.0.1:" + strconv.Itoa(s.port) }

// Password is what the server asks for.
func (s *Server) Password() string { return s.password }

// PID is the server's process, 0 while it is down.
func (s *Server) PID() int { return s.pid }

// Log is all that the server has written to its log.
func (s *Server) Log() string {
	log, err := os.ReadFile(s.kept.Folder + "/log")
	if err != nil {
		return ""
	}
	return string(log)
}

// Kill ends the server as a crash does, by SIGKILL. It returns when it is gone.
func (s *Server) Kill() {
	s.mayBreak("kill").Helper()
	s.do("kill")
	s.paused, s.pid = false, 0
}

// Stop ends the server in the orderly way: what it acknowledged is on the disk, whatever the settings.
func (s *Server) Stop() {
	s.mayBreak("stop").Helper()
	if s.paused {
		s.tb.Fatalf("redisserver: a paused server can't stop: Resume or Kill it first")
	}
	s.do("stop")
	s.pid = 0
}

// Start starts a server that was killed or stopped, at the same address. It returns when it has read its log
// and answers.
func (s *Server) Start() {
	s.mayBreak("start").Helper()
	if err := s.start(); err != nil {
		s.tb.Fatalf("redisserver: start the server: %v", err)
	}
}

// Restart stops the server, if it runs, and starts it again.
func (s *Server) Restart() {
	s.mayBreak("restart").Helper()
	s.Stop()
	s.Start()
}

// Pause freezes the server: connections stay open and get no answer. It returns when it has stopped.
func (s *Server) Pause() {
	s.mayBreak("pause").Helper()
	s.do("pause")
	s.paused = true
}

// Resume lets a paused server go on.
func (s *Server) Resume() {
	s.mayBreak("resume").Helper()
	s.do("resume")
	s.paused = false
}

// SetClock moves the clock of a server of [NewSkewed], while it runs or is down: from now on it is ahead of the
// host's by skew, in whole seconds. It returns when TIME says so.
func (s *Server) SetClock(skew time.Duration) {
	tb := s.mayBreak("have another clock")
	tb.Helper()
	if s.clock == nil {
		tb.Fatalf("redisserver: only a server of NewSkewed can have another clock")
	}
	s.clock.Skew = skew
	if _, err := s.clock.Set(s.kept.Folder, s.owner); err != nil {
		tb.Fatalf("redisserver: set the clock: %v", err)
	}
	if s.pid == 0 || s.paused {
		return
	}
	if err := s.checkClock(); err != nil {
		tb.Fatalf("redisserver: %v", err)
	}
}

// Ahead measures how far the server's clock is ahead of this process's. A test that needs a skew asserts it
// first.
func (s *Server) Ahead(tb TB) time.Duration {
	tb.Helper()
	low, high, err := s.ahead()
	if err != nil {
		tb.Fatalf("redisserver: ask for the time: %v", err)
	}
	return (low + high) / 2
}

// mayBreak returns the test that owns the server. The shared one has many, and none of them may break it for
// the others.
func (s *Server) mayBreak(what string) TB {
	if s.tb == nil {
		panic("redisserver: the shared server can't " + what + "; use New")
	}
	return s.tb
}

func (s *Server) do(what string) {
	s.tb.Helper()
	if _, err := s.kept.Ask(keeper.Request{Do: what}); err != nil {
		s.tb.Fatalf("redisserver: %s the server: %v", what, err)
	}
}

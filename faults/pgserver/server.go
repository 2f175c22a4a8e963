//go:build linux || darwin

package pgserver

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fiftyhosts/fifty/faults/internal/keeper"
)

// adminMax bounds one statement that makes or drops a database.
const adminMax = time.Minute

// A Server is a Postgres server that belongs to this test process.
//
// [Server.Database], [Server.URL] and [Server.Log] are safe for concurrent use.
// The others change the server's state: they are for the test that owns it, to
// be called from that test's goroutine, and fail it when they can't do what they
// say.
type Server struct {
	kept     *keeper.Kept
	programs installation
	owner    keeper.Owner
	with     options
	password string
	port     int
	pid      int
	paused   bool

	tb       TB // the owner of a private server, nil for the shared one
	sequence atomic.Int64
}

// TB is what a test tells about itself, and is told: every [testing.TB] is one. A program that is no test may
// bring its own.
type TB interface {
	Helper()
	Name() string
	Failed() bool
	Cleanup(f func())
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	// Fatalf must not return.
	Fatalf(format string, args ...any)
}

// shared is the one server of this test binary.
var shared = sync.OnceValues(func() (*Server, error) { return launch(options{}) })

// Shared returns the server that all tests of this test binary share. It starts at the first call and ends with
// the process. Tests keep apart by a [Server.Database] each. It is safe for concurrent use.
//
// Where Postgres is missing, the test fails with a message that says what to install.
func Shared(tb TB) *Server {
	tb.Helper()
	server, err := shared()
	if err != nil {
		tb.Fatalf("pgserver: the shared server: %v", err)
	}
	return server
}

// New returns a server for this test alone, which may kill, stop and pause it. It ends with the test, which
// also fails when the server then can't be removed. When the test has failed, the end of the server's log is
// printed.
//
// Each setting is a line of postgresql.conf, such as "wal_level=logical"; it goes before the usual ones, which
// are Postgres's defaults with 200 connections.
func New(tb TB, settings ...string) *Server {
	tb.Helper()
	return own(tb, options{settings: settings})
}

// options say how a server differs from others.
type options struct {
	settings []string
	clock    *keeper.Clock // nil for the host's
}

// own starts a server that belongs to tb.
func own(tb TB, with options) *Server {
	tb.Helper()
	server, err := launch(with)
	if err != nil {
		tb.Fatalf("pgserver: %v", err)
	}
	server.tb = tb
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("pgserver: the end of the server's log:\n%s", server.kept.Tail())
		}
		if err := server.kept.Close(); err != nil {
			tb.Errorf("pgserver: end the server: %v", err)
		}
	})
	return server
}

// URL is the address of the server's own database postgres, as superuser.
func (s *Server) URL() string { return s.databaseURL("postgres") }

func (s *Server) databaseURL(database string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(superuser, s.password),
		Host:     "127.0.0.1:" + strconv.Itoa(s.port),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Addr is where the server listens, as host:port.
func (s *Server) Addr() string { return "127.0.0.1:" + strconv.Itoa(s.port) }

// Log is all that the server has written to its log.
func (s *Server) Log() string {
	log, err := os.ReadFile(s.kept.Folder + "/log")
	if err != nil {
		return ""
	}
	return string(log)
}

// Database makes an empty database of its own for the test and returns its URL,
// as superuser. On the shared server it is dropped after the test, together with
// the connections that are still open.
func (s *Server) Database(tb TB) string {
	tb.Helper()
	name := databaseName(s.sequence.Add(1), tb.Name())
	// template0 has no connections, which would make the copy fail.
	if err := s.admin("CREATE DATABASE " + name + " TEMPLATE template0"); err != nil {
		tb.Fatalf("pgserver: make a database: %v", err)
	}
	if s.tb == nil {
		tb.Cleanup(func() {
			if err := s.admin("DROP DATABASE " + name + " WITH (FORCE)"); err != nil {
				tb.Errorf("pgserver: drop a database: %v", err)
			}
		})
	}
	return s.databaseURL(name)
}

var notPlain = regexp.MustCompile(`[^a-z0-9]+`)

// databaseName tells a person who reads the log which test it was.
func databaseName(sequence int64, test string) string {
	plain := notPlain.ReplaceAllString(strings.ToLower(test), "_")
	return fmt.Sprintf("t%d_%.40s", sequence, plain)
}

// admin runs one statement as superuser, on a context of its own: a test's is
// cancelled before its cleanup.
func (s *Server) admin(statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), adminMax)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.URL())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, statement)
	return err
}

// Kill ends the server as a crash does: all its processes by SIGKILL, at once.
// It returns when none is left.
func (s *Server) Kill() {
	s.mayBreak("kill").Helper()
	s.do("kill")
	s.paused, s.pid = false, 0
}

// Stop ends the server in the orderly way: open transactions are rolled back,
// connections closed, and the next start needs no recovery.
func (s *Server) Stop() {
	s.mayBreak("stop").Helper()
	s.notPaused("stop")
	s.do("stop")
	s.pid = 0
}

// Start starts a server that was killed or stopped, at the same address. It
// returns when recovery is over and connections are taken.
func (s *Server) Start() {
	s.mayBreak("start").Helper()
	if err := s.start(); err != nil {
		s.tb.Fatalf("pgserver: start the server: %v", err)
	}
}

// Restart stops the server, if it runs, and starts it again.
func (s *Server) Restart() {
	s.mayBreak("restart").Helper()
	s.Stop()
	s.Start()
}

// Pause freezes all processes of the server, as a host that stops without dying:
// connections stay open and get no answer. It returns when none is running any
// more.
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

// PID is the server's main process, 0 while it is down.
func (s *Server) PID() int { return s.pid }

// mayBreak returns the test that owns the server. The shared one has many, and none
// of them may break it for the others.
func (s *Server) mayBreak(what string) TB {
	if s.tb == nil {
		panic("pgserver: the shared server can't " + what + "; use New")
	}
	return s.tb
}

func (s *Server) notPaused(what string) {
	s.tb.Helper()
	if s.paused {
		s.tb.Fatalf("pgserver: a paused server can't %s: Resume or Kill it first", what)
	}
}

func (s *Server) do(what string) {
	s.tb.Helper()
	if _, err := s.kept.Ask(keeper.Request{Do: what}); err != nil {
		s.tb.Fatalf("pgserver: %s the server: %v", what, err)
	}
}

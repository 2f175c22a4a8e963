package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fiftyhosts/fifty/faults/pgserver"
)

// dropMax bounds the end of a case's database.
const dropMax = time.Minute

// servers starts what cases need, at the first that needs it. A private server ends with this process,
// however that ends.
type servers struct {
	url     string // of a given server; that of the private one once it runs
	started *owner // of the private one
	made    int
	is      string // what it is; empty before its first use
}

var errNotPostgres = errors.New("--db wants a URL like postgres://user:password@host:5432/database")

// check says what is wrong with the server that was given, before anything is measured.
func (s *servers) check(ctx context.Context) error {
	address, err := url.Parse(s.url)
	if err != nil || address.Scheme != "postgres" && address.Scheme != "postgresql" {
		return errNotPostgres // the cause might show a password
	}
	if err := s.describe(ctx); err != nil {
		return fmt.Errorf("the server of --db can't be used: %w", err)
	}
	return nil
}

// describe learns what the figures depend on.
func (s *servers) describe(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return conn.QueryRow(ctx, `select format('Postgres %s, fsync %s, synchronous_commit %s, full_page_writes %s, shared_buffers %s',
    current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit'),
    current_setting('full_page_writes'), current_setting('shared_buffers'))`).Scan(&s.is)
}

// database makes an empty database and returns its URL and what drops it.
func (s *servers) database(ctx context.Context) (string, func() error, error) {
	if s.url == "" {
		server, err := startPostgres()
		if err != nil {
			return "", nil, err
		}
		s.started, s.url = server.owner, server.url
	}
	if s.is == "" {
		if err := s.describe(ctx); err != nil {
			return "", nil, err
		}
	}
	address, err := url.Parse(s.url)
	if err != nil {
		return "", nil, errNotPostgres
	}
	s.made++
	name := fmt.Sprintf("fifty_bench_%d_%d", os.Getpid(), s.made)
	if err := s.admin(ctx, "CREATE DATABASE "+name+" TEMPLATE template0"); err != nil {
		return "", nil, fmt.Errorf("make a database: %w", err)
	}
	address.Path = "/" + name
	return address.String(), func() error {
		ctx, cancel := context.WithTimeout(context.Background(), dropMax)
		defer cancel()
		if err := s.admin(ctx, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			return fmt.Errorf("drop a database: %w", err)
		}
		return nil
	}, nil
}

func (s *servers) admin(ctx context.Context, statement string) error {
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, statement)
	return err
}

func (s *servers) close() error {
	if s.started == nil {
		return nil
	}
	return s.started.end()
}

// settlePostgres brings a database to rest before it is measured: its tables vacuumed and analyzed, the log
// written out.
func settlePostgres(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, statement := range []string{"VACUUM (ANALYZE)", "CHECKPOINT"} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// An owner stands in for the test that pgserver's servers belong to.
type owner struct {
	cleanups []func()
	failures []error
}

type privateServer struct {
	url   string
	owner *owner
}

func startPostgres() (_ privateServer, err error) {
	o := &owner{}
	defer func() {
		switch cause := recover().(type) {
		case nil:
		case fatalError:
			err = errors.Join(cause, o.end())
		default:
			panic(cause)
		}
	}()
	return privateServer{pgserver.New(o).URL(), o}, nil
}

// fatalError ends what would have ended the test.
type fatalError struct{ error }

func (o *owner) Helper()            {}
func (o *owner) Name() string       { return "bench" }
func (o *owner) Failed() bool       { return len(o.failures) > 0 }
func (o *owner) Cleanup(end func()) { o.cleanups = append(o.cleanups, end) }

func (o *owner) Logf(format string, args ...any) {
	_, _ = fmt.Fprintf(os.Stderr, format+"\n", args...)
}

func (o *owner) Errorf(format string, args ...any) {
	o.failures = append(o.failures, fmt.Errorf(format, args...))
}

// Fatalf does not return.
func (o *owner) Fatalf(format string, args ...any) { panic(fatalError{fmt.Errorf(format, args...)}) }

// end runs the cleanups, the latest first.
func (o *owner) end() error {
	for len(o.cleanups) > 0 {
		last := len(o.cleanups) - 1
		end := o.cleanups[last]
		o.cleanups = o.cleanups[:last]
		end()
	}
	return errors.Join(o.failures...)
}

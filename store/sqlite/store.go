package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/internal/wall"
	"github.com/fiftyhosts/fifty/txn"
)

// Defaults and bounds of a Store's connections.
const (
	busyTimeoutDefault = 5 * time.Second
	readersDefault     = 4
	dbConnsMax         = 16 // of DB; DB().SetMaxOpenConns changes it
	idleMax            = 4
)

// Config is that of Open. The zero value works.
type Config struct {
	// Now is the host's clock. The file's own time is made from it and never goes back; see the package's
	// doc. Defaults to time.Now.
	Now func() time.Time

	// BusyTimeout is how long a statement waits while another process, or a transaction of DB, holds the
	// file's write lock; it ends sooner with the call's context. Defaults to 5 s.
	BusyTimeout time.Duration

	// Readers bounds the connections that Find reads from; more calls than that queue. Defaults to 4.
	Readers int

	before  func(ctx context.Context, point string) // a test's look at each statement
	sql     statements                              // a test's own SQL
	pragmas []string                                // a test's bounds of a connection
}

func (c Config) withDefaults() Config {
	if c.Now == nil {
		c.Now = wall.Now
	}
	if c.BusyTimeout == 0 {
		c.BusyTimeout = busyTimeoutDefault
	}
	if c.Readers == 0 {
		c.Readers = readersDefault
	}
	if c.sql == (statements{}) {
		c.sql = shipped
	}
	return c
}

// Validate returns a *fifty.InvalidError that names the first field that is wrong, or nil.
func (c Config) Validate() error {
	switch {
	case c.BusyTimeout < 0:
		return &fifty.InvalidError{Field: "Config.BusyTimeout", Problem: "is negative; leave it zero for the default"}
	case c.BusyTimeout != 0 && c.BusyTimeout < time.Millisecond:
		return &fifty.InvalidError{Field: "Config.BusyTimeout", Problem: "is below a millisecond, which is SQLite's unit"}
	case c.Readers < 0:
		return &fifty.InvalidError{Field: "Config.Readers", Problem: "is negative; leave it zero for the default"}
	}
	return nil
}

// Store is one open file. It is safe for concurrent use, and so is the file by any number of Stores in any
// number of processes of one host.
type Store struct {
	cfg   Config
	sql   *statements
	clock *clock

	addHolds []statement     // at i: of 1<<i rows
	reused   map[string]bool // texts that are worth keeping prepared on each connection

	turn     turn      // of this process at the writer
	writer   *sql.DB   // one connection
	readers  *sql.DB   // of Find
	db       *sql.DB   // the caller's
	underway *underway // keys of transactions of this process

	calls atomic.Int64 // that wanted the writer, but for those of sweeps and erasures
}

// Open opens the database file at path, or makes it, readable and writable by this user alone; its folder
// must exist. It makes no tables: see Migrate. The errors say what is wrong with path, and nothing stays
// open after one. ctx governs Open only. Close the Store when done with it.
func Open(ctx context.Context, path string, cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	isNew, err := check(path)
	if err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	s := &Store{cfg: cfg, clock: newClock(cfg.Now), turn: newTurn(), underway: newUnderway()}
	s.sql = &s.cfg.sql
	s.addHolds = s.sql.stock.add.severalRows()
	s.reused = s.sql.reused(s.addHolds)
	if err := s.connect(path); err != nil {
		return nil, fmt.Errorf("sqlite: open %s: %w", path, err)
	}
	if err := s.prepareFile(ctx, path, isNew); err != nil {
		return nil, errors.Join(explain("open "+path, err), s.Close())
	}
	return s, nil
}

// check says whether the file is still to be made, and names the usual mistakes, which SQLite all calls
// "unable to open".
func check(path string) (isNew bool, err error) {
	switch {
	case path == "":
		return false, &fifty.InvalidError{Field: "path", Problem: "is empty; name a file"}
	case path == ":memory:":
		return false, &fifty.InvalidError{Field: "path", Problem: "is :memory:, which each connection has for itself; use store/memory"}
	case strings.HasPrefix(path, "file:"):
		return false, &fifty.InvalidError{Field: "path", Problem: "is a URI; give the file's path alone"}
	case strings.ContainsRune(path, 0):
		return false, &fifty.InvalidError{Field: "path", Problem: "has a zero byte"}
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return false, fmt.Errorf("sqlite: open %s: it is a folder; name a file", path)
	case err == nil:
		return false, nil
	case !errors.Is(err, fs.ErrNotExist):
		return false, fmt.Errorf("sqlite: open: %w", err)
	}
	folder, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return false, fmt.Errorf("sqlite: open %s: its folder can't be read; make it first: %w", path, err)
	}
	if !folder.IsDir() {
		return false, fmt.Errorf("sqlite: open %s: %s is not a folder", path, filepath.Dir(path))
	}
	return true, nil
}

// connect makes the three pools. Connections are opened when they are first needed, which is why the path
// must not depend on the working directory.
func (s *Store) connect(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if s.writer, err = s.pool(path, 1); err != nil {
		return err
	}
	if s.readers, err = s.pool(path, s.cfg.Readers, "query_only(1)"); err != nil {
		return err
	}
	s.db, err = s.pool(path, dbConnsMax)
	return err
}

// pool makes a pool of at most conns connections, each set up by the same pragmas.
func (s *Store) pool(path string, conns int, pragmas ...string) (*sql.DB, error) {
	// FULL: a commit that was acknowledged is on the disk.
	pragmas = slices.Concat([]string{"synchronous(FULL)"}, pragmas, s.cfg.pragmas)
	q := url.Values{
		"_txlock":       {"immediate"}, // a transaction that reads first and writes later can't find its snapshot overtaken
		"_busy_timeout": {strconv.FormatInt(s.cfg.BusyTimeout.Milliseconds(), 10)},
		"_foreign_keys": {"1"},
		"_time_format":  {"sqlite"},
		"_error_rc":     {"1"},
		"_pragma":       pragmas,
	}
	name := (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath()
	if filepath.VolumeName(path) != "" {
		name = "/" + name
	}
	c, err := newConnector("file:"+name+"?"+q.Encode(), s.reused, s.nested)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(c)
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(min(conns, idleMax))
	return db, nil
}

// logMax bounds how long Open asks for the write-ahead log, which is refused while another process is doing
// the same or, in a file that has none yet, reads.
const logMax = 10 * time.Second

// prepareFile makes the file if need be, and sees to it that it can be written and has a write-ahead log.
func (s *Store) prepareFile(ctx context.Context, path string, isNew bool) error {
	conn, err := s.writer.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if isNew {
		// It will hold answers and secrets. The files beside it get the mode that it has.
		if err := os.Chmod(path, 0o600); err != nil {
			return err
		}
	}
	if err := conn.Raw(writable); err != nil {
		return err
	}
	return useLog(ctx, conn)
}

// writable fails for a file that SQLite could open for reading only; it would say so at the first write.
func writable(conn any) error {
	readOnly, err := conn.(*watched).IsReadOnly("main")
	if err == nil && readOnly {
		return errors.New("the file can't be written; it and its folder must be this user's to write")
	}
	return err
}

// useLog switches the file to the write-ahead log, which it stays in, and asks again while others do the same.
func useLog(ctx context.Context, conn *sql.Conn) error {
	limited, cancel := context.WithTimeout(ctx, logMax)
	defer cancel()
	for {
		var mode string
		err := conn.QueryRowContext(limited, `PRAGMA journal_mode = WAL`).Scan(&mode)
		switch {
		case err == nil && mode != "wal":
			return fmt.Errorf("its file system has no write-ahead log (journal mode %s); use a local disk", mode)
		case err == nil:
			return nil
		case classify(err) == txn.Retryable && pause(limited, 10*time.Millisecond) == nil:
			continue
		case limited.Err() != nil && ctx.Err() == nil:
			return fmt.Errorf("others kept the file from getting a write-ahead log for %v: %w", logMax, err)
		}
		return cause(ctx, err)
	}
}

// pause waits for d or until ctx is done.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// DB returns connections to the same file for tables of your own. Its transactions begin IMMEDIATE unless
// they are read-only, foreign keys are checked, and it is yours to tune but not to close. A transaction of
// DB waits for the store's own like one of another process: up to Config.BusyTimeout, and in no order.
// Within InTx use the transaction that it gives you: a write through DB would wait for it, and a transaction
// of DB that is begun with the function's context is refused with ErrNested.
func (s *Store) DB() *sql.DB { return s.db }

// Close closes the file. Calls that are under way fail or finish; later ones fail.
func (s *Store) Close() error {
	return errors.Join(s.db.Close(), s.readers.Close(), s.writer.Close())
}

// point lets a test hold the caller just before a statement.
func (s *Store) point(ctx context.Context, name string) {
	if s.cfg.before != nil {
		s.cfg.before(ctx, name)
	}
}

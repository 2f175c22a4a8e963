package postgres

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fiftyhosts/fifty"
)

// Defaults of Config, and its bounds.
const (
	schemaDefault  = "fifty"
	idleMaxDefault = 30 * time.Second
	idleMaxMax     = 24 * time.Hour
)

// Config is that of New and NewDB. The zero value works. A field that is wrong is reported by every call,
// as a *fifty.InvalidError.
type Config struct {
	// Schema is where the tables are: lower-case letters, digits and _, not beginning with a digit or pg_,
	// at most 63. Two schemas of one database share nothing. Defaults to "fifty".
	Schema string

	// IdleMax is how long a transaction that Fifty opens may wait for its host before the server ends it
	// and its keys are free again; whole milliseconds, at most 24 h. It must be longer than the longest
	// pause between two statements of a function. Defaults to 30 s.
	IdleMax time.Duration
}

func (c Config) withDefaults() Config {
	if c.Schema == "" {
		c.Schema = schemaDefault
	}
	if c.IdleMax == 0 {
		c.IdleMax = idleMaxDefault
	}
	return c
}

var schemaPattern = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// Validate returns a *fifty.InvalidError that names the first field that is wrong, or nil.
func (c Config) Validate() error {
	c = c.withDefaults()
	switch {
	case !schemaPattern.MatchString(c.Schema) || strings.HasPrefix(c.Schema, "pg_"):
		return &fifty.InvalidError{
			Field:   "Config.Schema",
			Problem: fmt.Sprintf("is %q; it takes 1 to 63 of a-z, 0-9 and _, and does not begin with a digit or pg_", c.Schema),
		}
	case c.IdleMax < time.Millisecond || c.IdleMax > idleMaxMax:
		return &fifty.InvalidError{
			Field:   "Config.IdleMax",
			Problem: fmt.Sprintf("is %v; it can be from 1 ms to %v", c.IdleMax, idleMaxMax),
		}
	}
	return nil
}

// idleMax is IdleMax as the server's settings want it: milliseconds.
func (c Config) idleMax() string { return strconv.FormatInt(c.IdleMax.Milliseconds(), 10) }

// Store is Fifty's state in one schema of one database. Tx is the type of its transactions. It is safe for
// concurrent use, by any number of processes.
type Store[Tx any] struct {
	engine     engine[Tx]
	hook       *hook
	cfg        Config
	statements *statements
	stock      *stockState
	marks      *marks
	won        *wins
}

// New makes a Store over a pgx pool, which stays the caller's to close. It sends nothing.
func New(pool *pgxpool.Pool, cfg Config) *Store[pgx.Tx] {
	h := &hook{}
	return newStore(cfg, h, engine[pgx.Tx](&pgxEngine{pool: pool, hook: h}))
}

// NewDB makes a Store over database/sql with pgx's stdlib driver; db stays the caller's to close. It sends
// nothing. A transaction takes more round trips here than with New.
func NewDB(db *sql.DB, cfg Config) *Store[*sql.Tx] {
	h := &hook{}
	return newStore(cfg, h, engine[*sql.Tx](&sqlEngine{db: db, hook: h}))
}

func newStore[Tx any](cfg Config, h *hook, e engine[Tx]) *Store[Tx] {
	if err := cfg.Validate(); err != nil {
		e = invalidEngine[Tx]{err}
		cfg = Config{}
	}
	cfg = cfg.withDefaults()
	return &Store[Tx]{
		engine: e, hook: h, cfg: cfg, statements: statementsFor(cfg.Schema), stock: newStockState(cfg.Schema), marks: &marks{},
		won: &wins{of: map[string]int64{}},
	}
}

// lockNumber names the advisory lock of a key. SHA-256, so that nobody can make a key that has another
// caller's number.
func (s *Store[Tx]) lockNumber(scope, key string) int64 {
	sum := sha256.New()
	for _, part := range []string{s.cfg.Schema, "\x00", scope, "\x00", key} {
		_, _ = io.WriteString(sum, part) // a hash never fails
	}
	return int64(binary.BigEndian.Uint64(sum.Sum(nil)))
}

// raceTries bounds how often a statement runs that lost a race and changed nothing, and how often a record
// is looked at that changes under the look.
const raceTries = 8

// run runs one statement in a transaction of its own. At a stricter isolation than read committed it can
// lose a race (40001) with nothing changed; it then runs again.
func (s *Store[Tx]) run(ctx context.Context, c *call) error {
	var err error
	for range raceTries {
		if err = s.engine.run(ctx, c); !isLostRace(err) {
			return err
		}
	}
	return err
}

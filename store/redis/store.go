package redis

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"github.com/fiftyhosts/fifty"
)

const (
	prefixDefault   = "fifty"
	prefixMax       = 100 // bytes
	checkMaxDefault = 200_000
)

// Config is that of New. The zero value works.
type Config struct {
	// Prefix begins all keys of the store, as their hash tag: "{fifty}:stock". Two stores with the same are one.
	// Defaults to "fifty".
	Prefix string

	// CheckMax is the most records that Ledger.Check reads, in one script during which Redis serves nobody.
	// Defaults to 200,000.
	CheckMax int
}

// Validate returns a *fifty.InvalidError that names the first field that is wrong, or nil.
func (c Config) Validate() error {
	switch {
	case len(c.Prefix) > prefixMax:
		return &fifty.InvalidError{Field: "Config.Prefix", Problem: fmt.Sprintf("has %d bytes; the most is %d", len(c.Prefix), prefixMax)}
	case strings.ContainsAny(c.Prefix, "{}\x00"):
		return &fifty.InvalidError{Field: "Config.Prefix", Problem: "has a brace or NUL, which would make another hash tag; leave it out"}
	case c.CheckMax < 0:
		return &fifty.InvalidError{Field: "Config.CheckMax", Problem: "is negative; leave it zero for the default"}
	}
	return nil
}

// Store is a place in Redis. It is safe for concurrent use, and any number of processes may share one. The
// client is the caller's, who closes it.
type Store struct {
	client   rueidis.Client
	keys     []string // in the order in which scripts name them
	checkMax int
	step     func(ctx context.Context, point string) // called before each script; a test's
}

// New makes a Store. Nothing is sent: Redis needs no preparation. It panics when cfg is not valid or client is
// nil. Call [Store.Check] at the program's start.
func New(client rueidis.Client, cfg Config) *Store {
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	if client == nil {
		panic(&fifty.InvalidError{Field: "client", Problem: "is nil"})
	}
	if cfg.Prefix == "" {
		cfg.Prefix = prefixDefault
	}
	if cfg.CheckMax == 0 {
		cfg.CheckMax = checkMaxDefault
	}
	s := &Store{client: client, checkMax: cfg.CheckMax, step: func(context.Context, string) {}}
	for _, name := range []string{"stock", "order", "seconds", "ends", "delivered"} {
		s.keys = append(s.keys, "{"+cfg.Prefix+"}:"+name)
	}
	return s
}

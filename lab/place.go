package lab

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/fiftyhosts/fifty/server"
)

// schemaPrefix begins the name of every schema and, with hyphens, of every folder that the lab makes.
const schemaPrefix = "fifty_lab_"

// Bounds of talking to a database before and after the runs.
const (
	connectMax = 5 * time.Second  // to reach it
	dropMax    = 30 * time.Second // to drop a schema
	staleMax   = 100              // leftovers that one start takes away
)

// A place is where the lab keeps its tables, apart from all others.
type place interface {
	name() string                             // for people; no password
	fresh(ctx context.Context) (world, error) // an empty place for one run
	drop(ctx context.Context, w world) error  // takes it away again; an error names what is left
	explain(err error) error                  // adds what to do
	close() error                             // takes away what is left; an error names it
}

// openPlace finds the place that a URL names. Nothing is left behind by an error.
func openPlace(ctx context.Context, dbURL string, hosts int) (place, error) {
	scheme, rest, _ := strings.Cut(dbURL, ":")
	switch {
	case dbURL == "":
		return newFolder(os.TempDir(), "")
	case scheme == "memory":
		return nil, errors.New("the database memory: is one process's own, and the lab's hosts are processes that must share one; leave --db away for a temporary file, or write sqlite://PATH or postgres://USER@HOST/NAME")
	case scheme == "sqlite":
		path, ok := strings.CutPrefix(rest, "//")
		if !ok || path == "" || strings.ContainsAny(path, "?#") {
			return nil, &server.URLError{Problem: "a sqlite URL is sqlite:// and the path of a file, without options"}
		}
		return newFolder(filepath.Dir(path), path)
	default:
		return openServer(ctx, dbURL, hosts)
	}
}

// serverPlace is schemas of a Postgres database.
type serverPlace struct {
	url   string
	shown *server.Backend // knows how to talk about it
	conns int
	db    *sql.DB
	mark  *sql.Conn // holds the lock on each schema that is ours
}

// idleHostsMax is how many hosts may each keep a connection open: a Postgres server takes 100 by default.
const idleHostsMax = 40

func openServer(ctx context.Context, dbURL string, hosts int) (place, error) {
	shown, err := server.OpenBackend(ctx, dbURL) // says what is wrong with the URL; reaches nothing
	if err != nil {
		return nil, err
	}
	if err := shown.Close(); err != nil {
		return nil, err
	}
	cfg, err := pgx.ParseConfig(dbURL)
	if err != nil {
		return nil, &server.URLError{Problem: "the URL has options that the lab can't use; leave those of pools away"}
	}
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = connectMax
	}
	p := &serverPlace{url: dbURL, shown: shown, db: stdlib.OpenDB(*cfg)}
	if hosts <= idleHostsMax {
		p.conns = 1
	}
	if p.mark, err = p.db.Conn(ctx); err != nil {
		return nil, errors.Join(p.explain(err), p.db.Close())
	}
	if err := p.tidy(ctx); err != nil {
		return nil, errors.Join(p.explain(err), p.close())
	}
	return p, nil
}

func (p *serverPlace) name() string            { return p.shown.Name }
func (p *serverPlace) explain(err error) error { return p.shown.Explain(err) }

// fresh is not ended by ctx: who breaks off a create doesn't know whether there is something to drop.
func (p *serverPlace) fresh(ctx context.Context) (world, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropMax)
	defer cancel()
	schema := schemaPrefix + randomName()
	// The lock comes first, so that nobody takes the schema for a leftover. It ends with the connection.
	if _, err := p.mark.ExecContext(ctx, `select pg_advisory_lock(hashtextextended($1, 0))`, schema); err != nil {
		return world{}, err
	}
	if _, err := p.mark.ExecContext(ctx, `create schema `+schema); err != nil {
		return world{}, err
	}
	return world{URL: p.url, Schema: schema, Conns: p.conns}, nil
}

func (p *serverPlace) drop(ctx context.Context, w world) error {
	ctx, cancel := context.WithTimeout(ctx, dropMax)
	defer cancel()
	if _, err := p.db.ExecContext(ctx, `drop schema if exists `+w.Schema+` cascade`); err != nil {
		return fmt.Errorf("schema %s is left in %s; drop it (drop schema %s cascade): %w", w.Schema, p.name(), w.Schema, err)
	}
	_, err := p.mark.ExecContext(ctx, `select pg_advisory_unlock(hashtextextended($1, 0))`, w.Schema)
	return err
}

// tidy takes away what killed runs have left: schemas of ours on which nobody holds the lock.
func (p *serverPlace) tidy(ctx context.Context) error {
	rows, err := p.mark.QueryContext(ctx,
		`select nspname from pg_namespace
		where nspname like 'fifty\_lab\_%' and pg_get_userbyid(nspowner) = current_user
		order by nspname limit $1`, staleMax)
	if err != nil {
		return err
	}
	defer rows.Close()
	var found []string
	for rows.Next() {
		var schema string
		if err := rows.Scan(&schema); err != nil {
			return err
		}
		if isOurs(schema) {
			found = append(found, schema)
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, schema := range found {
		var free bool
		err := p.mark.QueryRowContext(ctx, `select pg_try_advisory_lock(hashtextextended($1, 0))`, schema).Scan(&free)
		if err != nil {
			return err
		}
		if free {
			if err := p.drop(ctx, world{Schema: schema}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *serverPlace) close() error { return errors.Join(p.mark.Close(), p.db.Close()) }

// randomName is the part of a name that is nobody else's.
func randomName() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// isOurs says whether a schema's name is one that fresh makes.
func isOurs(schema string) bool {
	random, ok := strings.CutPrefix(schema, schemaPrefix)
	raw, err := hex.DecodeString(random)
	return ok && err == nil && len(raw) == 8
}

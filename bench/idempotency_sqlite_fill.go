package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/store/sqlite"
)

// sqliteFill writes ?1 records of key ?2 in the given state, made one after another, a millisecond apart. Their
// parts are as long as those of a real request: a fingerprint of 33 bytes, an attempt of 26, and an answer as
// orderAnswer makes it, which a tombstone has not.
const sqliteFill = `WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?1)
INSERT INTO fifty_keys (scope, key, fingerprint, state, token, attempt, owner, resume, expires, status, header, body, created, changed)
SELECT ?2, %s, randomblob(33), ?3, 1, hex(randomblob(13)), ?4, 0, ?5 + i * 1000 + 30000000,
	CASE ?3 WHEN 2 THEN 201 ELSE 0 END,
	CASE ?3 WHEN 2 THEN '{"Content-Type":["application/json"],"Location":["/orders/' || i || '"]}' END,
	CASE ?3 WHEN 2 THEN CAST('{"id":' || i || ',"customer":"cus_NffrFeUfNV2Hib","amount":1999,"currency":"eur","state":"accepted"}' AS BLOB) END,
	?5 + i * 1000, ?5 + i * 1000
FROM (SELECT i, hex(randomblob(16)) AS h FROM n)`

// The keys of a fill: UUIDs of version 4, in no order, or of version 7, each later than the one before.
const (
	sqliteRandom  = `lower(substr(h, 1, 8)) || '-' || substr(h, 9, 4) || '-4' || substr(h, 14, 3) || '-8' || substr(h, 18, 3) || '-' || substr(h, 21, 12)`
	sqliteOrdered = `printf('%08x-%04x-7', (?5 / 1000 + i) >> 16, (?5 / 1000 + i) & 65535) || substr(h, 14, 3) || '-8' || substr(h, 18, 3) || '-' || substr(h, 21, 12)`
)

// sqliteFile is a file with n records, which began their time at began.
type sqliteFile struct {
	n     int
	keys  string
	state idempotency.State
	began time.Time
}

// write makes the file at path.
func (f sqliteFile) write(ctx context.Context, b *bench, path string) error {
	s, err := sqlite.Open(ctx, path, sqlite.Config{})
	if err != nil {
		return err
	}
	if err := errors.Join(s.Migrate(ctx), s.Close()); err != nil {
		return err
	}
	start := time.Now()
	if err := f.fill(ctx, path); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	took := time.Since(start)
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	b.progress("filled %s records in %.1fs: %d MiB", count(float64(f.n)), took.Seconds(), info.Size()>>20)
	return syncFile(path) // or the disk would be busy with it while others are measured
}

// fill keeps no journal: a file that is half filled is thrown away.
func (f sqliteFile) fill(ctx context.Context, path string) error {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	for _, pragma := range []string{"journal_mode = OFF", "synchronous = OFF", "locking_mode = EXCLUSIVE", "cache_size = -3000000"} {
		if _, err := db.ExecContext(ctx, "PRAGMA "+pragma); err != nil {
			return err
		}
	}
	if _, err := db.ExecContext(ctx, fmt.Sprintf(sqliteFill, f.keys), f.n, benchScope, f.state, handOwner, f.began.UnixMicro()); err != nil {
		return err
	}
	return db.Close()
}

func syncFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

// openSQLite opens a store, which is closed after the case.
func openSQLite(ctx context.Context, b *bench, path string) (*sqlite.Store, error) {
	s, err := sqlite.Open(ctx, path, sqlite.Config{})
	if err != nil {
		return nil, err
	}
	b.Cleanup(s.Close)
	return s, s.Migrate(ctx)
}

// copyFile copies a database that nobody has open.
func copyFile(from, folder, name string) (string, error) {
	in, err := os.Open(from)
	if err != nil {
		return "", err
	}
	defer in.Close()
	to := filepath.Join(folder, name)
	out, err := os.Create(to)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(out, in)
	return to, errors.Join(err, out.Sync(), out.Close())
}

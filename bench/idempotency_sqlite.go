package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
)

var sqliteCases = []Case{
	{
		Name: "sqlite-claim-5-million",
		Goal: atMost(1.5),
		What: "One client claims new keys, UUIDs of version 4. Ours: a file with 5 million answers. Theirs: one with 10,000.",
		Run: func(ctx context.Context, b *bench) (float64, error) {
			return sqliteClaims(ctx, b, sqliteRandom, func(time.Time) string { return randomKey() })
		},
	},
	{
		Name: "sqlite-claim-5-million-ordered",
		Goal: atMost(1.5),
		What: "The same with UUIDs of version 7, which come in the order of time.",
		Run: func(ctx context.Context, b *bench) (float64, error) {
			return sqliteClaims(ctx, b, sqliteOrdered, orderedKey)
		},
	},
	{
		Name: "sqlite-do-alone",
		Goal: noGoal(),
		What: "One client. Ours: Do of an empty handler. Theirs: an insert and an update of the same row by hand, two transactions.",
		Run:  sqliteAlone,
	},
}

// sqliteClaims compares claims in a large file with those in a small one.
func sqliteClaims(ctx context.Context, b *bench, keys string, key func(at time.Time) string) (float64, error) {
	b.Explain("How a file is filled, in one statement (random keys: %s):\n"+sqliteFill, "a UUID of version 4 made of randomblob(16)", "KEY")
	folder, err := tempFolder(b)
	if err != nil {
		return 0, err
	}
	n := manyRecords
	if b.Rough {
		n = manyRecordsRough
	}
	claims := func(n int) (Side, error) {
		path := filepath.Join(folder, fmt.Sprint(n, ".db"))
		file := sqliteFile{n, keys, idempotency.Done, time.Now().Add(-time.Duration(n) * time.Millisecond)}
		if err := file.write(ctx, b, path); err != nil {
			return Side{}, err
		}
		s, err := openSQLite(ctx, b, path)
		return Side{Name: fmt.Sprint("among ", count(float64(n))), Op: func(ctx context.Context, _ int) error {
			a := idempotency.Attempt{ID: rand.Text(), Request: benchRequest(key(time.Now())), Owner: handOwner, Lease: 30 * time.Second}
			won, err := s.Keys().Claim(ctx, []idempotency.Attempt{a})
			if err == nil && !won[0].Won {
				err = errTwice
			}
			return err
		}}, err
	}
	many, err := claims(n)
	if err != nil {
		return 0, err
	}
	few, err := claims(fewRecords)
	if err != nil {
		return 0, err
	}
	r, err := latency(ctx, b, many, few)
	if err != nil {
		return 0, err
	}
	err = b.profiled(true, 0, func() error { return times(ctx, b.Calls, many.Op) })
	return r.Median, err
}

// times calls op n times.
func times(ctx context.Context, n int, op func(ctx context.Context, worker int) error) error {
	for range n {
		if err := op(ctx, 0); err != nil {
			return err
		}
	}
	return nil
}

const (
	handTableSQLite = `CREATE TABLE requests (
	scope TEXT NOT NULL, key TEXT NOT NULL, fingerprint BLOB NOT NULL, state INTEGER NOT NULL, attempt TEXT NOT NULL,
	owner TEXT NOT NULL, expires INTEGER NOT NULL, status INTEGER, header TEXT, body BLOB, created INTEGER NOT NULL,
	PRIMARY KEY (scope, key))`
	handClaimSQLite = `INSERT INTO requests (scope, key, fingerprint, state, attempt, owner, expires, created)
	VALUES (?1, ?2, ?3, 1, ?4, ?5, ?6, ?7) ON CONFLICT DO NOTHING`
	handCompleteSQLite = `UPDATE requests SET state = 2, status = ?4, header = ?5, body = ?6
	WHERE scope = ?1 AND key = ?2 AND attempt = ?3 AND state = 1`
)

// sqliteAlone compares Do with what a person would write, each in a file of its own.
func sqliteAlone(ctx context.Context, b *bench) (float64, error) {
	b.Explain("Theirs, prepared, on one connection with synchronous = FULL and a write-ahead log:\n%s;\n%s;\n%s", handTableSQLite, handClaimSQLite, handCompleteSQLite)
	folder, err := tempFolder(b)
	if err != nil {
		return 0, err
	}
	s, err := openSQLite(ctx, b, filepath.Join(folder, "ours.db"))
	if err != nil {
		return 0, err
	}
	keys := idempotency.New(s.Keys(), idempotency.Config{Owner: handOwner})
	ours := func(ctx context.Context, _ int) error {
		_, err := keys.Do(ctx, benchRequest(randomKey()), func(context.Context) (idempotency.Response, error) { return orderAnswer(1), nil })
		return err
	}
	theirs, err := sqliteByHand(ctx, b, filepath.Join(folder, "theirs.db"))
	if err != nil {
		return 0, err
	}
	r, err := latency(ctx, b, Side{Name: "Do", Op: ours}, Side{Name: "by hand", Op: theirs})
	if err != nil {
		return 0, err
	}
	err = b.profiled(true, 0, func() error { return times(ctx, b.Calls, ours) })
	return r.Median, err
}

func sqliteByHand(ctx context.Context, b *bench, path string) (func(ctx context.Context, worker int) error, error) {
	db, err := sql.Open("sqlite", path+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		return nil, err
	}
	b.Cleanup(db.Close)
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, handTableSQLite); err != nil {
		return nil, err
	}
	claim, err := db.PrepareContext(ctx, handClaimSQLite)
	if err != nil {
		return nil, err
	}
	complete, err := db.PrepareContext(ctx, handCompleteSQLite)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, _ int) error {
		key, attempt, now := randomKey(), rand.Text(), time.Now()
		_, err := claim.ExecContext(ctx, benchScope, key, []byte(benchPrint), attempt, handOwner, now.Add(30*time.Second).UnixMicro(), now.UnixMicro())
		if err != nil {
			return err
		}
		r := orderAnswer(1)
		header, err := json.Marshal(r.Header)
		if err != nil {
			return err
		}
		_, err = complete.ExecContext(ctx, benchScope, key, attempt, r.Status, string(header), r.Body)
		return err
	}, nil
}

package main

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"time"

	"github.com/fiftyhosts/fifty/inventory"
)

// sqliteCallers share one file.
const sqliteCallers = 64

var sqliteSaleCases = []Case{
	{
		Name: "sqlite-64",
		Goal: atLeast(14),
		What: "64 callers of one process reserve one unit of one SKU in a file. Ours: Reserve, Combined. Theirs: a transaction each of a conditional decrement and an insert, by hand.",
		Run: func(ctx context.Context, b *bench) (float64, error) {
			ours, theirs, err := sqliteSale(ctx, b)
			if err != nil {
				return 0, err
			}
			r, err := throughput(ctx, b, sqliteCallers, ours, theirs)
			return r.Median, err
		},
	},
	{
		Name: "sqlite-alone",
		Goal: atMost(1.05),
		What: "One caller: latency.",
		Run: func(ctx context.Context, b *bench) (float64, error) {
			ours, theirs, err := sqliteSale(ctx, b)
			if err != nil {
				return 0, err
			}
			r, err := latency(ctx, b, ours, theirs)
			if err != nil {
				return 0, err
			}
			err = b.profiled(true, 0, func() error { return times(ctx, b.Calls, ours.Op) })
			return r.Median, err
		},
	},
}

const (
	handStockSQLite = `CREATE TABLE stock (
	sku TEXT NOT NULL PRIMARY KEY, supply INTEGER NOT NULL CHECK (supply = available + held + sold),
	available INTEGER NOT NULL CHECK (available >= 0), held INTEGER NOT NULL CHECK (held >= 0),
	sold INTEGER NOT NULL CHECK (sold >= 0)) STRICT, WITHOUT ROWID`
	handHoldsSQLite = `CREATE TABLE holds (
	id TEXT NOT NULL PRIMARY KEY, items TEXT NOT NULL, state INTEGER NOT NULL,
	expires INTEGER NOT NULL, reserved INTEGER NOT NULL) STRICT`
	handTakeSQLite = `UPDATE stock SET available = available - ?2, held = held + ?2 WHERE sku = ?1 AND available >= ?2`
	handHoldSQLite = `INSERT INTO holds (id, items, state, expires, reserved) VALUES (?1, ?2, 1, ?3, ?4)`
)

// sqliteSale makes a file for each side.
func sqliteSale(ctx context.Context, b *bench) (ours, theirs Side, err error) {
	b.Explain("Theirs, prepared, on one connection with synchronous = FULL and a write-ahead log:\n%s;\n%s;\nBEGIN IMMEDIATE; %s; %s; COMMIT",
		handStockSQLite, handHoldsSQLite, handTakeSQLite, handHoldSQLite)
	folder, err := tempFolder(b)
	if err != nil {
		return ours, theirs, err
	}
	s, err := openSQLite(ctx, b, filepath.Join(folder, "ours.db"))
	if err != nil {
		return ours, theirs, err
	}
	stock := inventory.New(s.Stock(), inventory.Config{})
	if err := stock.Supply(ctx, "delivery", inventory.Items{saleSKU: saleSupply}); err != nil {
		return ours, theirs, err
	}
	ours = Side{Name: "Reserve", Op: func(ctx context.Context, _ int) error {
		_, err := stock.Reserve(ctx, saleID(), inventory.Items{saleSKU: 1}, saleTTL)
		return err
	}}
	op, err := sqliteSaleByHand(ctx, b, filepath.Join(folder, "theirs.db"))
	return ours, Side{Name: "by hand", Op: op}, err
}

func sqliteSaleByHand(ctx context.Context, b *bench, path string) (func(ctx context.Context, worker int) error, error) {
	db, err := sql.Open("sqlite", path+"?_txlock=immediate&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		return nil, err
	}
	b.Cleanup(db.Close)
	db.SetMaxOpenConns(1)
	for _, ddl := range []string{handStockSQLite, handHoldsSQLite} {
		if _, err := db.ExecContext(ctx, ddl); err != nil {
			return nil, err
		}
	}
	if _, err := db.ExecContext(ctx, `INSERT INTO stock VALUES (?1, ?2, ?2, 0, 0)`, saleSKU, saleSupply); err != nil {
		return nil, err
	}
	take, err := db.PrepareContext(ctx, handTakeSQLite)
	if err != nil {
		return nil, err
	}
	hold, err := db.PrepareContext(ctx, handHoldSQLite)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, _ int) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() //nolint:errcheck // after the commit it does nothing
		taken, err := tx.StmtContext(ctx, take).ExecContext(ctx, saleSKU, 1)
		if err != nil {
			return err
		}
		if n, err := taken.RowsAffected(); err != nil || n != 1 {
			return errors.Join(inventory.ErrSoldOut, err)
		}
		now := time.Now()
		_, err = tx.StmtContext(ctx, hold).ExecContext(ctx, saleID(), `{"`+saleSKU+`":1}`, now.Add(saleTTL).Unix(), now.UnixMicro())
		if err != nil {
			return err
		}
		return tx.Commit()
	}, nil
}

package main

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fiftyhosts/fifty/idempotency"
)

// recordInsert is the hand-written record: all columns that Fifty writes for an answer that is done.
const recordInsert = `insert into records
    (scope, key, fingerprint, state, token, attempt, owner, resume, status, header, body, not_replayable)
values
    ($1::text, $2::text, $3::bytea, 2, 1, $4::text, $5::text, false, $6::integer, $7::bytea, $8::bytea, false)`

// recordArgs are those of recordInsert.
func recordArgs(key string, r idempotency.Response) ([]any, error) {
	header, err := json.Marshal(r.Header)
	if err != nil {
		return nil, err
	}
	return []any{benchScope, key, []byte(benchPrint), key, handOwner, int32(r.Status), header, r.Body}, nil
}

// handSequential is what most would write: a message for each statement.
func (w *pgWorld) handSequential(ctx context.Context) error {
	key := w.key()
	return pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		r, err := order(ctx, tx)
		if err != nil {
			return err
		}
		args, err := recordArgs(key, r)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, recordInsert, args...)
		return err
	})
}

// handBatched sends what can go together in one pgx.Batch: begin with the order, the record with commit.
func (w *pgWorld) handBatched(ctx context.Context) error {
	key := w.key()
	return w.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		var id int64
		first := &pgx.Batch{}
		first.BeginTx(pgx.TxOptions{})
		first.Queue(orderInsert, customer, 1999).QueryRow(func(row pgx.Row) error { return row.Scan(&id) })
		results := conn.SendBatch(ctx, first)
		tx := results.Tx()
		if err := results.Close(); err != nil {
			return err
		}
		args, err := recordArgs(key, orderAnswer(id))
		if err != nil {
			return errors.Join(err, tx.Rollback(ctx))
		}
		last := &pgx.Batch{}
		last.Queue(recordInsert, args...)
		last.Queue("commit")
		return tx.SendBatch(ctx, last).Close()
	})
}

// prepared is a statement that handPipelined has on each connection.
type prepared struct{ name, sql string }

var (
	preparedBegin  = prepared{"hand_begin", "begin"}
	preparedOrder  = prepared{"hand_order", orderInsert}
	preparedRecord = prepared{"hand_record", recordInsert}
	preparedCommit = prepared{"hand_commit", "commit"}
)

// handPipelined is handBatched by pgconn.Pipeline and statements that were prepared beforehand.
func (w *pgWorld) handPipelined(ctx context.Context) error {
	key := w.key()
	return w.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		p, err := newPipe(ctx, conn.Conn())
		if err != nil {
			return err
		}
		defer p.Close() // after an error it closes the connection
		var id int64
		if err := p.queue(preparedBegin); err != nil {
			return err
		}
		if err := p.queue(preparedOrder, customer, 1999); err != nil {
			return err
		}
		if err := p.flush(nil, &id); err != nil {
			return err
		}
		args, err := recordArgs(key, orderAnswer(id))
		if err != nil {
			return err
		}
		if err := p.queue(preparedRecord, args...); err != nil {
			return err
		}
		if err := p.queue(preparedCommit); err != nil {
			return err
		}
		return p.flush(nil, nil)
	})
}

// handOneMessage is handPipelined for an answer that is known before the work: all in one message.
func (w *pgWorld) handOneMessage(ctx context.Context) error {
	key := w.key()
	return w.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		p, err := newPipe(ctx, conn.Conn())
		if err != nil {
			return err
		}
		defer p.Close() // after an error it closes the connection
		args, err := recordArgs(key, orderAnswer(w.made.Load()))
		if err != nil {
			return err
		}
		var id int64
		for _, err := range []error{
			p.queue(preparedBegin), p.queue(preparedOrder, customer, 1999), p.queue(preparedRecord, args...), p.queue(preparedCommit),
		} {
			if err != nil {
				return err
			}
		}
		return p.flush(nil, &id, nil, nil)
	})
}

// pipe is a pgconn.Pipeline over prepared statements.
type pipe struct {
	*pgconn.Pipeline
	conn *pgx.Conn
}

func newPipe(ctx context.Context, conn *pgx.Conn) (pipe, error) {
	for _, s := range []prepared{preparedBegin, preparedOrder, preparedRecord, preparedCommit} {
		if _, err := conn.Prepare(ctx, s.name, s.sql); err != nil { // a look into a map after the first time
			return pipe{}, err
		}
	}
	return pipe{conn.PgConn().StartPipeline(ctx), conn}, nil
}

func (p pipe) queue(s prepared, args ...any) error {
	sd, err := p.conn.Prepare(context.Background(), s.name, s.sql) // it is there: nothing is sent
	if err != nil {
		return err
	}
	var build pgx.ExtendedQueryBuilder
	if err := build.Build(p.conn.TypeMap(), sd, args); err != nil {
		return err
	}
	p.SendQueryStatement(sd, build.ParamValues, build.ParamFormats, build.ResultFormats)
	return nil
}

// flush sends what is queued and reads one reply for each; into is where its bigint goes, or nil.
func (p pipe) flush(into ...*int64) error {
	if err := p.Sync(); err != nil {
		return err
	}
	var scan pgtype.Int8
	for _, dest := range into {
		results, err := p.GetResults()
		if err != nil {
			return err
		}
		reader := results.(*pgconn.ResultReader)
		for reader.NextRow() {
			if dest == nil {
				continue
			}
			if err := p.conn.TypeMap().Scan(pgtype.Int8OID, pgtype.BinaryFormatCode, reader.Values()[0], &scan); err != nil {
				return err
			}
			*dest = scan.Int64
		}
		if _, err := reader.Close(); err != nil {
			return err
		}
	}
	_, err := p.GetResults() // the sync
	return err
}

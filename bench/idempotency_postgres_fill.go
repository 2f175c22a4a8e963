package main

import (
	"context"
	"fmt"
)

// Fills of fifty.keys, in the shape that the store writes: what InTx leaves of an answer, and what a sweep
// leaves of that. Keys are random, as a UUID of version 4 is, so that an index is as spread out as it gets.
const (
	answersFill = `insert into fifty.keys
    (scope, key, fingerprint, state, token, attempt, owner, resume, status, header, body, not_replayable, created, changed)
select $1, md5(i::text) || '-' || i, $2, 2, 1, upper(left(md5((-i)::text), 26)), $3, false, 201,
       convert_to('{"Content-Type":["application/json"],"Location":["/orders/' || i || '"]}', 'UTF8'),
       convert_to('{"id":' || i || ',"customer":"cus_NffrFeUfNV2Hib","amount":1999,"currency":"eur","state":"accepted"}', 'UTF8'),
       false, at, at
from generate_series(1, $4::bigint) i, lateral (select clock_timestamp() as at) clock`

	tombstonesFill = `insert into fifty.keys
    (scope, key, fingerprint, state, token, attempt, owner, resume, created, changed, buried)
select $1, md5(i::text) || '-' || i, $2, 5, 1, upper(left(md5((-i)::text), 26)), $3, false, at, at, at
from generate_series(1, $4::bigint) i,
lateral (select clock_timestamp() - interval '31 days' as at) clock`
)

// fill writes n rows by one of the fills, and brings the table to rest.
func (w *pgWorld) fill(ctx context.Context, b *bench, fill string, n int) error {
	b.progress("filling a table with %d records", n)
	if _, err := w.pool.Exec(ctx, fill, benchScope, []byte(benchPrint), handOwner, n); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	return settlePostgres(ctx, w.url)
}

-- Stock. A process of the version before goes on working: these tables are new.

-- A row is a SKU, or a bucket of one that is split. It is what an order is decided by.
CREATE TABLE fifty_stock (
	sku       TEXT    NOT NULL COLLATE BINARY,
	bucket    INTEGER NOT NULL CHECK (bucket >= 0 AND bucket < buckets),
	buckets   INTEGER NOT NULL,
	supply    INTEGER NOT NULL CHECK (supply = available + held + sold),
	available INTEGER NOT NULL CHECK (available >= 0),
	held      INTEGER NOT NULL CHECK (held >= 0),
	sold      INTEGER NOT NULL CHECK (sold >= 0),
	freed_to  INTEGER NOT NULL, -- a second of Unix time: units of holds that expire in it, or before, are not in held
	refusals  INTEGER NOT NULL CHECK (refusals >= 0), -- remembered ones that name the SKU, in bucket 0
	delivered_folded INTEGER NOT NULL DEFAULT 0,      -- what deliveries add up to that were swept away, in bucket 0
	sold_folded      INTEGER NOT NULL DEFAULT 0,      -- and what confirmed holds do
	PRIMARY KEY (sku, bucket)
) STRICT, WITHOUT ROWID;

-- The units in held that expire in one second.
CREATE TABLE fifty_expiring (
	sku    TEXT    NOT NULL COLLATE BINARY,
	bucket INTEGER NOT NULL,
	second INTEGER NOT NULL,
	units  INTEGER NOT NULL CHECK (units >= 0),
	PRIMARY KEY (sku, bucket, second)
) STRICT, WITHOUT ROWID;

-- Rowids grow with the time at which a hold was reserved, since that time never goes back. So a sweep finds
-- what is old at the beginning of the table, and neither an order nor a confirm pays for an index of times.
CREATE TABLE fifty_holds (
	id       TEXT    NOT NULL COLLATE BINARY PRIMARY KEY,
	items    TEXT    NOT NULL, -- JSON: units by SKU
	state    INTEGER NOT NULL CHECK (state BETWEEN 1 AND 5), -- held, confirmed, released, refused, lapsed
	parts    TEXT    NOT NULL, -- JSON: lists of SKU, bucket and units
	expires  INTEGER NOT NULL, -- the second from which a held one is expired
	short    TEXT,             -- JSON: of what there was not enough
	log      TEXT,             -- JSON: what happened since
	reserved INTEGER NOT NULL, -- in microseconds, like changed
	changed  INTEGER NOT NULL
) STRICT;

-- The same holds for deliveries.
CREATE TABLE fifty_deliveries (
	id    TEXT    NOT NULL COLLATE BINARY PRIMARY KEY,
	items TEXT    NOT NULL,
	away  INTEGER NOT NULL, -- 1: taken away
	at    INTEGER NOT NULL
) STRICT;

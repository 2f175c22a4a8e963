-- Every time is in microseconds since 1970, by the file's clock (see fifty_marks).

-- A table with rowids: rows hold whole answers, and without rowids such rows would fill the tree through
-- which keys are looked up. The primary key is an index of its own, small and compared byte for byte.
CREATE TABLE fifty_keys (
	scope          TEXT    NOT NULL COLLATE BINARY,
	key            TEXT    NOT NULL COLLATE BINARY,
	fingerprint    BLOB    NOT NULL,
	state          INTEGER NOT NULL CHECK (state BETWEEN 1 AND 5), -- in flight, done, unknown, free, tombstone
	token          INTEGER NOT NULL CHECK (token > 0),
	attempt        TEXT    NOT NULL,
	owner          TEXT    NOT NULL,
	resume         INTEGER NOT NULL, -- 1: the work is made of steps, it may be taken over
	expires        INTEGER NOT NULL, -- of a claim in flight
	status         INTEGER NOT NULL DEFAULT 0,
	header         TEXT,             -- JSON: names and their lists of values
	body           BLOB,
	not_replayable INTEGER NOT NULL DEFAULT 0,
	created        INTEGER NOT NULL, -- first seen
	changed        INTEGER NOT NULL,
	PRIMARY KEY (scope, key)
) STRICT;

-- Values that only ever grow: 'clock' is the latest time that a decision was based on, 'keys.token' the
-- highest token of keys whose rows are gone.
CREATE TABLE fifty_marks (
	name  TEXT    NOT NULL PRIMARY KEY,
	value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO fifty_marks (name, value) VALUES ('clock', 0), ('keys.token', 0);

CREATE TABLE fifty_secrets (
	name  TEXT NOT NULL PRIMARY KEY,
	value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

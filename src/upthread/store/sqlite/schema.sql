-- A store's log. What it means: docs/adr/0140-one-log.md.

-- One row per stream: what its entries add up to, so that nobody reads a log to know how it stands.
-- `state` is JSON. A commit moves `last` and `hash` on from those that it has seen. The seal tells
-- a row that was changed behind the store's back.
CREATE TABLE head (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    project TEXT NOT NULL,
    last INTEGER NOT NULL,
    hash BLOB NOT NULL,
    state TEXT NOT NULL,
    seal BLOB NOT NULL
);
CREATE INDEX head_by_project ON head (project, kind);

-- The log. `kept` stays; `said` is what `forget` takes, and then `digest` is that of what it was.
-- Whatever stream an entry is of, it goes to the end of the table, where no page has to be split.
CREATE TABLE entry (
    id INTEGER PRIMARY KEY,
    stream INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    kind TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    kept TEXT NOT NULL,
    hash BLOB NOT NULL,
    digest BLOB,
    said TEXT
);
CREATE UNIQUE INDEX entry_by_place ON entry (stream, seq);
-- What somebody said, found without looking at what tools did between, which is most of a log.
CREATE INDEX entry_said ON entry (stream, seq) WHERE kind = 'said';
-- What a stream has few of, found without looking at what lies between.
CREATE INDEX entry_rare ON entry (stream, kind, seq)
WHERE kind NOT IN ('said', 'done', 'turn', 'turn_event', 'run_event', 'act');

-- What streams are found by. `nth` is 0 where only one stream has the tag, the generation of a
-- conversation's key, and else the stream itself. `seq` is the entry that was tagged.
CREATE TABLE tag (
    tag TEXT NOT NULL,
    nth INTEGER NOT NULL,
    stream INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (tag, nth)
) WITHOUT ROWID;

-- Mutable: who holds what. `holder` is JSON, NULL where it was released.
CREATE TABLE lease (
    name TEXT PRIMARY KEY,
    token INTEGER NOT NULL,
    heartbeat INTEGER NOT NULL,
    holder TEXT
) WITHOUT ROWID;

-- `synced` gives a synced commit something to sync.
-- `restored` is when a backup took the place of the database.
CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;

-- Files as an upstream session knows them, the last row of a path is what counts; and what persons
-- made of briefings.

CREATE TABLE examined (
    id INTEGER PRIMARY KEY,
    conversation INTEGER NOT NULL REFERENCES conversation (id),
    turn INTEGER NOT NULL REFERENCES turn (id),
    ordinal INTEGER NOT NULL,
    upstream INTEGER NOT NULL REFERENCES upstream (id),
    path TEXT NOT NULL,
    how TEXT NOT NULL,
    state TEXT NOT NULL,
    size_bytes INTEGER,
    mtime_ns INTEGER,
    digest TEXT,
    recorded_at_ms INTEGER NOT NULL,
    UNIQUE (turn, ordinal)
);
CREATE INDEX examined_by_path ON examined (conversation, path);

CREATE TABLE briefing_edit (
    id INTEGER PRIMARY KEY,
    conversation INTEGER NOT NULL REFERENCES conversation (id),
    seq INTEGER NOT NULL,
    edit BLOB NOT NULL,
    recorded_at_ms INTEGER NOT NULL,
    UNIQUE (conversation, seq)
);

-- Append-only, but for the two tables marked mutable. Rowid tables with an index: WITHOUT ROWID
-- clusters rows that are too big for it. Order is always by id or seq, never by a time.
-- A text column holds TEXT, or a BLOB for text that is not valid Unicode (UTF-8, surrogatepass).

CREATE TABLE schema_migration (
    version INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    checksum TEXT NOT NULL
);

CREATE TABLE project_identity (
    id INTEGER PRIMARY KEY,
    project_id TEXT NOT NULL,
    path TEXT NOT NULL,
    root_commit TEXT,
    remote TEXT
);
CREATE INDEX project_identity_by_path ON project_identity (path);
CREATE INDEX project_identity_by_root_commit ON project_identity (root_commit)
WHERE root_commit IS NOT NULL;

CREATE TABLE workstream (
    id INTEGER PRIMARY KEY,
    project_id TEXT NOT NULL,
    workstream TEXT NOT NULL,
    base_name TEXT NOT NULL,
    opened_at_ms INTEGER NOT NULL,
    UNIQUE (project_id, workstream),
    UNIQUE (project_id, base_name)
);

CREATE TABLE conversation (
    id INTEGER PRIMARY KEY,
    conversation_id TEXT NOT NULL UNIQUE,
    project_id TEXT NOT NULL,
    workstream TEXT NOT NULL,
    role TEXT NOT NULL,
    slot INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    base_name TEXT NOT NULL,
    opened_at_ms INTEGER NOT NULL,
    parent_conversation_id TEXT,
    parent_call_id TEXT
);
-- Children (slot 0) share a key and are never found by it.
CREATE UNIQUE INDEX conversation_by_key
ON conversation (project_id, workstream, role, slot, generation) WHERE slot > 0;
CREATE INDEX conversation_by_workstream ON conversation (project_id, workstream);

CREATE TABLE link (
    id INTEGER PRIMARY KEY,
    conversation INTEGER NOT NULL REFERENCES conversation (id),
    seq INTEGER NOT NULL,
    upstream_session_id TEXT NOT NULL,
    agent TEXT NOT NULL,
    agent_version TEXT NOT NULL,
    working_directory TEXT NOT NULL,
    opened_because TEXT NOT NULL,
    opened_at_ms INTEGER NOT NULL,
    UNIQUE (conversation, seq)
);
CREATE INDEX link_by_upstream_session_id ON link (upstream_session_id);

CREATE TABLE link_end (
    link INTEGER PRIMARY KEY REFERENCES link (id),
    ended_because TEXT NOT NULL,
    ended_at_ms INTEGER NOT NULL
);

CREATE TABLE run (
    id INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL UNIQUE,
    project_id TEXT NOT NULL,
    workstream TEXT NOT NULL,
    opened_at_ms INTEGER NOT NULL
);
CREATE INDEX run_by_workstream ON run (project_id, workstream);

CREATE TABLE run_event (
    id INTEGER PRIMARY KEY,
    run INTEGER NOT NULL REFERENCES run (id),
    seq INTEGER NOT NULL,
    kind TEXT NOT NULL,
    payload BLOB NOT NULL,
    recorded_at_ms INTEGER NOT NULL,
    UNIQUE (run, seq)
);

-- The outbox: pending while the run has no event after run_seq.
CREATE TABLE transition (
    id INTEGER PRIMARY KEY,
    run INTEGER NOT NULL REFERENCES run (id),
    run_seq INTEGER NOT NULL,
    due_at_ms INTEGER NOT NULL,
    UNIQUE (run, run_seq)
);

CREATE TABLE turn (
    id INTEGER PRIMARY KEY,
    turn_id TEXT NOT NULL UNIQUE,
    conversation INTEGER NOT NULL REFERENCES conversation (id),
    run INTEGER REFERENCES run (id),
    opened_at_ms INTEGER NOT NULL
);
CREATE INDEX turn_by_conversation ON turn (conversation);

-- `id` is (turn << 20) + seq: in order without an index, which each commit of a turn would write.
CREATE TABLE turn_event (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    payload BLOB NOT NULL,
    recorded_at_ms INTEGER NOT NULL
);

-- Upstream ids written once: every part names one, and they are long.
CREATE TABLE upstream (
    id INTEGER PRIMARY KEY,
    upstream_session_id TEXT NOT NULL UNIQUE
);

-- A message is the run of parts with one message_seq. `content` is NULL once erased, and only then
-- `digest` (SHA-256 of what it was) is kept. `chain` is SHA-256(previous chain, digest, header).
CREATE TABLE part (
    id INTEGER PRIMARY KEY,
    conversation INTEGER NOT NULL REFERENCES conversation (id),
    message_seq INTEGER NOT NULL,
    ordinal INTEGER NOT NULL,
    speaker TEXT NOT NULL,
    turn INTEGER NOT NULL REFERENCES turn (id),
    upstream INTEGER REFERENCES upstream (id),
    recorded_at_ms INTEGER NOT NULL,
    kind TEXT NOT NULL,
    call_id TEXT,
    chain BLOB NOT NULL,
    digest BLOB,
    content BLOB
);
CREATE UNIQUE INDEX part_by_place ON part (conversation, message_seq, ordinal);

CREATE TABLE quarantine (
    id INTEGER PRIMARY KEY,
    turn INTEGER NOT NULL REFERENCES turn (id),
    ordinal INTEGER NOT NULL,
    reason TEXT NOT NULL,
    raw BLOB NOT NULL,
    recorded_at_ms INTEGER NOT NULL,
    UNIQUE (turn, ordinal)
);

CREATE TABLE refusal (
    id INTEGER PRIMARY KEY,
    conversation INTEGER NOT NULL REFERENCES conversation (id),
    decision TEXT NOT NULL,
    reasons BLOB NOT NULL,
    inputs BLOB NOT NULL,
    decided_at_ms INTEGER NOT NULL
);
CREATE INDEX refusal_by_conversation ON refusal (conversation, decided_at_ms);

-- Attempts at actions that are to be done once; the last row of a key says how it stands.
CREATE TABLE once_event (
    id INTEGER PRIMARY KEY,
    project_id TEXT NOT NULL,
    key TEXT NOT NULL,
    attempt_id TEXT NOT NULL,
    state TEXT NOT NULL,
    receipt BLOB NOT NULL,
    recorded_at_ms INTEGER NOT NULL
);
CREATE INDEX once_event_by_key ON once_event (project_id, key);

-- Mutable: who holds what now. `host` is NULL once released.
CREATE TABLE lease (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    token INTEGER NOT NULL,
    heartbeat INTEGER NOT NULL,
    host TEXT,
    boot_id TEXT,
    pid INTEGER,
    started_at_ticks INTEGER,
    doing TEXT
);

-- Mutable: touched by a synced batch that had nothing new to write, so that its commit still
-- syncs what others committed before it.
CREATE TABLE sync_mark (
    id INTEGER PRIMARY KEY,
    touched INTEGER NOT NULL
);
INSERT INTO sync_mark (id, touched) VALUES (1, 0);

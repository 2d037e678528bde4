-- Append-only, but for `lease`. Order is always by id or seq, never by a time.
-- Text is BYTEA, UTF-8 with lone surrogates as they are: PostgreSQL's own text takes neither them
-- nor NUL. To read it: convert_from(workstream, 'UTF8').
-- A name may be of any length and an index entry may not, so names are looked up by their SHA-256.
-- No foreign keys: what a row names is looked up before it is written and never deleted, and each
-- would cost a lock on the row it names.

CREATE SCHEMA IF NOT EXISTS upthread;

CREATE TABLE upthread.schema_migration (
    version INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    checksum TEXT NOT NULL
);

CREATE TABLE upthread.project_identity (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    project_id BYTEA NOT NULL,
    path BYTEA NOT NULL,
    root_commit BYTEA,
    remote BYTEA
);
CREATE UNIQUE INDEX project_identity_by_path ON upthread.project_identity (
    sha256(path), sha256(project_id), sha256(root_commit), sha256(remote)
) NULLS NOT DISTINCT;
CREATE INDEX project_identity_by_root_commit ON upthread.project_identity (sha256(root_commit))
WHERE root_commit IS NOT NULL;

CREATE TABLE upthread.workstream (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    project_id BYTEA NOT NULL,
    workstream BYTEA NOT NULL,
    base_name BYTEA NOT NULL,
    opened_at_ms BIGINT NOT NULL
);
CREATE UNIQUE INDEX workstream_by_name
ON upthread.workstream (sha256(project_id), sha256(workstream));
CREATE UNIQUE INDEX workstream_by_base_name
ON upthread.workstream (sha256(project_id), sha256(base_name));

CREATE TABLE upthread.conversation (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    conversation_id BYTEA NOT NULL UNIQUE,
    project_id BYTEA NOT NULL,
    workstream BYTEA NOT NULL,
    role BYTEA NOT NULL,
    slot INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    base_name BYTEA NOT NULL,
    opened_at_ms BIGINT NOT NULL,
    parent_conversation_id BYTEA,
    parent_call_id BYTEA
);
-- Children (slot 0) share a key and are never found by it.
CREATE UNIQUE INDEX conversation_by_key ON upthread.conversation (
    sha256(sha256(project_id) || sha256(workstream) || role), slot, generation
) WHERE slot > 0;
CREATE INDEX conversation_by_workstream
ON upthread.conversation (sha256(sha256(project_id) || workstream));

CREATE TABLE upthread.link (
    id BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE,
    conversation_id BYTEA NOT NULL,
    seq INTEGER NOT NULL,
    upstream_session_id BYTEA NOT NULL,
    agent BYTEA NOT NULL,
    agent_version BYTEA NOT NULL,
    working_directory BYTEA NOT NULL,
    opened_because BYTEA NOT NULL,
    opened_at_ms BIGINT NOT NULL,
    PRIMARY KEY (conversation_id, seq)
);
CREATE INDEX link_by_upstream_session_id ON upthread.link (sha256(upstream_session_id));

CREATE TABLE upthread.link_end (
    conversation_id BYTEA NOT NULL,
    seq INTEGER NOT NULL,
    ended_because BYTEA NOT NULL,
    ended_at_ms BIGINT NOT NULL,
    PRIMARY KEY (conversation_id, seq)
);

CREATE TABLE upthread.run (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id BYTEA NOT NULL UNIQUE,
    project_id BYTEA NOT NULL,
    workstream BYTEA NOT NULL,
    opened_at_ms BIGINT NOT NULL
);
CREATE INDEX run_by_workstream ON upthread.run (sha256(sha256(project_id) || workstream));

CREATE TABLE upthread.run_event (
    run_id BYTEA NOT NULL,
    seq INTEGER NOT NULL,
    kind BYTEA NOT NULL,
    payload BYTEA NOT NULL,
    recorded_at_ms BIGINT NOT NULL,
    PRIMARY KEY (run_id, seq)
);

-- The outbox: pending while the run has no event after run_seq.
CREATE TABLE upthread.transition (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id BYTEA NOT NULL,
    run_seq INTEGER NOT NULL,
    due_at_ms BIGINT NOT NULL,
    UNIQUE (run_id, run_seq)
);

CREATE TABLE upthread.turn (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    turn_id BYTEA NOT NULL UNIQUE,
    conversation_id BYTEA NOT NULL,
    run_id BYTEA,
    opened_at_ms BIGINT NOT NULL
);
CREATE INDEX turn_by_conversation ON upthread.turn (conversation_id, id);

CREATE TABLE upthread.turn_event (
    turn_id BYTEA NOT NULL,
    seq INTEGER NOT NULL,
    kind BYTEA NOT NULL,
    payload BYTEA NOT NULL,
    recorded_at_ms BIGINT NOT NULL,
    PRIMARY KEY (turn_id, seq)
);

-- A message is the run of parts with one message_seq. `content` is NULL once erased, and only then
-- `digest` (SHA-256 of what it was) is kept. `chain` is SHA-256(previous chain, digest, header).
CREATE TABLE upthread.part (
    conversation_id BYTEA NOT NULL,
    message_seq INTEGER NOT NULL,
    ordinal INTEGER NOT NULL,
    speaker BYTEA NOT NULL,
    turn_id BYTEA NOT NULL,
    upstream_session_id BYTEA,
    recorded_at_ms BIGINT NOT NULL,
    kind BYTEA NOT NULL,
    call_id BYTEA,
    chain BYTEA NOT NULL,
    digest BYTEA,
    content BYTEA,
    PRIMARY KEY (conversation_id, message_seq, ordinal)
);
-- Not compressed: that costs more time than the bytes it saves.
ALTER TABLE upthread.part ALTER COLUMN content SET STORAGE EXTERNAL;

CREATE TABLE upthread.quarantine (
    turn_id BYTEA NOT NULL,
    ordinal INTEGER NOT NULL,
    reason BYTEA NOT NULL,
    raw BYTEA NOT NULL,
    recorded_at_ms BIGINT NOT NULL,
    PRIMARY KEY (turn_id, ordinal)
);

CREATE TABLE upthread.refusal (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    conversation_id BYTEA NOT NULL,
    decision BYTEA NOT NULL,
    reasons BYTEA NOT NULL,
    inputs BYTEA NOT NULL,
    decided_at_ms BIGINT NOT NULL
);
CREATE INDEX refusal_by_conversation ON upthread.refusal (conversation_id, decided_at_ms);

-- Files as an upstream session knows them; of a path, the last row is what counts.
CREATE TABLE upthread.examined (
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    conversation_id BYTEA NOT NULL,
    turn_id BYTEA NOT NULL,
    ordinal INTEGER NOT NULL,
    upstream_session_id BYTEA NOT NULL,
    path BYTEA NOT NULL,
    how BYTEA NOT NULL,
    state BYTEA NOT NULL,
    size_bytes BIGINT,
    mtime_ns BIGINT,
    digest BYTEA,
    recorded_at_ms BIGINT NOT NULL,
    PRIMARY KEY (turn_id, ordinal)
);
CREATE INDEX examined_by_conversation ON upthread.examined (conversation_id, id);

-- What persons made of briefings; the last row of a conversation is what counts.
CREATE TABLE upthread.briefing_edit (
    conversation_id BYTEA NOT NULL,
    seq INTEGER NOT NULL,
    edit BYTEA NOT NULL,
    recorded_at_ms BIGINT NOT NULL,
    PRIMARY KEY (conversation_id, seq)
);

-- Attempts at actions that are to be done once; the last step of a key says how it stands. `step`
-- counts from 1, so that of many who write the next one, one gets in.
CREATE TABLE upthread.once_event (
    project_id BYTEA NOT NULL,
    key BYTEA NOT NULL,
    step INTEGER NOT NULL,
    attempt_id BYTEA NOT NULL,
    state BYTEA NOT NULL,
    receipt BYTEA NOT NULL,
    recorded_at_ms BIGINT NOT NULL
);
CREATE UNIQUE INDEX once_event_by_key
ON upthread.once_event (sha256(sha256(project_id) || key), step);

-- Mutable: who holds what now. `host` is NULL once released. Room is left on each page for the
-- next version of a row, which a heartbeat makes.
CREATE TABLE upthread.lease (
    name BYTEA NOT NULL,
    token BIGINT NOT NULL,
    heartbeat BIGINT NOT NULL,
    host BYTEA,
    boot_id BYTEA,
    pid BIGINT,
    started_at_ticks BIGINT,
    doing BYTEA
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX lease_by_name ON upthread.lease (sha256(name));

-- A store's log in the schema `upthread`. What it means: docs/adr/0140-one-log.md. Names and JSON are
-- BYTEA in UTF-8, since a database may be of any encoding: convert_from(kept, 'UTF8') shows it.
--
-- A row belongs to a project, and a session reads and writes rows of the project that it acts for:
-- upthread.project, `x` and its id in hexadecimal digits. `*` is all of them: moves and workers. Where
-- a session has not said it, that is an error, not an empty table. Held to for the owner, too; not for
-- superusers and roles with BYPASSRLS.

CREATE SCHEMA IF NOT EXISTS upthread;

-- `schema` is the version of this file and of what heads hold.
CREATE TABLE upthread.meta (
    name TEXT PRIMARY KEY,
    value BIGINT NOT NULL
);

-- One row per stream: what its entries add up to, so that nobody reads a log to know how it stands.
-- A commit moves `last` and `hash` on from those that it has seen. The seal tells a row that was
-- changed behind the store's back; `due_*` is the run's transition that nothing has settled yet, for
-- workers, by the server's clock.
CREATE TABLE upthread.head (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind TEXT NOT NULL,
    name BYTEA NOT NULL,
    project BYTEA NOT NULL,
    last INTEGER NOT NULL,
    hash BYTEA NOT NULL,
    state BYTEA NOT NULL,
    seal BYTEA NOT NULL,
    due_at_ms BIGINT,
    due_seq INTEGER,
    due_queue TEXT
) WITH (fillfactor = 50); -- room for the next version of a row beside it: no index is written then
CREATE INDEX head_by_project ON upthread.head (project, kind, id);
CREATE INDEX head_by_due ON upthread.head (due_at_ms) WHERE due_at_ms IS NOT NULL;

-- The log. `kept` stays; `said` is what `forget` takes, and then `digest` is that of what it was.
CREATE TABLE upthread.entry (
    stream BIGINT NOT NULL,
    seq INTEGER NOT NULL,
    kind TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    kept BYTEA NOT NULL,
    hash BYTEA NOT NULL,
    digest BYTEA,
    said BYTEA,
    project BYTEA NOT NULL,
    PRIMARY KEY (stream, seq)
);
-- What somebody said, found without reading what tools did between, which is most of a log.
CREATE INDEX entry_said ON upthread.entry (stream, seq) WHERE kind = 'said';
-- What a stream has few of, found without reading what lies between.
CREATE INDEX entry_rare ON upthread.entry (stream, kind, seq)
WHERE kind NOT IN ('said', 'done', 'turn', 'turn_event', 'run_event', 'act');

-- What streams are found by. `nth` is 0 where only one stream has the tag, the generation of a
-- conversation's key, and else the stream itself. `seq` is the entry that was tagged.
CREATE TABLE upthread.tag (
    tag BYTEA NOT NULL,
    nth BIGINT NOT NULL,
    project BYTEA NOT NULL,
    stream BIGINT NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (tag, nth, project)
);

-- Mutable: who holds what. `holder` is JSON, NULL where it was released. A lease on a project's own is
-- named by what it is on and by the project; any other is on something of a host, which projects
-- share. By its digest, since a policy's condition comes before any that could tell what it sees, and
-- sha256() counts as one that could; and an index takes no long name.
CREATE TABLE upthread.lease (
    name BYTEA NOT NULL,
    name_digest BYTEA GENERATED ALWAYS AS (sha256(name)) STORED PRIMARY KEY,
    project BYTEA GENERATED ALWAYS AS (
        CASE
            WHEN substr(name, 1, 13) = 'conversation ' THEN
                substr(name, 14, greatest(position('\x20'::bytea IN substr(name, 14)) - 1, 0))
            WHEN substr(name, 1, 11) = 'workstream ' THEN
                substr(name, 12, greatest(position('\x20'::bytea IN substr(name, 12)) - 1, 0))
        END
    ) STORED,
    token BIGINT NOT NULL,
    heartbeat BIGINT NOT NULL,
    holder BYTEA
);

-- Mutable: the workers there are. `worker_id` is the queue's own, in whose table their heartbeat is.
-- `agents` is JSON: versions by name. `queues` are our own names, in which there are only letters.
CREATE TABLE upthread.worker (
    worker_id BIGINT PRIMARY KEY,
    process BYTEA NOT NULL,
    version BYTEA NOT NULL,
    agents BYTEA NOT NULL,
    queues VARCHAR[] NOT NULL,
    concurrency INTEGER NOT NULL,
    registered_at_ms BIGINT NOT NULL
);

-- Which steps of the job queue's own schema were made; see store/postgres/schema.py.
CREATE TABLE upthread.job_queue_migration (
    name TEXT PRIMARY KEY
);

CREATE FUNCTION upthread.acting_for() RETURNS BYTEA LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT ('\' || nullif(current_setting('upthread.project'), '*'))::bytea
$$;

CREATE FUNCTION upthread.acts_for_all() RETURNS BOOLEAN LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT current_setting('upthread.project') = '*'
$$;

DO $$
DECLARE
    guarded TEXT;
BEGIN
    FOREACH guarded IN ARRAY ARRAY['head', 'entry', 'tag', 'lease'] LOOP
        EXECUTE format('ALTER TABLE upthread.%I ENABLE ROW LEVEL SECURITY', guarded);
        EXECUTE format('ALTER TABLE upthread.%I FORCE ROW LEVEL SECURITY', guarded);
        EXECUTE format(
            'CREATE POLICY of_its_project ON upthread.%I USING ('
            ' project = (SELECT upthread.acting_for()) OR (SELECT upthread.acts_for_all())%s)',
            guarded, CASE guarded WHEN 'lease' THEN ' OR project IS NULL' ELSE '' END
        );
    END LOOP;
END
$$;

CREATE FUNCTION upthread.scrub() RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '30s' AS $$
-- Write the log anew that content was erased from. Only its owner may, so it is done as the owner.
BEGIN
    CLUSTER upthread.entry USING entry_pkey;
END
$$;
REVOKE EXECUTE ON FUNCTION upthread.scrub() FROM PUBLIC;

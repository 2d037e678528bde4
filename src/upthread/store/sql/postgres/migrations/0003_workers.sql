-- A transition is settled by a later event that is not the start of a step. What is not settled is
-- all that a look into the outbox has to read. `queue` is where it may run, NULL wherever its project
-- is; `server_due_at_ms` is `due_at_ms` by the server's clock, NULL where only the writer's is known.

ALTER TABLE upthread.transition
ADD COLUMN is_settled BOOLEAN NOT NULL DEFAULT false,
ADD COLUMN queue BYTEA,
ADD COLUMN server_due_at_ms BIGINT;
UPDATE upthread.transition AS t SET is_settled = true WHERE EXISTS (
    SELECT 1 FROM upthread.run_event AS e
    WHERE e.run_id = t.run_id AND e.seq > t.run_seq AND e.kind <> 'step_started'
);
CREATE INDEX transition_due ON upthread.transition (id) WHERE NOT is_settled;

-- Mutable: the workers there are. `worker_id` is the queue's own, in whose table their heartbeat is.
-- `agents` is JSON: versions by name. `queues` are our own names, in which there are only letters.
CREATE TABLE upthread.worker (
    worker_id BIGINT PRIMARY KEY,
    host BYTEA NOT NULL,
    boot_id BYTEA NOT NULL,
    pid BIGINT NOT NULL,
    started_at_ticks BIGINT NOT NULL,
    version BYTEA NOT NULL,
    agents BYTEA NOT NULL,
    queues VARCHAR[] NOT NULL,
    concurrency INTEGER NOT NULL,
    registered_at_ms BIGINT NOT NULL
);

-- Which steps of the job queue's own schema were made; see store/postgres/job_queue.py.
CREATE TABLE upthread.job_queue_migration (
    name TEXT PRIMARY KEY
);

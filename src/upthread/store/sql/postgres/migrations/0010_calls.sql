-- The turn of a call that an agent's own tool made: its lease is the agent's process's, which shows
-- no heartbeat. NULL where a process of ours holds the lease.
ALTER TABLE upthread.lease ADD COLUMN call BYTEA;
CREATE INDEX lease_held ON upthread.lease (sha256(project_id)) WHERE host IS NOT NULL;

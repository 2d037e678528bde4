-- The turn of a call that an agent's own tool made: its lease is the agent's process's, which shows
-- no heartbeat. NULL where a process of ours holds the lease.
ALTER TABLE lease ADD COLUMN call TEXT;

-- Content is erased from receipts, too.

CREATE INDEX once_event_by_project ON upthread.once_event (sha256(project_id));

CREATE OR REPLACE FUNCTION upthread.scrub() RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '30s' AS $$
-- Write the tables that content was erased from anew. Only their owner may, so it is done as the owner.
DECLARE named TEXT;
BEGIN
    FOREACH named IN ARRAY ARRAY['part', 'turn_event', 'run_event', 'quarantine', 'examined', 'briefing_edit']
    LOOP EXECUTE format('CLUSTER upthread.%I USING %I', named, named || '_pkey'); END LOOP;
    CLUSTER upthread.once_event USING once_event_by_key;
END
$$;

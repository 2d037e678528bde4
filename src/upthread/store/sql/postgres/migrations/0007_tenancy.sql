-- A row belongs to a project, and a session reads and writes rows of the project that it acts for:
-- upthread.project, `x` and its id in hexadecimal digits. `*` is all of them: migrations, moves, workers.
-- Where a session has not said it, as those of older versions, it is an error, not an empty table.
-- Held to for the owner, too; not for superusers and roles with BYPASSRLS.

-- Whose a path is. NULL: recorded before paths had owners, so anybody's.
ALTER TABLE upthread.project_identity ADD COLUMN owner BYTEA;
DROP INDEX upthread.project_identity_by_path;
DROP INDEX upthread.project_identity_by_root_commit;

-- A policy's condition comes before any that could tell what it sees, and sha256() counts as one that
-- could. So what names are looked up by are columns: comparing those tells nothing.
ALTER TABLE upthread.project_identity
ADD COLUMN path_digest BYTEA GENERATED ALWAYS AS (sha256(path)) STORED,
ADD COLUMN root_commit_digest BYTEA GENERATED ALWAYS AS (sha256(root_commit)) STORED,
ADD COLUMN remote_digest BYTEA GENERATED ALWAYS AS (sha256(remote)) STORED;
CREATE UNIQUE INDEX project_identity_by_path ON upthread.project_identity (
    path_digest, project_id, root_commit_digest, remote_digest, owner
) NULLS NOT DISTINCT;
CREATE INDEX project_identity_by_root_commit ON upthread.project_identity (root_commit_digest)
WHERE root_commit_digest IS NOT NULL;

DROP INDEX upthread.workstream_by_name;
DROP INDEX upthread.workstream_by_base_name;
ALTER TABLE upthread.workstream
ADD COLUMN name_digest BYTEA GENERATED ALWAYS AS (sha256(workstream)) STORED,
ADD COLUMN base_name_digest BYTEA GENERATED ALWAYS AS (sha256(base_name)) STORED;
CREATE UNIQUE INDEX workstream_by_name ON upthread.workstream (project_id, name_digest);
CREATE UNIQUE INDEX workstream_by_base_name ON upthread.workstream (project_id, base_name_digest);

DROP INDEX upthread.conversation_by_key;
DROP INDEX upthread.conversation_by_workstream;
ALTER TABLE upthread.conversation
ADD COLUMN key_digest BYTEA GENERATED ALWAYS AS (
    sha256(sha256(project_id) || sha256(workstream) || role)
) STORED,
ADD COLUMN workstream_digest BYTEA GENERATED ALWAYS AS (
    sha256(sha256(project_id) || workstream)
) STORED;
-- Children (slot 0) share a key and are never found by it.
CREATE UNIQUE INDEX conversation_by_key ON upthread.conversation (key_digest, slot, generation)
WHERE slot > 0;
CREATE INDEX conversation_by_workstream ON upthread.conversation (workstream_digest);

DROP INDEX upthread.run_by_workstream;
ALTER TABLE upthread.run ADD COLUMN workstream_digest BYTEA GENERATED ALWAYS AS (
    sha256(sha256(project_id) || workstream)
) STORED;
CREATE INDEX run_by_workstream ON upthread.run (workstream_digest);

DROP INDEX upthread.once_event_by_key;
ALTER TABLE upthread.once_event ADD COLUMN key_digest BYTEA GENERATED ALWAYS AS (
    sha256(sha256(project_id) || key)
) STORED;
CREATE UNIQUE INDEX once_event_by_key ON upthread.once_event (key_digest, step);

DROP INDEX upthread.link_by_upstream_session_id;
ALTER TABLE upthread.link ADD COLUMN upstream_digest BYTEA
GENERATED ALWAYS AS (sha256(upstream_session_id)) STORED;
CREATE INDEX link_by_upstream_session_id ON upthread.link (upstream_digest);

-- A lease on a project's own is named by what it is on and by the project; any other is on something
-- of a host, which projects share.
DROP INDEX upthread.lease_by_name;
ALTER TABLE upthread.lease
ADD COLUMN name_digest BYTEA GENERATED ALWAYS AS (sha256(name)) STORED,
ADD COLUMN project_id BYTEA GENERATED ALWAYS AS (
    CASE
        WHEN substr(name, 1, 13) = 'conversation ' THEN
            substr(name, 14, greatest(position('\x20'::bytea IN substr(name, 14)) - 1, 0))
        WHEN substr(name, 1, 11) = 'workstream ' THEN
            substr(name, 12, greatest(position('\x20'::bytea IN substr(name, 12)) - 1, 0))
    END
) STORED;
CREATE UNIQUE INDEX lease_by_name ON upthread.lease (name_digest);

CREATE FUNCTION upthread.acting_for() RETURNS BYTEA LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT ('\' || nullif(current_setting('upthread.project'), '*'))::bytea
$$;

CREATE FUNCTION upthread.acts_for_all() RETURNS BOOLEAN LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT current_setting('upthread.project') = '*'
$$;

CREATE FUNCTION upthread.find_project() RETURNS TRIGGER LANGUAGE plpgsql AS $$
-- Whose a row is that a session of all projects writes: of what it belongs to. What the same statement
-- has written is not seen yet, so that is to be done again, one by one.
BEGIN
    IF TG_ARGV[0] = 'conversation' THEN
        SELECT c.project_id INTO NEW.project_id FROM upthread.conversation AS c
        WHERE c.conversation_id = NEW.conversation_id;
    ELSIF TG_ARGV[0] = 'turn' THEN
        SELECT t.project_id INTO NEW.project_id FROM upthread.turn AS t
        WHERE t.turn_id = NEW.turn_id;
    ELSIF TG_ARGV[0] = 'run' THEN
        SELECT r.project_id INTO NEW.project_id FROM upthread.run AS r
        WHERE r.run_id = NEW.run_id;
    ELSE
        SELECT coalesce(
            (
                SELECT c.project_id FROM upthread.conversation AS c
                WHERE c.conversation_id = NEW.conversation_id
            ),
            (SELECT r.project_id FROM upthread.run AS r WHERE r.run_id = NEW.run_id)
        ) INTO NEW.project_id;
    END IF;
    IF NEW.project_id IS NULL THEN
        RAISE EXCEPTION 'whose a row of % is cannot be told yet', TG_TABLE_NAME
        USING ERRCODE = 'serialization_failure';
    END IF;
    RETURN NEW;
END
$$;

-- What belongs to a project by its conversation, turn or run: whose it is, on the row itself.
ALTER TABLE upthread.link ADD COLUMN project_id BYTEA;
ALTER TABLE upthread.link_end ADD COLUMN project_id BYTEA;
ALTER TABLE upthread.turn ADD COLUMN project_id BYTEA;
ALTER TABLE upthread.part ADD COLUMN project_id BYTEA;
ALTER TABLE upthread.refusal ADD COLUMN project_id BYTEA;
ALTER TABLE upthread.examined ADD COLUMN project_id BYTEA;
ALTER TABLE upthread.briefing_edit ADD COLUMN project_id BYTEA;
ALTER TABLE upthread.turn_event ADD COLUMN project_id BYTEA;
ALTER TABLE upthread.quarantine ADD COLUMN project_id BYTEA;
ALTER TABLE upthread.run_event ADD COLUMN project_id BYTEA;
ALTER TABLE upthread.transition ADD COLUMN project_id BYTEA;
ALTER TABLE upthread.act ADD COLUMN project_id BYTEA;

DO $$
DECLARE
    belongs RECORD;
BEGIN
    FOR belongs IN SELECT * FROM (VALUES
        (1, 'link', 'conversation'), (1, 'link_end', 'conversation'), (1, 'turn', 'conversation'),
        (1, 'part', 'conversation'), (1, 'refusal', 'conversation'),
        (1, 'examined', 'conversation'), (1, 'briefing_edit', 'conversation'),
        (2, 'turn_event', 'turn'), (2, 'quarantine', 'turn'),
        (2, 'run_event', 'run'), (2, 'transition', 'run')
    ) AS b (at, rows, owner) ORDER BY at LOOP
        EXECUTE format(
            'UPDATE upthread.%1$I AS x SET project_id = o.project_id FROM upthread.%2$I AS o'
            ' WHERE o.%3$I = x.%3$I', belongs.rows, belongs.owner, belongs.owner || '_id'
        );
    END LOOP;
    UPDATE upthread.act AS x SET project_id = coalesce(
        (SELECT c.project_id FROM upthread.conversation AS c
         WHERE c.conversation_id = x.conversation_id),
        (SELECT r.project_id FROM upthread.run AS r WHERE r.run_id = x.run_id)
    );
    FOR belongs IN SELECT * FROM (VALUES
        ('link', 'conversation'), ('link_end', 'conversation'), ('turn', 'conversation'),
        ('part', 'conversation'), ('refusal', 'conversation'), ('examined', 'conversation'),
        ('briefing_edit', 'conversation'), ('turn_event', 'turn'), ('quarantine', 'turn'),
        ('run_event', 'run'), ('transition', 'run'), ('act', 'either')
    ) AS b (rows, owner) LOOP
        EXECUTE format(
            'ALTER TABLE upthread.%I ALTER COLUMN project_id SET NOT NULL,'
            ' ALTER COLUMN project_id SET DEFAULT upthread.acting_for()', belongs.rows
        );
        EXECUTE format(
            'CREATE TRIGGER find_project BEFORE INSERT ON upthread.%I FOR EACH ROW'
            ' WHEN (NEW.project_id IS NULL) EXECUTE FUNCTION upthread.find_project(%L)',
            belongs.rows, belongs.owner
        );
    END LOOP;
END
$$;

-- So that a row in one project that names what is another's keeps that one from no place of its own.
ALTER TABLE upthread.link DROP CONSTRAINT link_pkey,
ADD PRIMARY KEY (conversation_id, seq, project_id);
ALTER TABLE upthread.link_end DROP CONSTRAINT link_end_pkey,
ADD PRIMARY KEY (conversation_id, seq, project_id);
ALTER TABLE upthread.run_event DROP CONSTRAINT run_event_pkey,
ADD PRIMARY KEY (run_id, seq, project_id);
ALTER TABLE upthread.transition DROP CONSTRAINT transition_run_id_run_seq_key,
ADD UNIQUE (run_id, run_seq, project_id);
ALTER TABLE upthread.turn_event DROP CONSTRAINT turn_event_pkey,
ADD PRIMARY KEY (turn_id, seq, project_id);
ALTER TABLE upthread.part DROP CONSTRAINT part_pkey,
ADD PRIMARY KEY (conversation_id, message_seq, ordinal, project_id);
ALTER TABLE upthread.quarantine DROP CONSTRAINT quarantine_pkey,
ADD PRIMARY KEY (turn_id, ordinal, project_id);
ALTER TABLE upthread.examined DROP CONSTRAINT examined_pkey,
ADD PRIMARY KEY (turn_id, ordinal, project_id);
ALTER TABLE upthread.briefing_edit DROP CONSTRAINT briefing_edit_pkey,
ADD PRIMARY KEY (conversation_id, seq, project_id);

DO $$
DECLARE
    guarded TEXT;
BEGIN
    FOREACH guarded IN ARRAY ARRAY[
        'project_identity', 'workstream', 'conversation', 'link', 'link_end', 'run', 'run_event',
        'transition', 'turn', 'turn_event', 'part', 'quarantine', 'refusal', 'examined',
        'briefing_edit', 'once_event', 'act'
    ] LOOP
        EXECUTE format('ALTER TABLE upthread.%I ENABLE ROW LEVEL SECURITY', guarded);
        EXECUTE format('ALTER TABLE upthread.%I FORCE ROW LEVEL SECURITY', guarded);
        EXECUTE format(
            'CREATE POLICY of_its_project ON upthread.%I USING ('
            ' project_id = (SELECT upthread.acting_for()) OR (SELECT upthread.acts_for_all()))',
            guarded
        );
    END LOOP;
END
$$;
ALTER TABLE upthread.lease ENABLE ROW LEVEL SECURITY;
ALTER TABLE upthread.lease FORCE ROW LEVEL SECURITY;
CREATE POLICY of_its_project ON upthread.lease USING (
    project_id IS NULL
    OR project_id = (SELECT upthread.acting_for())
    OR (SELECT upthread.acts_for_all())
);

CREATE FUNCTION upthread.known_as(BYTEA, BYTEA, BYTEA)
RETURNS SETOF upthread.project_identity LANGUAGE plpgsql AS $$
-- The identities that share a path, of the same owner or of none, or a root commit: what is asked
-- before it is known which project that is, so of all, and nothing but these.
DECLARE
    acting TEXT := current_setting('upthread.project');
BEGIN
    PERFORM set_config('upthread.project', '*', TRUE);
    RETURN QUERY SELECT i.* FROM upthread.project_identity AS i
    WHERE
        (i.path_digest = sha256($1) AND (i.owner IS NULL OR i.owner = $3))
        OR i.root_commit_digest = sha256($2)
    ORDER BY i.id;
    PERFORM set_config('upthread.project', acting, TRUE);
END
$$;

CREATE OR REPLACE FUNCTION upthread.must_hold(bytea, bigint) RETURNS void LANGUAGE plpgsql AS $$
-- A lease by its name, held under a token; until the transaction ends nobody takes it over.
BEGIN
    PERFORM 1 FROM upthread.lease AS l
    WHERE l.name_digest = sha256($1) AND l.token = $2 AND l.host IS NOT NULL FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'a lease is not held any more' USING ERRCODE = 'serialization_failure';
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION upthread.must_end_with(bytea, bytea) RETURNS void LANGUAGE plpgsql AS $$
-- A conversation and the chain of its last part, looked at after all that add to it have ended.
BEGIN
    PERFORM 1 FROM upthread.conversation AS c WHERE c.conversation_id = $1 FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'a conversation is not there' USING ERRCODE = 'serialization_failure';
    END IF;
    IF $2 IS DISTINCT FROM coalesce(
        (
            SELECT p.chain FROM upthread.part AS p WHERE p.conversation_id = $1
            ORDER BY p.message_seq DESC, p.ordinal DESC LIMIT 1
        ),
        decode(repeat('00', 32), 'hex')
    ) THEN
        RAISE EXCEPTION 'a conversation has grown' USING ERRCODE = 'serialization_failure';
    END IF;
END
$$;

CREATE FUNCTION upthread.scrub() RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '30s' AS $$
-- Write the tables that content was erased from anew. Only their owner may, so it is done as the owner.
BEGIN
    CLUSTER upthread.part USING part_pkey;
    CLUSTER upthread.turn_event USING turn_event_pkey;
    CLUSTER upthread.run_event USING run_event_pkey;
    CLUSTER upthread.quarantine USING quarantine_pkey;
    CLUSTER upthread.examined USING examined_pkey;
    CLUSTER upthread.briefing_edit USING briefing_edit_pkey;
END
$$;
REVOKE EXECUTE ON FUNCTION upthread.scrub() FROM PUBLIC;

-- A row proves itself: `seal` is the SHA-256 of its columns, made when it is inserted, and made anew
-- where an update sets it to NULL, as erasing does. is_whole() of a row that has another is an error,
-- and stands in what reads rows. Parts have chains of their own.

CREATE FUNCTION upthread.must_match(TEXT, BYTEA, BYTEA, BYTEA) RETURNS BOOLEAN
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
-- What a row is, whose it is, the seal it has, and the one it should have.
BEGIN
    IF $3 IS DISTINCT FROM $4 THEN
        RAISE EXCEPTION '% % is damaged: it is not what was recorded', $1, encode($2, 'escape')
        USING ERRCODE = 'data_corrupted';
    END IF;
    RETURN TRUE;
END
$$;

DO $do$
DECLARE
    sealed RECORD;
    columns TEXT;
BEGIN
    FOR sealed IN SELECT * FROM (VALUES
        ('project_identity', '''project''', 'project_id', 'path root_commit remote owner'),
        ('workstream', '''workstream''', 'workstream', 'project_id base_name opened_at_ms'),
        ('conversation', '''conversation''', 'conversation_id',
            'project_id workstream role slot generation base_name opened_at_ms'
            ' parent_conversation_id parent_call_id'),
        ('link', '''link '' || x.seq || '' of''', 'conversation_id',
            'seq upstream_session_id agent agent_version working_directory opened_because'
            ' opened_at_ms'),
        ('link_end', '''the end of link '' || x.seq || '' of''', 'conversation_id',
            'seq ended_because ended_at_ms'),
        ('run', '''run''', 'run_id', 'project_id workstream opened_at_ms'),
        ('run_event', '''event '' || x.seq || '' of run''', 'run_id',
            'seq kind payload recorded_at_ms'),
        ('turn', '''turn''', 'turn_id', 'conversation_id run_id opened_at_ms'),
        ('turn_event', '''event '' || x.seq || '' of turn''', 'turn_id',
            'seq kind payload recorded_at_ms'),
        ('quarantine', '''event '' || x.ordinal || '' without an owner of turn''', 'turn_id',
            'ordinal reason raw recorded_at_ms'),
        ('refusal', '''a refusal of''', 'conversation_id',
            'decision reasons inputs decided_at_ms'),
        ('once_event', '''the action''', 'key',
            'project_id step attempt_id state receipt recorded_at_ms'),
        ('examined', '''the file''', 'path',
            'conversation_id turn_id ordinal upstream_session_id how state size_bytes mtime_ns'
            ' digest recorded_at_ms'),
        ('briefing_edit', '''edit '' || x.seq || '' of the briefing of''', 'conversation_id',
            'seq edit recorded_at_ms'),
        ('act', '''act '' || x.id || '' by''', 'by_user',
            'conversation_id run_id what detail recorded_at_ms')
    ) AS s (rows, what, name, others) LOOP
        columns := 'x.' || sealed.name || ', x.' || replace(sealed.others, ' ', ', x.');
        EXECUTE format('ALTER TABLE upthread.%I ADD COLUMN seal BYTEA', sealed.rows);
        EXECUTE format(
            'CREATE FUNCTION upthread.is_whole(x upthread.%1$I) RETURNS BOOLEAN'
            ' LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$'
            ' SELECT upthread.must_match('
            '%2$s, x.%3$I, x.seal, sha256(record_send(ROW(%4$s)))) $$',
            sealed.rows, sealed.what, sealed.name, columns
        );
        EXECUTE format(
            'CREATE FUNCTION upthread.seal_%1$s() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN'
            ' NEW.seal := sha256(record_send(ROW(%2$s))); RETURN NEW; END $$',
            sealed.rows, replace(columns, 'x.', 'NEW.')
        );
        EXECUTE format(
            'CREATE TRIGGER seal BEFORE INSERT OR UPDATE ON upthread.%1$I FOR EACH ROW'
            ' WHEN (NEW.seal IS NULL) EXECUTE FUNCTION upthread.seal_%1$s()', sealed.rows
        );
        EXECUTE format('UPDATE upthread.%I SET seal = NULL', sealed.rows);
    END LOOP;
END
$do$;

-- What a commit builds on without having looked: each raises when it is not so, and nothing is written.

CREATE FUNCTION upthread.must_hold(bytea, bigint) RETURNS void LANGUAGE plpgsql AS $$
-- A lease by its name, held under a token; until the transaction ends nobody takes it over.
BEGIN
    PERFORM 1 FROM upthread.lease AS l
    WHERE sha256(l.name) = sha256($1) AND l.token = $2 AND l.host IS NOT NULL FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'a lease is not held any more' USING ERRCODE = 'serialization_failure';
    END IF;
END
$$;

CREATE FUNCTION upthread.must_end_with(bytea, bytea) RETURNS void LANGUAGE plpgsql AS $$
-- A conversation and the chain of its last part, looked at after all that add to it have ended.
BEGIN
    PERFORM 1 FROM upthread.conversation AS c WHERE c.conversation_id = $1 FOR NO KEY UPDATE;
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

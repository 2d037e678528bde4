-- Each query: a line `-- name: what it returns or does`, then one statement.

-- lock_conversations: keep other writers off some until the transaction ends
SELECT conversation_id FROM upthread.conversation
WHERE conversation_id = ANY($1::bytea[]) ORDER BY id FOR NO KEY UPDATE;

-- tails: the last part of some conversations; after their locks, else from before the wait for them
SELECT
    c.id, p.message_seq, p.ordinal, p.speaker, p.turn_id, p.upstream_session_id, p.chain
FROM unnest($1::bytea[]) AS c (id)
CROSS JOIN LATERAL (
    SELECT t.message_seq, t.ordinal, t.speaker, t.turn_id, t.upstream_session_id, t.chain
    FROM upthread.part AS t WHERE t.conversation_id = c.id
    ORDER BY t.message_seq DESC, t.ordinal DESC LIMIT 1
) AS p;

-- turns_to_write: some turns, each with its last event's seq and the place for its next file
SELECT
    t.turn_id, t.conversation_id, t.run_id, t.opened_at_ms,
    coalesce((SELECT max(e.seq) FROM upthread.turn_event AS e WHERE e.turn_id = t.turn_id), 0),
    coalesce((SELECT max(x.ordinal) + 1 FROM upthread.examined AS x WHERE x.turn_id = t.turn_id), 0)
FROM upthread.turn AS t WHERE t.turn_id = ANY($1::bytea[]);

-- runs_to_write: some runs, each with its last event's seq
SELECT
    {r.run},
    coalesce((SELECT max(e.seq) FROM upthread.run_event AS e WHERE e.run_id = r.run_id), 0)
FROM upthread.run AS r WHERE r.run_id = ANY($1::bytea[]);

-- resolve: the newest generation of a key and its newest open link; each by its index, from the end
SELECT
    c.conversation_id, c.generation, c.base_name, c.opened_at_ms, c.parent_conversation_id,
    c.parent_call_id, {l.link}
FROM (
    SELECT
        n.conversation_id, n.generation, n.base_name, n.opened_at_ms, n.parent_conversation_id,
        n.parent_call_id
    FROM upthread.conversation AS n
    WHERE
        n.key_digest = sha256(sha256($1) || sha256($2) || $3)
        AND n.slot = $4 AND n.slot > 0
    ORDER BY n.generation DESC LIMIT 1
) AS c
LEFT JOIN LATERAL (
    SELECT
        {o.link}
    FROM upthread.link AS o
    WHERE
        o.conversation_id = c.conversation_id AND NOT EXISTS (
            SELECT 1 FROM upthread.link_end AS e
            WHERE e.conversation_id = o.conversation_id AND e.seq = o.seq
        )
    ORDER BY o.seq DESC LIMIT 1
) AS l ON TRUE;

-- conversation: one by its id
SELECT {conversation}
FROM upthread.conversation AS c WHERE conversation_id = $1 AND upthread.is_whole(c);

-- conversation_of_key: the id of one generation of a key
SELECT conversation_id FROM upthread.conversation
WHERE
    key_digest = sha256(sha256($1) || sha256($2) || $3)
    AND slot = $4 AND generation = $5 AND slot > 0;

-- conversations: all of a workstream, in the order they were opened
SELECT {conversation}
FROM upthread.conversation AS c
WHERE workstream_digest = sha256(sha256($1) || $2) AND upthread.is_whole(c) ORDER BY id;

-- open_conversation: mint one
INSERT INTO upthread.conversation ({conversation})
VALUES ({1:conversation});

-- workstream: one by its name
SELECT {workstream} FROM upthread.workstream AS w
WHERE project_id = $1 AND name_digest = sha256($2) AND upthread.is_whole(w);

-- workstream_of_base_name: who has a base name
SELECT workstream FROM upthread.workstream
WHERE project_id = $1 AND base_name_digest = sha256($2);

-- workstreams: all of a project, oldest first
SELECT {workstream} FROM upthread.workstream AS w
WHERE project_id = $1 AND upthread.is_whole(w) ORDER BY id;

-- open_workstream: give one its base name
INSERT INTO upthread.workstream ({workstream})
VALUES ({1:workstream});

-- projects: identities that share the path, of the same owner or of none, or the root commit
SELECT project_id, {identity} FROM upthread.known_as($1, $2, $3) AS i
WHERE upthread.is_whole(i);

-- record_project: know a project under one more identity
INSERT INTO upthread.project_identity (project_id, {identity})
VALUES ($1, {2:identity}) ON CONFLICT DO NOTHING;

-- links: all of a conversation, oldest first
SELECT {l.link}, e.ended_because, e.ended_at_ms
FROM upthread.link AS l
LEFT JOIN upthread.link_end AS e
    ON e.conversation_id = l.conversation_id AND e.seq = l.seq AND upthread.is_whole(e)
WHERE l.conversation_id = $1 AND upthread.is_whole(l) ORDER BY l.seq;

-- link: one, as it was opened
SELECT {link}
FROM upthread.link WHERE conversation_id = $1 AND seq = $2;

-- last_link: the last link's seq, NULL without one
SELECT max(seq) FROM upthread.link WHERE conversation_id = $1;

-- open_link: bank an upstream id
INSERT INTO upthread.link (conversation_id, {link})
VALUES ($1, {2:link});

-- end_link: the first cause stands
INSERT INTO upthread.link_end (conversation_id, seq, ended_because, ended_at_ms)
VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING;

-- link_owner: whose newest link holds an upstream session, within a project
SELECT {c.conversation}
FROM upthread.link AS l
JOIN upthread.conversation AS c ON c.conversation_id = l.conversation_id
WHERE
    l.upstream_digest = sha256($1) AND upthread.is_whole(l) AND upthread.is_whole(c)
    AND c.project_id = $2
    AND l.seq = (
        SELECT max(n.seq) FROM upthread.link AS n WHERE n.conversation_id = l.conversation_id
    )
ORDER BY l.id DESC LIMIT 1;

-- messages: parts after a message and up to another one, oldest first
SELECT
    message_seq, ordinal, speaker, turn_id, upstream_session_id, recorded_at_ms, kind, call_id,
    content
FROM upthread.part WHERE conversation_id = $1 AND message_seq > $2 AND message_seq <= $3::BIGINT
ORDER BY message_seq, ordinal;

-- part_contents: what is stored of parts after a message and up to another one, oldest first
SELECT content
FROM upthread.part WHERE conversation_id = $1 AND message_seq > $2 AND message_seq <= $3::BIGINT
ORDER BY message_seq, ordinal;

-- newest_messages: parts after a message, of the last so many messages only, oldest first
SELECT
    message_seq, ordinal, speaker, turn_id, upstream_session_id, recorded_at_ms, kind, call_id,
    content
FROM upthread.part
WHERE
    conversation_id = $1
    AND message_seq > greatest(
        $2,
        (SELECT max(n.message_seq) FROM upthread.part AS n WHERE n.conversation_id = $1) - $3
    )
ORDER BY message_seq, ordinal;

-- prior_parts: texts of users and assistants before a place and after a message, newest first
SELECT message_seq, ordinal, speaker, turn_id, upstream_session_id, recorded_at_ms, content
FROM upthread.part
WHERE
    conversation_id = $1
    AND (message_seq, ordinal) < ($2, $3)
    AND message_seq > $4
    AND kind = 'text' AND speaker IN ('user', 'assistant') AND content IS NOT NULL
    AND (upstream_session_id IS NULL OR upstream_session_id = ANY($5::bytea[]))
ORDER BY message_seq DESC, ordinal DESC LIMIT $6;

-- message_count: the last message's seq, NULL without one
SELECT max(message_seq) FROM upthread.part WHERE conversation_id = $1;

-- part: one, to compare with
SELECT
    speaker, turn_id, upstream_session_id, recorded_at_ms, kind, call_id, digest, content
FROM upthread.part WHERE conversation_id = $1 AND message_seq = $2 AND ordinal = $3;

-- record_part: append one
INSERT INTO upthread.part (
    conversation_id, message_seq, ordinal, speaker, turn_id, upstream_session_id, recorded_at_ms,
    kind, call_id, chain, digest, content
) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12);

-- record_erased_part: append one whose content is not kept
INSERT INTO upthread.part (
    conversation_id, message_seq, ordinal, speaker, turn_id, upstream_session_id, recorded_at_ms,
    kind, call_id, chain, digest, erased_bytes
) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12);

-- erase_parts: forget the content of a conversation recorded before a time, NULL for any
UPDATE upthread.part
SET digest = sha256(content), erased_bytes = length(content), content = NULL
WHERE
    conversation_id = $1 AND content IS NOT NULL
    AND ($2::bigint IS NULL OR recorded_at_ms < $2);

-- erase_quarantined: forget what had no owner, of a conversation's turns
UPDATE upthread.quarantine SET raw = $3, seal = NULL
WHERE
    turn_id IN (SELECT turn_id FROM upthread.turn WHERE conversation_id = $1)
    AND ($2::bigint IS NULL OR recorded_at_ms < $2);

-- erase_examined: forget which files were read, of a conversation
DELETE FROM upthread.examined
WHERE conversation_id = $1 AND ($2::bigint IS NULL OR recorded_at_ms < $2);

-- erase_briefing_edits: forget what persons made of a conversation's briefing
UPDATE upthread.briefing_edit SET edit = $3, seal = NULL
WHERE conversation_id = $1 AND ($2::bigint IS NULL OR recorded_at_ms < $2);

-- turn_events_to_erase: all of a conversation's turns, with what they are changed by
SELECT e.turn_id, e.seq, e.kind, e.payload, e.recorded_at_ms
FROM upthread.turn AS t JOIN upthread.turn_event AS e ON e.turn_id = t.turn_id
WHERE t.conversation_id = $1 ORDER BY t.id, e.seq;

-- change_turn_event: put another payload in an event's place
UPDATE upthread.turn_event SET payload = $3, seal = NULL WHERE turn_id = $1 AND seq = $2;

-- receipts_to_erase: of actions, that name a conversation, once what they are of is erased
SELECT o.key_digest, o.step, o.receipt
FROM upthread.conversation AS c JOIN upthread.once_event AS o
    ON sha256(o.project_id) = sha256(c.project_id) AND position(c.conversation_id IN o.receipt) > 0
WHERE c.conversation_id = $1 AND (
    $2::bigint IS NULL OR o.recorded_at_ms < $2
    OR NOT EXISTS (
        SELECT 1 FROM upthread.part WHERE conversation_id = $1 AND content IS NOT NULL
    )
);

-- change_receipt: put another receipt in its place
UPDATE upthread.once_event SET receipt = $3, seal = NULL WHERE key_digest = $1 AND step = $2;

-- run_events_to_erase: all of a run, with what they are changed by
SELECT run_id, seq, kind, payload, recorded_at_ms
FROM upthread.run_event WHERE run_id = $1 ORDER BY seq;

-- change_run_event: put another payload in an event's place
UPDATE upthread.run_event SET payload = $3, seal = NULL WHERE run_id = $1 AND seq = $2;

-- scrub: write the tables that content was erased from anew
SELECT upthread.scrub();

-- chained_parts: so many of a conversation after a place, with what their chain covers
SELECT
    message_seq, ordinal, speaker, turn_id, upstream_session_id, recorded_at_ms, kind, call_id,
    chain, digest, content
FROM upthread.part WHERE conversation_id = $1 AND (message_seq, ordinal) > ($2, $3)
ORDER BY message_seq, ordinal LIMIT $4;

-- open_turn: mint one
INSERT INTO upthread.turn (turn_id, conversation_id, run_id, opened_at_ms)
VALUES ($1, $2, $3, $4);

-- turns: the last so many of a conversation, newest first; NULL for all
SELECT turn_id, opened_at_ms, run_id FROM upthread.turn AS t
WHERE conversation_id = $1 AND upthread.is_whole(t) ORDER BY id DESC LIMIT $2;

-- turn: one by its id
SELECT conversation_id, run_id, opened_at_ms FROM upthread.turn AS t WHERE turn_id = $1 AND upthread.is_whole(t);

-- turn_event: one, to compare with
SELECT kind, payload, recorded_at_ms FROM upthread.turn_event WHERE turn_id = $1 AND seq = $2;

-- record_turn_event: append one
INSERT INTO upthread.turn_event (turn_id, seq, kind, payload, recorded_at_ms)
VALUES ($1, $2, $3, $4, $5);

-- turn_events: all of a turn, in order
SELECT seq, kind, payload, recorded_at_ms FROM upthread.turn_event AS e
WHERE turn_id = $2 AND upthread.is_whole(e) AND EXISTS (
    SELECT 1 FROM upthread.turn AS t WHERE t.turn_id = $2 AND t.conversation_id = $1
) ORDER BY seq;

-- turn_owner: the conversation that has a turn, within a project
SELECT {c.conversation}
FROM upthread.turn AS t JOIN upthread.conversation AS c ON c.conversation_id = t.conversation_id
WHERE t.turn_id = $1 AND c.project_id = $2 AND upthread.is_whole(t) AND upthread.is_whole(c);

-- open_run: mint one
INSERT INTO upthread.run ({run}) VALUES ({1:run});

-- runs: all of a workstream, oldest first
SELECT {run} FROM upthread.run AS r
WHERE workstream_digest = sha256(sha256($1) || $2) AND upthread.is_whole(r) ORDER BY id;

-- run: one by its id
SELECT project_id, workstream, opened_at_ms FROM upthread.run AS r
WHERE run_id = $1 AND upthread.is_whole(r);

-- run_event: one, to compare with
SELECT kind, payload, recorded_at_ms FROM upthread.run_event WHERE run_id = $1 AND seq = $2;

-- record_run_event: append one
INSERT INTO upthread.run_event (run_id, seq, kind, payload, recorded_at_ms)
VALUES ($1, $2, $3, $4, $5);

-- run_events: all of a run, in order
SELECT seq, kind, payload, recorded_at_ms FROM upthread.run_event AS e
WHERE run_id = $1 AND upthread.is_whole(e) ORDER BY seq;

-- transition: when one is due, to compare with
SELECT due_at_ms FROM upthread.transition WHERE run_id = $1 AND run_seq = $2;

-- enqueue_transition: put one into the outbox; settled when a later event settles it already
INSERT INTO upthread.transition (run_id, run_seq, due_at_ms, queue, server_due_at_ms, is_settled)
VALUES (
    $1, $2, $3, $5, (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $4::bigint,
    EXISTS (
        SELECT 1 FROM upthread.run_event AS e
        WHERE e.run_id = $1 AND e.seq > $2
            AND e.kind NOT IN ('step_started', 'answer_suggested')
    )
);

-- enqueue_job: hand a transition that is not settled to the workers of its queue
SELECT upthread.procrastinate_defer_jobs_v1(
    array_agg(
        row(
            coalesce(convert_from(t.queue, 'UTF8'), 'upthread'), 'transition', 0, NULL,
            r.id || ':' || t.run_seq, jsonb_build_object('run', r.id, 'seq', t.run_seq),
            CASE WHEN $3::bigint > 0 THEN clock_timestamp() + $3 * interval '1 ms' END
        )::upthread.procrastinate_job_to_defer_v1
    )
)
FROM upthread.transition AS t JOIN upthread.run AS r ON r.run_id = t.run_id
WHERE t.run_id = $1 AND t.run_seq = $2 AND NOT t.is_settled
HAVING count(*) > 0;

-- settle_transitions: those that an event settles, and those of their jobs that nobody has taken
WITH settled AS (
    UPDATE upthread.transition SET is_settled = true
    WHERE run_id = $1 AND run_seq < $2 AND NOT is_settled RETURNING run_id, run_seq
)
DELETE FROM upthread.procrastinate_jobs AS j
USING settled AS t JOIN upthread.run AS r ON r.run_id = t.run_id
WHERE j.status = 'todo' AND j.queueing_lock = r.id || ':' || t.run_seq;

-- refusals: decisions that led to no turn, oldest first
SELECT decision, reasons, inputs, decided_at_ms FROM upthread.refusal AS f
WHERE conversation_id = $1 AND upthread.is_whole(f) ORDER BY id;

-- record_refusal: keep one, once
INSERT INTO upthread.refusal (conversation_id, decision, reasons, inputs, decided_at_ms)
SELECT $1, $2, $3, $4, $5
WHERE NOT EXISTS (
    SELECT 1 FROM upthread.refusal
    WHERE
        conversation_id = $1 AND decided_at_ms = $5 AND decision = $2 AND reasons = $3
        AND inputs = $4
);

-- record_act: keep one, once
INSERT INTO upthread.act (conversation_id, run_id, what, by_user, detail, recorded_at_ms)
SELECT $1, $2, $3, $4, $5, $6
WHERE NOT EXISTS (
    SELECT 1 FROM upthread.act
    WHERE
        conversation_id = $1 AND what = $3 AND by_user = $4 AND detail = $5
        AND recorded_at_ms = $6
) AND NOT EXISTS (
    SELECT 1 FROM upthread.act
    WHERE run_id = $2 AND what = $3 AND by_user = $4 AND detail = $5 AND recorded_at_ms = $6
);

-- acts: what people did to a conversation or a run, oldest first
SELECT conversation_id, run_id, what, by_user, detail, recorded_at_ms FROM upthread.act AS a
WHERE (conversation_id = $1 OR run_id = $1) AND upthread.is_whole(a) ORDER BY id;

-- quarantined: one turn's, in order
SELECT ordinal, reason, raw FROM upthread.quarantine AS q
WHERE turn_id = $2 AND upthread.is_whole(q) AND EXISTS (
    SELECT 1 FROM upthread.turn AS t WHERE t.turn_id = $2 AND t.conversation_id = $1
) ORDER BY ordinal;

-- quarantine: one, to compare with
SELECT reason, raw, recorded_at_ms FROM upthread.quarantine WHERE turn_id = $1 AND ordinal = $2;

-- record_quarantine: keep an event whose owner is unknown
INSERT INTO upthread.quarantine (turn_id, ordinal, reason, raw, recorded_at_ms)
VALUES ($1, $2, $3, $4, $5);

-- examined: the last word on each path, of one upstream session or of all
SELECT last.path, last.how, last.state, last.size_bytes, last.mtime_ns, last.digest
FROM (
    SELECT DISTINCT ON (e.path) e.*
    FROM upthread.examined AS e
    WHERE
        e.conversation_id = $1 AND upthread.is_whole(e)
        AND ($2::bytea IS NULL OR e.upstream_session_id = $2)
    ORDER BY e.path, e.id DESC
) AS last
ORDER BY last.id;

-- examined_files: a turn's from one place to another, to compare with
SELECT
    ordinal, conversation_id, upstream_session_id, {examined},
    recorded_at_ms
FROM upthread.examined WHERE turn_id = $1 AND ordinal BETWEEN $2 AND $3;

-- record_examined: keep a file as a session knows it
INSERT INTO upthread.examined (
    turn_id, ordinal, conversation_id, upstream_session_id, {examined}, recorded_at_ms
) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11);

-- briefing_edit: the newest of a conversation
SELECT seq, edit, recorded_at_ms FROM upthread.briefing_edit AS b
WHERE conversation_id = $1 AND upthread.is_whole(b) ORDER BY seq DESC LIMIT 1;

-- last_briefing_edit: the last edit's seq, NULL without one
SELECT max(seq) FROM upthread.briefing_edit WHERE conversation_id = $1;

-- briefing_edit_of_seq: one, to compare with
SELECT edit, recorded_at_ms FROM upthread.briefing_edit WHERE conversation_id = $1 AND seq = $2;

-- record_briefing_edit: append one
INSERT INTO upthread.briefing_edit (conversation_id, seq, edit, recorded_at_ms)
VALUES ($1, $2, $3, $4);

-- once: the last step of the attempts at an action
SELECT attempt_id, state, receipt, recorded_at_ms, step FROM upthread.once_event AS o
WHERE key_digest = sha256(sha256($1) || $2) AND upthread.is_whole(o) ORDER BY step DESC LIMIT 1;

-- once_event: one step of one attempt, to compare with
SELECT receipt, recorded_at_ms FROM upthread.once_event
WHERE
    key_digest = sha256(sha256($1) || $2)
    AND attempt_id = $3 AND state = $4;

-- record_once: append a step
INSERT INTO upthread.once_event (
    project_id, key, attempt_id, state, receipt, recorded_at_ms, step
) VALUES ($1, $2, $3, $4, $5, $6, $7);

-- lease: as it stands
SELECT token, heartbeat, host, boot_id, pid, started_at_ticks, doing, call FROM upthread.lease
WHERE name_digest = sha256($1);

-- held_leases: those that somebody holds, whose names lie from one text up to another
SELECT name, token, heartbeat, host, boot_id, pid, started_at_ticks, doing, call
FROM upthread.lease
WHERE
    sha256(project_id) = sha256(substr($1::bytea, 14, length($1::bytea) - 14)) AND host IS NOT NULL
    AND name >= $1 AND name < $2
ORDER BY name;

-- keep_held: whether a lease is held under a token; until the transaction ends nobody takes it over
SELECT 1 FROM upthread.lease
WHERE name_digest = sha256($1) AND token = $2 AND host IS NOT NULL FOR SHARE;

-- take_lease: give it to a holder under the next token, if it is free or has not moved since seen
INSERT INTO upthread.lease AS l (
    name, token, heartbeat, host, boot_id, pid, started_at_ticks, doing, call
) VALUES ($1, 1, 1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (name_digest) DO UPDATE SET
    token = l.token + 1, heartbeat = l.heartbeat + 1, host = excluded.host,
    boot_id = excluded.boot_id, pid = excluded.pid,
    started_at_ticks = excluded.started_at_ticks, doing = excluded.doing, call = excluded.call
WHERE l.host IS NULL OR (l.token = $8 AND l.heartbeat = $9)
RETURNING token, heartbeat;

-- heartbeat: show life under a token
UPDATE upthread.lease SET heartbeat = heartbeat + 1
WHERE name_digest = sha256($1) AND token = $2 AND host IS NOT NULL RETURNING token;

-- release_lease: give it back under a token
UPDATE upthread.lease SET
    host = NULL, boot_id = NULL, pid = NULL, started_at_ticks = NULL, doing = NULL, call = NULL
WHERE name_digest = sha256($1) AND token = $2 RETURNING token;

-- register_worker: say what a worker is and has; $11 is the id it had before, NULL without one
WITH forgotten AS (
    DELETE FROM upthread.worker AS w
    WHERE
        w.worker_id = $11::bigint
        OR NOT EXISTS (SELECT 1 FROM upthread.procrastinate_workers AS p WHERE p.id = w.worker_id)
)
INSERT INTO upthread.worker (
    worker_id, host, boot_id, pid, started_at_ticks, version, agents, queues, concurrency,
    registered_at_ms
) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10);

-- forget_worker: one that has stopped
DELETE FROM upthread.worker WHERE worker_id = $1;

-- workers: those that are known, and how long each has been silent
SELECT
    w.worker_id, w.host, w.boot_id, w.pid, w.started_at_ticks, w.version, w.agents, w.queues,
    w.concurrency, w.registered_at_ms,
    (extract(epoch FROM clock_timestamp() - p.last_heartbeat) * 1000)::bigint,
    (
        SELECT count(*) FROM upthread.procrastinate_jobs AS j
        WHERE j.worker_id = w.worker_id AND j.status = 'doing'
    )
FROM upthread.worker AS w JOIN upthread.procrastinate_workers AS p ON p.id = w.worker_id
ORDER BY w.worker_id;

-- run_of_row: the run that a job names
SELECT {run} FROM upthread.run WHERE id = $1;

-- try_recovering: whether nobody else recovers jobs just now; until the transaction ends
SELECT pg_try_advisory_xact_lock($1);

-- retry_jobs: give back those of workers that are silent, pruned or known to be dead
WITH stalled AS (
    SELECT j.id, j.queue_name
    FROM upthread.procrastinate_jobs AS j
    LEFT JOIN upthread.procrastinate_workers AS w ON w.id = j.worker_id
    WHERE
        j.status = 'doing' AND (
            w.id IS NULL OR w.id = ANY($2::bigint[])
            OR w.last_heartbeat < clock_timestamp() - $1::bigint * interval '1 ms'
        )
    FOR UPDATE OF j SKIP LOCKED
)
SELECT
    id, upthread.procrastinate_retry_job_v2(id, NULL, NULL, NULL, NULL),
    pg_notify(
        'procrastinate_queue_v1#' || queue_name,
        json_build_object('type', 'job_inserted', 'job_id', id)::text
    )
FROM stalled;

-- free_jobs: let those go anywhere that have waited for their host, where no living worker takes them
UPDATE upthread.procrastinate_jobs AS j SET queue_name = regexp_replace(j.queue_name, '\.\w{8}$', '')
WHERE
    j.status = 'todo' AND j.queue_name ~ '^upthread\.\w{18}\.\w{8}$'
    AND (j.scheduled_at IS NULL OR j.scheduled_at < clock_timestamp() - $3::bigint * interval '1 ms')
    AND NOT EXISTS (
        SELECT 1 FROM upthread.worker AS w
        JOIN upthread.procrastinate_workers AS p ON p.id = w.worker_id
        WHERE
            j.queue_name = ANY(w.queues) AND p.id <> ALL($2::bigint[])
            AND p.last_heartbeat > clock_timestamp() - $1::bigint * interval '1 ms'
    )
    AND (SELECT max(e.at) FROM upthread.procrastinate_events AS e WHERE e.job_id = j.id)
    < clock_timestamp() - $3 * interval '1 ms'
RETURNING pg_notify(
    'procrastinate_queue_v1#' || j.queue_name,
    json_build_object('type', 'job_inserted', 'job_id', j.id)::text
);

-- enqueue_lost: transitions that are due and have no job, neither waiting nor with a worker
SELECT unnest(upthread.procrastinate_defer_jobs_v1(
    array_agg(
        row(
            coalesce(convert_from(t.queue, 'UTF8'), 'upthread'), 'transition', 0, NULL,
            r.id || ':' || t.run_seq, jsonb_build_object('run', r.id, 'seq', t.run_seq), NULL
        )::upthread.procrastinate_job_to_defer_v1
    )
))
FROM upthread.transition AS t JOIN upthread.run AS r ON r.run_id = t.run_id
WHERE
    NOT t.is_settled
    AND coalesce(t.server_due_at_ms, t.due_at_ms) <= extract(epoch FROM clock_timestamp()) * 1000
    AND NOT EXISTS (
        SELECT 1 FROM upthread.procrastinate_jobs AS j
        WHERE j.queueing_lock = r.id || ':' || t.run_seq AND j.status IN ('todo', 'doing')
    )
HAVING count(*) > 0;

-- backlog: transitions that are due and that no worker has, and the age of the oldest
SELECT count(*), coalesce(max(due.age_ms), 0)::bigint
FROM upthread.transition AS t
JOIN upthread.run AS r ON r.run_id = t.run_id
CROSS JOIN LATERAL (
    SELECT
        extract(epoch FROM clock_timestamp()) * 1000
        - coalesce(t.server_due_at_ms, t.due_at_ms) AS age_ms
) AS due
WHERE
    NOT t.is_settled AND due.age_ms >= 0
    AND NOT EXISTS (
        SELECT 1 FROM upthread.procrastinate_jobs AS j
        WHERE j.queueing_lock = r.id || ':' || t.run_seq AND j.status = 'doing'
    );

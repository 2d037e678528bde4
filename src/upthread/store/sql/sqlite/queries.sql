-- Each query: a line `-- name: what it returns or does`, then one statement.

-- resolve: the newest generation of a key and its newest open link
SELECT
    c.conversation_id, c.generation, c.base_name, c.opened_at_ms, c.parent_conversation_id,
    c.parent_call_id, {l.link}
FROM conversation AS c
LEFT JOIN link AS l
    ON l.conversation = c.id AND NOT EXISTS (SELECT 1 FROM link_end AS e WHERE e.link = l.id)
WHERE c.project_id = ? AND c.workstream = ? AND c.role = ? AND c.slot = ? AND c.slot > 0
ORDER BY c.generation DESC, l.seq DESC LIMIT 1;

-- conversation: one by its id
SELECT {conversation}
FROM whole_conversation WHERE conversation_id = ?;

-- conversation_of_key: the id of one generation of a key
SELECT conversation_id FROM conversation
WHERE project_id = ? AND workstream = ? AND role = ? AND slot = ? AND generation = ? AND slot > 0;

-- conversations: all of a workstream, in the order they were committed
SELECT {conversation}
FROM whole_conversation WHERE project_id = ? AND workstream = ? ORDER BY id;

-- conversation_row: the row of an id
SELECT id FROM conversation WHERE conversation_id = ?;

-- open_conversation: mint one
INSERT INTO conversation ({conversation}, seal)
VALUES (
    {1:conversation},
    seal(
        'conversation', {1:conversation},
        (SELECT max(id) FROM conversation)
    )
) RETURNING id;

-- workstream: one by its name
SELECT {workstream} FROM whole_workstream
WHERE project_id = ? AND workstream = ?;

-- workstream_of_base_name: who has a base name
SELECT workstream FROM workstream WHERE project_id = ? AND base_name = ?;

-- workstreams: all of a project, oldest first
SELECT {workstream} FROM whole_workstream
WHERE project_id = ? ORDER BY id;

-- open_workstream: give one its base name
INSERT INTO workstream ({workstream}, seal)
VALUES ({1:workstream}, seal('workstream', {1:workstream}, (SELECT max(id) FROM workstream)));

-- projects: identities that share the path, of the same owner or of none, or the root commit
SELECT project_id, {identity} FROM whole_project_identity
WHERE
    (path = ?1 AND (owner IS NULL OR owner = ?3))
    OR (root_commit IS NOT NULL AND root_commit = ?2)
ORDER BY id;

-- record_project: know a project under one more identity
INSERT INTO project_identity (project_id, {identity}, seal)
SELECT
    ?1, {2:identity},
    seal('project_identity', ?1, {2:identity}, (SELECT max(id) FROM project_identity))
WHERE NOT EXISTS (
    SELECT 1 FROM project_identity
    WHERE
        path = ?2 AND project_id = ?1 AND root_commit IS ?3 AND remote IS ?4 AND owner IS ?5
);

-- links: all of a conversation, oldest first
SELECT {l.link}, e.ended_because, e.ended_at_ms
FROM conversation AS c
JOIN whole_link AS l ON l.conversation = c.id
LEFT JOIN whole_link_end AS e ON e.link = l.id
WHERE c.conversation_id = ? ORDER BY l.seq;

-- link: one, as it was opened
SELECT {link}
FROM link WHERE conversation = ? AND seq = ?;

-- last_link: the last link's seq, NULL without one
SELECT max(seq) FROM link WHERE conversation = ?;

-- open_link: bank an upstream id
INSERT INTO link (conversation, {link}, seal)
VALUES (
    ?1, {2:link},
    seal(
        'link', (SELECT conversation_id FROM conversation WHERE id = ?1),
        {2:link}
    )
);

-- end_link: the first cause stands
INSERT OR IGNORE INTO link_end (link, ended_because, ended_at_ms, seal)
SELECT l.id, ?3, ?4, seal('link_end', l.id, ?3, ?4) FROM link AS l
WHERE l.conversation = ?1 AND l.seq = ?2;

-- link_owner: whose newest link holds an upstream session, within a project
SELECT {c.conversation}
FROM whole_link AS l JOIN whole_conversation AS c ON c.id = l.conversation
WHERE
    l.upstream_session_id = ?
    AND c.project_id = ?
    AND l.seq = (SELECT max(n.seq) FROM link AS n WHERE n.conversation = l.conversation)
ORDER BY l.id DESC LIMIT 1;

-- messages: parts after a message and up to another one, oldest first
SELECT
    message_seq, ordinal, speaker, turn, upstream, recorded_at_ms, kind, call_id, content
FROM part WHERE conversation = ? AND message_seq > ? AND message_seq <= ?
ORDER BY message_seq, ordinal;

-- part_contents: what is stored of parts after a message and up to another one, oldest first
SELECT content FROM part
WHERE
    conversation = (SELECT id FROM conversation WHERE conversation_id = ?1)
    AND message_seq > ?2 AND message_seq <= ?3
ORDER BY message_seq, ordinal;

-- newest_messages: parts after a message, of the last so many messages only, oldest first
SELECT
    message_seq, ordinal, speaker, turn, upstream, recorded_at_ms, kind, call_id, content
FROM part
WHERE
    conversation = ?1
    AND message_seq > max(
        ?2, (SELECT coalesce(max(n.message_seq), 0) FROM part AS n WHERE n.conversation = ?1) - ?3
    )
ORDER BY message_seq, ordinal;

-- prior_parts: texts of users and assistants within the last so many messages, newest first
SELECT message_seq, speaker, turn, upstream, recorded_at_ms, content
FROM part
WHERE
    conversation = ?1
    AND message_seq > (SELECT max(n.message_seq) FROM part AS n WHERE n.conversation = ?1) - ?2
    AND kind = 'text' AND speaker IN ('user', 'assistant') AND content IS NOT NULL
ORDER BY message_seq DESC, ordinal DESC;

-- message_count: the last message's seq, NULL without one
SELECT max(message_seq) FROM part WHERE conversation = ?;

-- last_part: where the next part goes, and what it is chained to
SELECT message_seq, ordinal, speaker, turn, upstream, chain FROM part
WHERE conversation = ? ORDER BY message_seq DESC, ordinal DESC LIMIT 1;

-- part: one, to compare with
SELECT
    p.speaker, t.turn_id, u.upstream_session_id, p.recorded_at_ms, p.kind, p.call_id, p.digest,
    p.content
FROM part AS p JOIN turn AS t ON t.id = p.turn LEFT JOIN upstream AS u ON u.id = p.upstream
WHERE p.conversation = ? AND p.message_seq = ? AND p.ordinal = ?;

-- record_part: append one
INSERT INTO part (
    conversation, message_seq, ordinal, speaker, turn, upstream, recorded_at_ms, kind, call_id,
    chain, digest, content
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- record_erased_part: append one whose content is not kept
INSERT INTO part (
    conversation, message_seq, ordinal, speaker, turn, upstream, recorded_at_ms, kind, call_id,
    chain, digest, erased_bytes
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- erase_parts: forget the content of a conversation recorded before a time, NULL for any
UPDATE part SET digest = sha256(content), erased_bytes = length(content), content = NULL
WHERE
    conversation = ?1 AND content IS NOT NULL AND (?2 IS NULL OR recorded_at_ms < ?2);

-- erase_quarantined: forget what had no owner, of a conversation's turns
UPDATE quarantine SET
    raw = ?3,
    seal = (
        SELECT seal(
            'quarantine', t.turn_id, ordinal, reason, ?3, recorded_at_ms,
            (SELECT max(p.id) FROM quarantine AS p WHERE p.id < quarantine.id)
        )
        FROM turn AS t WHERE t.id = quarantine.turn
    )
WHERE
    turn IN (SELECT id FROM turn WHERE conversation = ?1)
    AND (?2 IS NULL OR recorded_at_ms < ?2);

-- erase_examined: forget which files were read, of a conversation
DELETE FROM examined WHERE conversation = ?1 AND (?2 IS NULL OR recorded_at_ms < ?2);

-- erase_briefing_edits: forget what persons made of a conversation's briefing
UPDATE briefing_edit SET
    edit = ?3,
    seal = (
        SELECT seal('briefing_edit', c.conversation_id, seq, ?3, recorded_at_ms)
        FROM conversation AS c WHERE c.id = briefing_edit.conversation
    )
WHERE conversation = ?1 AND (?2 IS NULL OR recorded_at_ms < ?2);

-- turn_events_to_erase: all of a conversation's turns, with what they are changed by
SELECT e.id, e.kind, e.payload, e.recorded_at_ms
FROM turn AS t JOIN turn_event AS e ON e.id > t.id << 20 AND e.id < (t.id + 1) << 20
WHERE t.conversation = ? ORDER BY e.id;

-- change_turn_event: put another payload in an event's place
UPDATE turn_event SET
    payload = ?2,
    seal = (
        SELECT seal('turn_event', t.turn_id, ?1 & 1048575, kind, ?2, recorded_at_ms)
        FROM turn AS t WHERE t.id = ?1 >> 20
    )
WHERE id = ?1;

-- receipts_to_erase: of actions, that name a conversation, once what they are of is erased
SELECT o.id, o.receipt
FROM conversation AS c JOIN once_event AS o
    ON o.project_id = c.project_id AND instr(o.receipt, CAST(c.conversation_id AS BLOB))
WHERE c.id = ?1 AND (
    ?2 IS NULL OR o.recorded_at_ms < ?2
    OR NOT EXISTS (SELECT 1 FROM part WHERE conversation = ?1 AND content IS NOT NULL)
);

-- change_receipt: put another receipt in its place
UPDATE once_event SET
    receipt = ?2,
    seal = seal(
        'once_event', project_id, key, attempt_id, state, ?2, recorded_at_ms,
        (SELECT max(p.id) FROM once_event AS p WHERE p.id < ?1)
    )
WHERE id = ?1;

-- run_events_to_erase: all of a run, with what they are changed by
SELECT id, kind, payload, recorded_at_ms FROM run_event WHERE run = ? ORDER BY seq;

-- change_run_event: put another payload in an event's place
UPDATE run_event SET
    payload = ?2,
    seal = (
        SELECT seal('run_event', r.run_id, seq, kind, ?2, recorded_at_ms)
        FROM run AS r WHERE r.id = run_event.run
    )
WHERE id = ?1;

-- chained_parts: all of a conversation with what their chain covers
SELECT
    p.message_seq, p.ordinal, p.speaker, t.turn_id, u.upstream_session_id, p.recorded_at_ms,
    p.kind, p.call_id, p.chain, p.digest, p.content
FROM part AS p
LEFT JOIN turn AS t ON t.id = p.turn
LEFT JOIN upstream AS u ON u.id = p.upstream
WHERE p.conversation = ? ORDER BY p.message_seq, p.ordinal;

-- upstream_row: the row of an upstream id
SELECT id FROM upstream WHERE upstream_session_id = ?;

-- open_upstream: write an upstream id down once
INSERT INTO upstream (upstream_session_id) VALUES (?) RETURNING id;

-- upstream_names: the upstream id of a row
SELECT id, upstream_session_id FROM upstream WHERE id = ?;

-- turn_names: the turn id of a row, and those that follow it in its conversation
SELECT id, turn_id FROM turn
WHERE id >= ?1 AND conversation = (SELECT conversation FROM turn WHERE id = ?1)
ORDER BY id LIMIT 64;

-- turn_row: the row of a turn
SELECT id FROM turn WHERE turn_id = ?;

-- turn_row_within: the row of a conversation's turn
SELECT t.id FROM turn AS t JOIN conversation AS c ON c.id = t.conversation
WHERE t.turn_id = ? AND c.conversation_id = ?;

-- turn_owner: the conversation that has a turn, within a project
SELECT {c.conversation}
FROM whole_turn AS t JOIN whole_conversation AS c ON c.id = t.conversation
WHERE t.turn_id = ? AND c.project_id = ?;

-- turn: one, to compare with
SELECT c.conversation_id, r.run_id, t.opened_at_ms
FROM whole_turn AS t
JOIN conversation AS c ON c.id = t.conversation
LEFT JOIN run AS r ON r.id = t.run
WHERE t.turn_id = ?;

-- open_turn: mint one
INSERT INTO turn (turn_id, conversation, run, opened_at_ms, seal)
VALUES (?1, ?2, ?3, ?4, seal('turn', ?1, ?2, ?3, ?4, (SELECT max(id) FROM turn))) RETURNING id;

-- turns: the last so many of a conversation, newest first; NULL for all
SELECT t.turn_id, t.opened_at_ms, r.run_id
FROM conversation AS c
JOIN whole_turn AS t ON t.conversation = c.id
LEFT JOIN run AS r ON r.id = t.run
WHERE c.conversation_id = ? ORDER BY t.id DESC LIMIT coalesce(?, -1);

-- last_turn_event: the last event's seq, NULL without one
SELECT max(id) & 1048575 FROM turn_event WHERE id > ?1 << 20 AND id < (?1 + 1) << 20;

-- turn_event: one, to compare with
SELECT kind, payload, recorded_at_ms FROM turn_event WHERE id = (?1 << 20) + ?2;

-- record_turn_event: append one after the last
INSERT INTO turn_event (id, kind, payload, recorded_at_ms, seal)
VALUES ((?1 << 20) + ?2, ?3, ?4, ?5, ?6);

-- turn_events: all of a turn, in order
SELECT e.id & 1048575, e.kind, e.payload, e.recorded_at_ms
FROM turn AS t
JOIN conversation AS c ON c.id = t.conversation
JOIN whole_turn_event AS e ON e.id > t.id << 20 AND e.id < (t.id + 1) << 20
WHERE c.conversation_id = ? AND t.turn_id = ? ORDER BY e.id;

-- run_row: the row of a run
SELECT id FROM run WHERE run_id = ?;

-- run: one, to compare with
SELECT project_id, workstream, opened_at_ms FROM whole_run WHERE run_id = ?;

-- open_run: mint one
INSERT INTO run ({run}, seal)
VALUES ({1:run}, seal('run', {1:run}, (SELECT max(id) FROM run))) RETURNING id;

-- runs: all of a workstream, oldest first
SELECT {run} FROM whole_run
WHERE project_id = ? AND workstream = ? ORDER BY id;

-- last_run_event: the last event's seq, NULL without one
SELECT max(seq) FROM run_event WHERE run = ?;

-- run_event: one, to compare with
SELECT kind, payload, recorded_at_ms FROM run_event WHERE run = ? AND seq = ?;

-- record_run_event: append one after the last
INSERT INTO run_event (run, seq, kind, payload, recorded_at_ms, seal) VALUES (?, ?, ?, ?, ?, ?);

-- run_events: all of a run, in order
SELECT e.seq, e.kind, e.payload, e.recorded_at_ms
FROM run AS r JOIN whole_run_event AS e ON e.run = r.id
WHERE r.run_id = ? ORDER BY e.seq;

-- transition: when one is due, to compare with
SELECT due_at_ms FROM transition WHERE run = ? AND run_seq = ?;

-- enqueue_transition: put one into the outbox; settled when a later event settles it already
INSERT INTO transition (run, run_seq, due_at_ms, is_settled) SELECT ?1, ?2, ?3, EXISTS (
    SELECT 1 FROM run_event
    WHERE run = ?1 AND seq > ?2 AND kind NOT IN ('step_started', 'answer_suggested')
);

-- settle_transitions: those that an event settles
UPDATE transition SET is_settled = 1 WHERE run = ? AND run_seq < ? AND NOT is_settled;

-- refusals: decisions that led to no turn, oldest first
SELECT f.decision, f.reasons, f.inputs, f.decided_at_ms
FROM conversation AS c JOIN whole_refusal AS f ON f.conversation = c.id
WHERE c.conversation_id = ? ORDER BY f.id;

-- record_refusal: keep one, once
INSERT INTO refusal (conversation, decision, reasons, inputs, decided_at_ms, seal)
SELECT
    ?1, ?2, ?3, ?4, ?5,
    seal(
        'refusal', (SELECT conversation_id FROM conversation WHERE id = ?1), ?2, ?3, ?4, ?5,
        (SELECT max(id) FROM refusal)
    )
WHERE NOT EXISTS (
    SELECT 1 FROM refusal
    WHERE conversation = ?1 AND decided_at_ms = ?5 AND decision = ?2 AND reasons = ?3 AND inputs = ?4
);

-- record_act: keep one, once
INSERT INTO act (conversation, run, what, by_user, detail, recorded_at_ms, seal)
SELECT
    ?1, ?2, ?3, ?4, ?5, ?6,
    seal('act', ?1, ?2, ?3, ?4, ?5, ?6, (SELECT max(id) FROM act))
WHERE NOT EXISTS (
    SELECT 1 FROM act
    WHERE conversation = ?1 AND what = ?3 AND by_user = ?4 AND detail = ?5 AND recorded_at_ms = ?6
) AND NOT EXISTS (
    SELECT 1 FROM act
    WHERE run = ?2 AND what = ?3 AND by_user = ?4 AND detail = ?5 AND recorded_at_ms = ?6
);

-- acts: what people did to a conversation or a run, oldest first
SELECT c.conversation_id, r.run_id, a.what, a.by_user, a.detail, a.recorded_at_ms
FROM whole_act AS a
LEFT JOIN conversation AS c ON c.id = a.conversation
LEFT JOIN run AS r ON r.id = a.run
WHERE a.conversation = (SELECT id FROM conversation WHERE conversation_id = ?1)
    OR a.run = (SELECT id FROM run WHERE run_id = ?1)
ORDER BY a.id;

-- quarantined: one turn's, in order
SELECT q.ordinal, q.reason, q.raw
FROM turn AS t
JOIN conversation AS c ON c.id = t.conversation
JOIN whole_quarantine AS q ON q.turn = t.id
WHERE c.conversation_id = ? AND t.turn_id = ? ORDER BY q.ordinal;

-- quarantine: one, to compare with
SELECT reason, raw, recorded_at_ms FROM quarantine WHERE turn = ? AND ordinal = ?;

-- record_quarantine: keep an event whose owner is unknown
INSERT INTO quarantine (turn, ordinal, reason, raw, recorded_at_ms, seal)
VALUES (
    ?1, ?2, ?3, ?4, ?5,
    seal(
        'quarantine', (SELECT turn_id FROM turn WHERE id = ?1), ?2, ?3, ?4, ?5,
        (SELECT max(id) FROM quarantine)
    )
);

-- examined: the last word on each path, of one upstream session or of all
SELECT {e.examined}, max(e.id) AS newest
FROM conversation AS c
JOIN whole_examined AS e ON e.conversation = c.id
LEFT JOIN upstream AS u ON u.id = e.upstream
WHERE c.conversation_id = ?1 AND (?2 IS NULL OR u.upstream_session_id = ?2)
GROUP BY e.path ORDER BY newest;

-- examined_files: a turn's from one place to another, to compare with
SELECT ordinal, conversation, upstream, {examined}, recorded_at_ms
FROM examined WHERE turn = ? AND ordinal BETWEEN ? AND ?;

-- record_examined: keep a file as a session knows it
INSERT INTO examined (
    turn, ordinal, conversation, upstream, {examined},
    recorded_at_ms, seal
) VALUES (
    ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,
    seal('examined', ?3, ?1, ?2, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
);

-- briefing_edit: the newest of a conversation
SELECT b.seq, b.edit, b.recorded_at_ms
FROM conversation AS c JOIN whole_briefing_edit AS b ON b.conversation = c.id
WHERE c.conversation_id = ? ORDER BY b.seq DESC LIMIT 1;

-- last_briefing_edit: the last edit's seq, NULL without one
SELECT max(seq) FROM briefing_edit WHERE conversation = ?;

-- briefing_edit_of_seq: one, to compare with
SELECT edit, recorded_at_ms FROM briefing_edit WHERE conversation = ? AND seq = ?;

-- record_briefing_edit: append one
INSERT INTO briefing_edit (conversation, seq, edit, recorded_at_ms, seal)
VALUES (
    ?1, ?2, ?3, ?4,
    seal('briefing_edit', (SELECT conversation_id FROM conversation WHERE id = ?1), ?2, ?3, ?4)
);

-- once: the last step of the attempts at an action
SELECT attempt_id, state, receipt, recorded_at_ms FROM whole_once_event
WHERE project_id = ? AND key = ? ORDER BY id DESC LIMIT 1;

-- once_event: one step of one attempt, to compare with
SELECT receipt, recorded_at_ms FROM once_event
WHERE project_id = ? AND key = ? AND attempt_id = ? AND state = ?;

-- record_once: append a step
INSERT INTO once_event (project_id, key, attempt_id, state, receipt, recorded_at_ms, seal)
VALUES (
    ?1, ?2, ?3, ?4, ?5, ?6,
    seal('once_event', ?1, ?2, ?3, ?4, ?5, ?6, (SELECT max(id) FROM once_event))
);

-- lease: as it stands
SELECT token, heartbeat, host, boot_id, pid, started_at_ticks, doing, call
FROM lease WHERE name = ?;

-- held_leases: those that somebody holds, whose names lie from one text up to another
SELECT name, token, heartbeat, host, boot_id, pid, started_at_ticks, doing, call
FROM lease WHERE name >= ?1 AND name < ?2 AND host IS NOT NULL ORDER BY name;

-- is_held: whether a lease is still held under a token
SELECT 1 FROM lease WHERE name = ? AND token = ? AND host IS NOT NULL;

-- take_lease: give it to a holder under the next token
INSERT INTO lease (
    name, token, heartbeat, host, boot_id, pid, started_at_ticks, doing, call
) VALUES (?, 1, 1, ?, ?, ?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET
    token = token + 1, heartbeat = heartbeat + 1, host = excluded.host,
    boot_id = excluded.boot_id, pid = excluded.pid,
    started_at_ticks = excluded.started_at_ticks, doing = excluded.doing, call = excluded.call
RETURNING token, heartbeat;

-- heartbeat: show life under a token
UPDATE lease SET heartbeat = heartbeat + 1 WHERE name = ? AND token = ? AND host IS NOT NULL;

-- release_lease: give it back under a token
UPDATE lease SET
    host = NULL, boot_id = NULL, pid = NULL, started_at_ticks = NULL, doing = NULL, call = NULL
WHERE name = ? AND token = ?;

-- touch_sync_mark: give a synced commit something to sync
UPDATE sync_mark SET touched = touched + 1 WHERE id = 1;

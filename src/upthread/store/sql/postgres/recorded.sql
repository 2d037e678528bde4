-- Each section as it can be written again: $1 whose, ($2, $3) the place to begin after, $4 rows.

-- known_projects: all identities, oldest first
SELECT project_id, {identity} FROM upthread.project_identity AS i
WHERE upthread.is_whole(i) ORDER BY id;

-- project: identities
SELECT id, 0, {identity} FROM upthread.project_identity AS i
WHERE project_id = $1 AND upthread.is_whole(i) AND id > $2 AND $3::bigint IS NOT NULL
ORDER BY id LIMIT $4;

-- workstream: and their base names
SELECT id, 0, workstream, base_name, opened_at_ms FROM upthread.workstream AS w
WHERE project_id = $1 AND upthread.is_whole(w) AND id > $2 AND $3::bigint IS NOT NULL
ORDER BY id LIMIT $4;

-- conversation: parents come before their children
SELECT id, 0, {conversation}
FROM upthread.conversation AS c
WHERE project_id = $1 AND upthread.is_whole(c) AND id > $2 AND $3::bigint IS NOT NULL
ORDER BY id LIMIT $4;

-- link: in the order they were opened
SELECT l.id, 0, l.conversation_id, {l.link}
FROM upthread.link AS l JOIN upthread.conversation AS c ON c.conversation_id = l.conversation_id
WHERE c.project_id = $1 AND upthread.is_whole(l) AND l.id > $2 AND $3::bigint IS NOT NULL
ORDER BY l.id LIMIT $4;

-- link_end: by their links
SELECT c.id, e.seq, e.conversation_id, e.seq, e.ended_because, e.ended_at_ms
FROM upthread.link_end AS e
JOIN upthread.conversation AS c ON c.conversation_id = e.conversation_id
WHERE c.project_id = $1 AND upthread.is_whole(e) AND (c.id, e.seq) > ($2, $3)
ORDER BY c.id, e.seq LIMIT $4;

-- run: in the order they were opened
SELECT id, 0, run_id, workstream, opened_at_ms FROM upthread.run AS r
WHERE project_id = $1 AND upthread.is_whole(r) AND id > $2 AND $3::bigint IS NOT NULL
ORDER BY id LIMIT $4;

-- run_event: run by run
SELECT r.id, e.seq, e.run_id, e.seq, e.kind, e.payload, e.recorded_at_ms
FROM upthread.run AS r JOIN upthread.run_event AS e ON e.run_id = r.run_id
WHERE r.project_id = $1 AND upthread.is_whole(e) AND (r.id, e.seq) > ($2, $3)
ORDER BY r.id, e.seq LIMIT $4;

-- turn: in the order they were opened
SELECT t.id, 0, t.turn_id, t.conversation_id, t.run_id, t.opened_at_ms
FROM upthread.turn AS t JOIN upthread.conversation AS c ON c.conversation_id = t.conversation_id
WHERE c.project_id = $1 AND upthread.is_whole(t) AND t.id > $2 AND $3::bigint IS NOT NULL
ORDER BY t.id LIMIT $4;

-- once: action by action
SELECT key, step, key, attempt_id, state, receipt, recorded_at_ms FROM upthread.once_event AS o
WHERE project_id = $1 AND upthread.is_whole(o) AND (key, step) > ($2, $3)
ORDER BY key, step LIMIT $4;

-- act: in the order they were done
SELECT a.id, 0, a.conversation_id, a.run_id, a.what, a.by_user, a.detail, a.recorded_at_ms
FROM upthread.act AS a
LEFT JOIN upthread.conversation AS c ON c.conversation_id = a.conversation_id
LEFT JOIN upthread.run AS r ON r.run_id = a.run_id
WHERE
    coalesce(c.project_id, r.project_id) = $1 AND upthread.is_whole(a)
    AND a.id > $2 AND $3::bigint IS NOT NULL
ORDER BY a.id LIMIT $4;

-- transition: in the order they became due
SELECT t.id, 0, t.run_id, t.run_seq, t.due_at_ms
FROM upthread.transition AS t JOIN upthread.run AS r ON r.run_id = t.run_id
WHERE r.project_id = $1 AND t.id > $2 AND $3::bigint IS NOT NULL ORDER BY t.id LIMIT $4;

-- turn_event: turn by turn
SELECT t.id, e.seq, e.turn_id, e.seq, e.kind, e.payload, e.recorded_at_ms
FROM upthread.turn AS t JOIN upthread.turn_event AS e ON e.turn_id = t.turn_id
WHERE t.conversation_id = $1 AND upthread.is_whole(e) AND t.id >= $2 AND (t.id, e.seq) > ($2, $3)
ORDER BY t.id, e.seq LIMIT $4;

-- part: message by message
SELECT
    message_seq, ordinal, message_seq, ordinal, speaker, turn_id, upstream_session_id,
    recorded_at_ms, kind, call_id, content, digest, erased_bytes
FROM upthread.part WHERE conversation_id = $1 AND (message_seq, ordinal) > ($2, $3)
ORDER BY message_seq, ordinal LIMIT $4;

-- quarantine: turn by turn
SELECT t.id, q.ordinal, q.turn_id, q.ordinal, q.reason, q.raw, q.recorded_at_ms
FROM upthread.turn AS t JOIN upthread.quarantine AS q ON q.turn_id = t.turn_id
WHERE t.conversation_id = $1 AND upthread.is_whole(q) AND (t.id, q.ordinal) > ($2, $3)
ORDER BY t.id, q.ordinal LIMIT $4;

-- refusal: in the order they were taken
SELECT id, 0, decision, reasons, inputs, decided_at_ms FROM upthread.refusal AS f
WHERE conversation_id = $1 AND upthread.is_whole(f) AND id > $2 AND $3::bigint IS NOT NULL
ORDER BY id LIMIT $4;

-- examined: in the order they were written
SELECT
    id, 0, turn_id, ordinal, upstream_session_id, {examined},
    recorded_at_ms
FROM upthread.examined AS e
WHERE conversation_id = $1 AND upthread.is_whole(e) AND id > $2 AND $3::bigint IS NOT NULL
ORDER BY id LIMIT $4;

-- briefing_edit: oldest first
SELECT seq, 0, seq, edit, recorded_at_ms FROM upthread.briefing_edit AS b
WHERE conversation_id = $1 AND upthread.is_whole(b) AND seq > $2 AND $3::bigint IS NOT NULL
ORDER BY seq LIMIT $4;

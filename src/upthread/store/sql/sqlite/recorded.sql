-- Each section as it can be written again: ?1 whose, (?2, ?3) the place to begin after, ?4 rows.

-- known_projects: all identities, oldest first
SELECT project_id, {identity} FROM whole_project_identity ORDER BY id;

-- project: identities
SELECT id, 0, {identity} FROM whole_project_identity
WHERE project_id = ?1 AND id > ?2 AND ?3 IS NOT NULL ORDER BY id LIMIT ?4;

-- workstream: and their base names
SELECT id, 0, workstream, base_name, opened_at_ms FROM whole_workstream
WHERE project_id = ?1 AND id > ?2 AND ?3 IS NOT NULL ORDER BY id LIMIT ?4;

-- conversation: parents come before their children
SELECT id, 0, {conversation}
FROM whole_conversation WHERE project_id = ?1 AND id > ?2 AND ?3 IS NOT NULL ORDER BY id LIMIT ?4;

-- link: in the order they were opened
SELECT l.id, 0, c.conversation_id, {l.link}
FROM whole_link AS l JOIN conversation AS c ON c.id = l.conversation
WHERE c.project_id = ?1 AND l.id > ?2 AND ?3 IS NOT NULL ORDER BY l.id LIMIT ?4;

-- link_end: by their links
SELECT l.conversation, l.seq, c.conversation_id, l.seq, e.ended_because, e.ended_at_ms
FROM whole_link_end AS e JOIN link AS l ON l.id = e.link JOIN conversation AS c ON c.id = l.conversation
WHERE c.project_id = ?1 AND (l.conversation, l.seq) > (?2, ?3)
ORDER BY l.conversation, l.seq LIMIT ?4;

-- run: in the order they were opened
SELECT id, 0, run_id, workstream, opened_at_ms FROM whole_run
WHERE project_id = ?1 AND id > ?2 AND ?3 IS NOT NULL ORDER BY id LIMIT ?4;

-- run_event: run by run
SELECT e.run, e.seq, r.run_id, e.seq, e.kind, e.payload, e.recorded_at_ms
FROM whole_run_event AS e JOIN run AS r ON r.id = e.run
WHERE r.project_id = ?1 AND (e.run, e.seq) > (?2, ?3) ORDER BY e.run, e.seq LIMIT ?4;

-- turn: in the order they were opened
SELECT t.id, 0, t.turn_id, c.conversation_id, r.run_id, t.opened_at_ms
FROM whole_turn AS t JOIN conversation AS c ON c.id = t.conversation LEFT JOIN run AS r ON r.id = t.run
WHERE c.project_id = ?1 AND t.id > ?2 AND ?3 IS NOT NULL ORDER BY t.id LIMIT ?4;

-- once: action by action
SELECT CAST(key AS BLOB), id, key, attempt_id, state, receipt, recorded_at_ms FROM whole_once_event
WHERE project_id = ?1 AND (CAST(key AS BLOB), id) > (?2, ?3)
ORDER BY CAST(key AS BLOB), id LIMIT ?4;

-- act: in the order they were done
SELECT
    a.id, 0, c.conversation_id, r.run_id, a.what, a.by_user, a.detail, a.recorded_at_ms
FROM whole_act AS a
LEFT JOIN conversation AS c ON c.id = a.conversation
LEFT JOIN run AS r ON r.id = a.run
WHERE coalesce(c.project_id, r.project_id) = ?1 AND a.id > ?2 AND ?3 IS NOT NULL
ORDER BY a.id LIMIT ?4;

-- transition: in the order they became due
SELECT t.id, 0, r.run_id, t.run_seq, t.due_at_ms
FROM transition AS t JOIN run AS r ON r.id = t.run
WHERE r.project_id = ?1 AND t.id > ?2 AND ?3 IS NOT NULL ORDER BY t.id LIMIT ?4;

-- turn_event: turn by turn
SELECT t.id, e.id & 1048575, t.turn_id, e.id & 1048575, e.kind, e.payload, e.recorded_at_ms
FROM conversation AS c
JOIN turn AS t ON t.conversation = c.id AND t.id >= ?2
JOIN whole_turn_event AS e ON e.id > t.id << 20 AND e.id < (t.id + 1) << 20
WHERE c.conversation_id = ?1 AND e.id > (?2 << 20) + ?3 ORDER BY t.id, e.id LIMIT ?4;

-- part: message by message
SELECT
    p.message_seq, p.ordinal, p.message_seq, p.ordinal, p.speaker, t.turn_id,
    u.upstream_session_id, p.recorded_at_ms, p.kind, p.call_id, p.content, p.digest,
    p.erased_bytes
FROM conversation AS c
JOIN part AS p ON p.conversation = c.id
JOIN turn AS t ON t.id = p.turn
LEFT JOIN upstream AS u ON u.id = p.upstream
WHERE c.conversation_id = ?1 AND (p.message_seq, p.ordinal) > (?2, ?3)
ORDER BY p.message_seq, p.ordinal LIMIT ?4;

-- quarantine: turn by turn
SELECT t.id, q.ordinal, t.turn_id, q.ordinal, q.reason, q.raw, q.recorded_at_ms
FROM conversation AS c
JOIN turn AS t ON t.conversation = c.id
JOIN whole_quarantine AS q ON q.turn = t.id
WHERE c.conversation_id = ?1 AND (t.id, q.ordinal) > (?2, ?3) ORDER BY t.id, q.ordinal LIMIT ?4;

-- refusal: in the order they were taken
SELECT f.id, 0, f.decision, f.reasons, f.inputs, f.decided_at_ms
FROM conversation AS c JOIN whole_refusal AS f ON f.conversation = c.id
WHERE c.conversation_id = ?1 AND f.id > ?2 AND ?3 IS NOT NULL ORDER BY f.id LIMIT ?4;

-- examined: in the order they were written
SELECT e.id, 0, t.turn_id, e.ordinal, u.upstream_session_id, {e.examined}, e.recorded_at_ms
FROM conversation AS c
JOIN whole_examined AS e ON e.conversation = c.id
JOIN turn AS t ON t.id = e.turn
JOIN upstream AS u ON u.id = e.upstream
WHERE c.conversation_id = ?1 AND e.id > ?2 AND ?3 IS NOT NULL ORDER BY e.id LIMIT ?4;

-- briefing_edit: oldest first
SELECT b.seq, 0, b.seq, b.edit, b.recorded_at_ms
FROM conversation AS c JOIN whole_briefing_edit AS b ON b.conversation = c.id
WHERE c.conversation_id = ?1 AND b.seq > ?2 AND ?3 IS NOT NULL ORDER BY b.seq LIMIT ?4;

-- A row proves itself: `seal` is the SHA-256 of its columns, its owner's name among them, and of which
-- row is before it in its table, where rows have no number in their owner. `sealed_*` says what it should
-- be; `whole_*` are the rows to read: one that does not match is an error. NULL: written by an older
-- version that was still running when the schema was moved on. Parts have chains of their own.

ALTER TABLE project_identity ADD COLUMN seal BLOB;
CREATE VIEW sealed_project_identity AS SELECT
    x.*,
    'project' AS sealed_what,
    x.project_id AS sealed_name,
    seal(
        'project_identity', x.project_id, x.path, x.root_commit, x.remote, x.owner,
        (SELECT max(p.id) FROM project_identity AS p WHERE p.id < x.id)
    ) AS sealed
FROM project_identity AS x;
CREATE VIEW whole_project_identity AS SELECT * FROM sealed_project_identity
WHERE is_whole(seal, sealed, sealed_what, sealed_name);
UPDATE project_identity SET seal = (
    SELECT s.sealed FROM sealed_project_identity AS s WHERE s.id = project_identity.id
);

ALTER TABLE workstream ADD COLUMN seal BLOB;
CREATE VIEW sealed_workstream AS SELECT
    x.*,
    'workstream' AS sealed_what,
    x.workstream AS sealed_name,
    seal(
        'workstream', x.project_id, x.workstream, x.base_name, x.opened_at_ms,
        (SELECT max(p.id) FROM workstream AS p WHERE p.id < x.id)
    ) AS sealed
FROM workstream AS x;
CREATE VIEW whole_workstream AS SELECT * FROM sealed_workstream
WHERE is_whole(seal, sealed, sealed_what, sealed_name);
UPDATE workstream SET seal = (
    SELECT s.sealed FROM sealed_workstream AS s WHERE s.id = workstream.id
);

ALTER TABLE conversation ADD COLUMN seal BLOB;
CREATE VIEW sealed_conversation AS SELECT
    x.*,
    'conversation' AS sealed_what,
    x.conversation_id AS sealed_name,
    seal(
        'conversation', x.conversation_id, x.project_id, x.workstream, x.role, x.slot,
        x.generation, x.base_name, x.opened_at_ms, x.parent_conversation_id, x.parent_call_id,
        (SELECT max(p.id) FROM conversation AS p WHERE p.id < x.id)
    ) AS sealed
FROM conversation AS x;
CREATE VIEW whole_conversation AS SELECT * FROM sealed_conversation
WHERE is_whole(seal, sealed, sealed_what, sealed_name);
UPDATE conversation SET seal = (
    SELECT s.sealed FROM sealed_conversation AS s WHERE s.id = conversation.id
);

ALTER TABLE link ADD COLUMN seal BLOB;
CREATE VIEW sealed_link AS SELECT
    x.*,
    'link ' || x.seq || ' of' AS sealed_what,
    o.conversation_id AS sealed_name,
    seal(
        'link', o.conversation_id, x.seq, x.upstream_session_id, x.agent, x.agent_version,
        x.working_directory, x.opened_because, x.opened_at_ms
    ) AS sealed
FROM link AS x JOIN conversation AS o ON o.id = x.conversation;
CREATE VIEW whole_link AS SELECT * FROM sealed_link
WHERE is_whole(seal, sealed, sealed_what, sealed_name);
UPDATE link SET seal = (
    SELECT s.sealed FROM sealed_link AS s WHERE s.id = link.id
);

ALTER TABLE link_end ADD COLUMN seal BLOB;
CREATE VIEW sealed_link_end AS SELECT
    x.*,
    'the end of link' AS sealed_what,
    x.link AS sealed_name,
    seal(
        'link_end', x.link, x.ended_because, x.ended_at_ms
    ) AS sealed
FROM link_end AS x;
CREATE VIEW whole_link_end AS SELECT * FROM sealed_link_end
WHERE is_whole(seal, sealed, sealed_what, sealed_name);
UPDATE link_end SET seal = (
    SELECT s.sealed FROM sealed_link_end AS s WHERE s.link = link_end.link
);

ALTER TABLE run ADD COLUMN seal BLOB;
CREATE VIEW sealed_run AS SELECT
    x.*,
    'run' AS sealed_what,
    x.run_id AS sealed_name,
    seal(
        'run', x.run_id, x.project_id, x.workstream, x.opened_at_ms,
        (SELECT max(p.id) FROM run AS p WHERE p.id < x.id)
    ) AS sealed
FROM run AS x;
CREATE VIEW whole_run AS SELECT * FROM sealed_run
WHERE is_whole(seal, sealed, sealed_what, sealed_name);
UPDATE run SET seal = (
    SELECT s.sealed FROM sealed_run AS s WHERE s.id = run.id
);

ALTER TABLE run_event ADD COLUMN seal BLOB;
CREATE VIEW sealed_run_event AS SELECT
    x.*,
    'event ' || x.seq || ' of run' AS sealed_what,
    o.run_id AS sealed_name,
    seal(
        'run_event', o.run_id, x.seq, x.kind, x.payload, x.recorded_at_ms
    ) AS sealed
FROM run_event AS x JOIN run AS o ON o.id = x.run;
CREATE VIEW whole_run_event AS SELECT * FROM sealed_run_event
WHERE is_whole(seal, sealed, sealed_what, sealed_name);
UPDATE run_event SET seal = (
    SELECT s.sealed FROM sealed_run_event AS s WHERE s.id = run_event.id
);

ALTER TABLE turn ADD COLUMN seal BLOB;
CREATE VIEW sealed_turn AS SELECT
    x.*,
    'turn' AS sealed_what,
    x.turn_id AS sealed_name,
    seal(
        'turn', x.turn_id, x.conversation, x.run, x.opened_at_ms,
        (SELECT max(p.id) FROM turn AS p WHERE p.id < x.id)
    ) AS sealed
FROM turn AS x;
CREATE VIEW whole_turn AS SELECT * FROM sealed_turn
WHERE is_whole(seal, sealed, sealed_what, sealed_name);
UPDATE turn SET seal = (
    SELECT s.sealed FROM sealed_turn AS s WHERE s.id = turn.id
);

ALTER TABLE turn_event ADD COLUMN seal BLOB;
CREATE VIEW sealed_turn_event AS SELECT
    x.*,
    'event ' || (x.id & 1048575) || ' of turn' AS sealed_what,
    o.turn_id AS sealed_name,
    seal(
        'turn_event', o.turn_id, x.id & 1048575, x.kind, x.payload, x.recorded_at_ms
    ) AS sealed
FROM turn_event AS x JOIN turn AS o ON o.id = x.id >> 20;
CREATE VIEW whole_turn_event AS SELECT * FROM sealed_turn_event
WHERE is_whole(seal, sealed, sealed_what, sealed_name);
UPDATE turn_event SET seal = (
    SELECT s.sealed FROM sealed_turn_event AS s WHERE s.id = turn_event.id
);

ALTER TABLE quarantine ADD COLUMN seal BLOB;
CREATE VIEW sealed_quarantine AS SELECT
    x.*,
    'event ' || x.ordinal || ' without an owner of turn' AS sealed_what,
    o.turn_id AS sealed_name,
    seal(
        'quarantine', o.turn_id, x.ordinal, x.reason, x.raw, x.recorded_at_ms,
        (SELECT max(p.id) FROM quarantine AS p WHERE p.id < x.id)
    ) AS sealed
FROM quarantine AS x JOIN turn AS o ON o.id = x.turn;
CREATE VIEW whole_quarantine AS SELECT * FROM sealed_quarantine
WHERE is_whole(seal, sealed, sealed_what, sealed_name);
UPDATE quarantine SET seal = (
    SELECT s.sealed FROM sealed_quarantine AS s WHERE s.id = quarantine.id
);

ALTER TABLE refusal ADD COLUMN seal BLOB;
CREATE VIEW sealed_refusal AS SELECT
    x.*,
    'a refusal of' AS sealed_what,
    o.conversation_id AS sealed_name,
    seal(
        'refusal', o.conversation_id, x.decision, x.reasons, x.inputs, x.decided_at_ms,
        (SELECT max(p.id) FROM refusal AS p WHERE p.id < x.id)
    ) AS sealed
FROM refusal AS x JOIN conversation AS o ON o.id = x.conversation;
CREATE VIEW whole_refusal AS SELECT * FROM sealed_refusal
WHERE is_whole(seal, sealed, sealed_what, sealed_name);
UPDATE refusal SET seal = (
    SELECT s.sealed FROM sealed_refusal AS s WHERE s.id = refusal.id
);

ALTER TABLE once_event ADD COLUMN seal BLOB;
CREATE VIEW sealed_once_event AS SELECT
    x.*,
    'the action' AS sealed_what,
    x.key AS sealed_name,
    seal(
        'once_event', x.project_id, x.key, x.attempt_id, x.state, x.receipt, x.recorded_at_ms,
        (SELECT max(p.id) FROM once_event AS p WHERE p.id < x.id)
    ) AS sealed
FROM once_event AS x;
CREATE VIEW whole_once_event AS SELECT * FROM sealed_once_event
WHERE is_whole(seal, sealed, sealed_what, sealed_name);
UPDATE once_event SET seal = (
    SELECT s.sealed FROM sealed_once_event AS s WHERE s.id = once_event.id
);

ALTER TABLE examined ADD COLUMN seal BLOB;
CREATE VIEW sealed_examined AS SELECT
    x.*,
    'the file' AS sealed_what,
    x.path AS sealed_name,
    seal(
        'examined', x.conversation, x.turn, x.ordinal, x.upstream, x.path, x.how, x.state,
        x.size_bytes, x.mtime_ns, x.digest, x.recorded_at_ms
    ) AS sealed
FROM examined AS x;
CREATE VIEW whole_examined AS SELECT * FROM sealed_examined
WHERE is_whole(seal, sealed, sealed_what, sealed_name);
UPDATE examined SET seal = (
    SELECT s.sealed FROM sealed_examined AS s WHERE s.id = examined.id
);

ALTER TABLE briefing_edit ADD COLUMN seal BLOB;
CREATE VIEW sealed_briefing_edit AS SELECT
    x.*,
    'edit ' || x.seq || ' of the briefing of' AS sealed_what,
    o.conversation_id AS sealed_name,
    seal(
        'briefing_edit', o.conversation_id, x.seq, x.edit, x.recorded_at_ms
    ) AS sealed
FROM briefing_edit AS x JOIN conversation AS o ON o.id = x.conversation;
CREATE VIEW whole_briefing_edit AS SELECT * FROM sealed_briefing_edit
WHERE is_whole(seal, sealed, sealed_what, sealed_name);
UPDATE briefing_edit SET seal = (
    SELECT s.sealed FROM sealed_briefing_edit AS s WHERE s.id = briefing_edit.id
);

ALTER TABLE act ADD COLUMN seal BLOB;
CREATE VIEW sealed_act AS SELECT
    x.*,
    'act' AS sealed_what,
    x.id AS sealed_name,
    seal(
        'act', x.conversation, x.run, x.what, x.by_user, x.detail, x.recorded_at_ms,
        (SELECT max(p.id) FROM act AS p WHERE p.id < x.id)
    ) AS sealed
FROM act AS x;
CREATE VIEW whole_act AS SELECT * FROM sealed_act
WHERE is_whole(seal, sealed, sealed_what, sealed_name);
UPDATE act SET seal = (
    SELECT s.sealed FROM sealed_act AS s WHERE s.id = act.id
);

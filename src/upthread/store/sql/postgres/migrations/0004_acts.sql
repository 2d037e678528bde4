-- What people did: who told, answered, forgot. Of a conversation or of a run, one of the two.

CREATE TABLE upthread.act (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    conversation_id BYTEA,
    run_id BYTEA,
    what BYTEA NOT NULL,
    by_user BYTEA NOT NULL,
    detail BYTEA NOT NULL,
    recorded_at_ms BIGINT NOT NULL
);
CREATE INDEX act_by_conversation ON upthread.act (conversation_id, id)
WHERE conversation_id IS NOT NULL;
CREATE INDEX act_by_run ON upthread.act (run_id, id) WHERE run_id IS NOT NULL;

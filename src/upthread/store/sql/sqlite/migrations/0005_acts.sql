-- What people did: who told, answered, forgot. Of a conversation or of a run, one of the two.

CREATE TABLE act (
    id INTEGER PRIMARY KEY,
    conversation INTEGER REFERENCES conversation (id),
    run INTEGER REFERENCES run (id),
    what TEXT NOT NULL,
    by_user TEXT NOT NULL,
    detail TEXT NOT NULL,
    recorded_at_ms INTEGER NOT NULL
);
CREATE INDEX act_by_conversation ON act (conversation) WHERE conversation IS NOT NULL;
CREATE INDEX act_by_run ON act (run) WHERE run IS NOT NULL;

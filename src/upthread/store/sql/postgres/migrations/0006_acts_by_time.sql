-- An act is kept once: whoever writes one looks for the same one at the same time, not among all.

DROP INDEX upthread.act_by_conversation;
DROP INDEX upthread.act_by_run;
CREATE INDEX act_by_conversation ON upthread.act (conversation_id, recorded_at_ms)
WHERE conversation_id IS NOT NULL;
CREATE INDEX act_by_run ON upthread.act (run_id, recorded_at_ms) WHERE run_id IS NOT NULL;

-- An act is kept once: whoever writes one looks for the same one at the same time, not among all.

DROP INDEX act_by_conversation;
DROP INDEX act_by_run;
CREATE INDEX act_by_conversation ON act (conversation, recorded_at_ms)
WHERE conversation IS NOT NULL;
CREATE INDEX act_by_run ON act (run, recorded_at_ms) WHERE run IS NOT NULL;

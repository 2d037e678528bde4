-- A transition is settled by a later event that is not the start of a step. What is not settled is
-- all that a look into the outbox has to read.

ALTER TABLE transition ADD COLUMN is_settled INTEGER NOT NULL DEFAULT 0;
UPDATE transition SET is_settled = 1 WHERE EXISTS (
    SELECT 1 FROM run_event AS e
    WHERE e.run = transition.run AND e.seq > transition.run_seq AND e.kind <> 'step_started'
);
CREATE INDEX transition_due ON transition (id) WHERE NOT is_settled;

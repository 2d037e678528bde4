-- Whose a path is, in a store that several share; NULL in a file of one person's own.

ALTER TABLE project_identity ADD COLUMN owner TEXT;

-- How long a part's content was, once it is erased; NULL while it is there, and where nobody knows.

ALTER TABLE part ADD COLUMN erased_bytes INTEGER;

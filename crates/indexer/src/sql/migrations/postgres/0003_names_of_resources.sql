-- Most resources are called by their id. Those are found by it, and only the others by what they are called: 0 and 1. The
-- index of names would be written at a place of its own for each of them, as the index of ids is already.
ALTER TABLE resource ADD COLUMN named BIGINT NOT NULL DEFAULT 1;

DROP INDEX ix_resource_original;

CREATE INDEX ix_resource_original ON resource (original_resource_id) WHERE named = 1;

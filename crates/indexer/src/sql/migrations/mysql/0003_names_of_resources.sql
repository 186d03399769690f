-- Most resources are called by their id. Those are found by it, and only the others by what they are called: 0 and 1. The
-- keys of the one are neighbours of those of the other, since this database has no index of some rows.
ALTER TABLE resource ADD COLUMN named BIGINT NOT NULL DEFAULT 1;

ALTER TABLE resource DROP KEY ix_resource_original;

CREATE INDEX ix_resource_original ON resource (named, original_resource_id);

-- Former revisions that ended long ago are removed by their end.
CREATE INDEX ix_resource_history_end ON resource_history (revision_end);

-- What people write about resources; gone with them.
CREATE TABLE resource_annotation (
    id BLOB NOT NULL PRIMARY KEY,
    resource_id BLOB NOT NULL,
    -- ns since the epoch, whole microseconds
    annotated_at BIGINT NOT NULL,
    content TEXT NOT NULL,
    creator VARCHAR(255) NOT NULL
);

CREATE INDEX ix_resource_annotation ON resource_annotation (resource_id, annotated_at, id);

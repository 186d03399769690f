-- Former revisions that ended long ago are removed by their end.
CREATE INDEX ix_resource_history_end ON resource_history (revision_end);

-- What people write about resources; gone with them.
CREATE TABLE resource_annotation (
    id BINARY(16) NOT NULL PRIMARY KEY,
    resource_id BINARY(16) NOT NULL,
    -- ns since the epoch, whole microseconds
    annotated_at BIGINT NOT NULL,
    content LONGBLOB NOT NULL,
    creator VARBINARY(1020) NOT NULL,
    KEY ix_resource_annotation (resource_id, annotated_at, id)
) ENGINE = InnoDB;

-- Numbers are never used again, so that what a deleted type, attribute or resource left behind means nothing to its
-- successor of the same name.

CREATE TABLE resource_type (
    number BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    name VARBINARY(1020) NOT NULL UNIQUE
) ENGINE = InnoDB;

INSERT IGNORE INTO resource_type (number, name) VALUES (1, 'generic');

-- How often a type was created, changed or deleted: one row. Who has read the types at one version knows them until the next.
CREATE TABLE resource_type_version (
    only_one SMALLINT NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL
) ENGINE = InnoDB;

INSERT IGNORE INTO resource_type_version (only_one, version) VALUES (1, 0);

CREATE TABLE resource_attribute (
    number BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    type_number BIGINT NOT NULL,
    name VARBINARY(1020) NOT NULL,
    -- JSON: kind, bounds, whether it is required, and its fills: values, each with the version that brought it
    definition LONGBLOB NOT NULL,
    UNIQUE KEY uniq_resource_attribute (type_number, name),
    FOREIGN KEY (type_number) REFERENCES resource_type (number) ON DELETE CASCADE
) ENGINE = InnoDB;

-- The last number that a resource got: one row.
CREATE TABLE resource_number (
    only_one SMALLINT NOT NULL PRIMARY KEY,
    used BIGINT NOT NULL
) ENGINE = InnoDB;

INSERT IGNORE INTO resource_number (only_one, used) VALUES (1, 0);

-- Pages come in the order of the revision's start, unless another is asked for.
CREATE TABLE resource (
    number BIGINT NOT NULL PRIMARY KEY,
    id BINARY(16) NOT NULL UNIQUE,
    type_number BIGINT NOT NULL,
    original_resource_id VARBINARY(1156) NOT NULL,
    creator VARBINARY(1020) NOT NULL,
    user_id VARBINARY(1020),
    project_id VARBINARY(1020),
    -- ns since the epoch, whole microseconds
    started_at BIGINT NOT NULL,
    ended_at BIGINT,
    revision_start BIGINT NOT NULL,
    -- JSON: values by the attribute's number; never null
    attributes LONGBLOB NOT NULL,
    -- The version of the types when the attributes were written. One that has no value here has that of the first of its
    -- fills whose version is higher.
    type_version BIGINT NOT NULL,
    KEY ix_resource_type (type_number, revision_start, started_at, id),
    KEY ix_resource_revision (revision_start, started_at, id),
    KEY ix_resource_original (original_resource_id),
    KEY ix_resource_project (project_id),
    KEY ix_resource_user (user_id),
    KEY ix_resource_creator (creator),
    KEY ix_resource_ended (ended_at),
    FOREIGN KEY (type_number) REFERENCES resource_type (number)
) ENGINE = InnoDB;

-- What resources are found and sorted by: the values in their JSON, in a form whose bytes sort as the values do.
CREATE TABLE resource_value (
    attribute_number BIGINT NOT NULL,
    value VARBINARY(1536) NOT NULL,
    resource_number BIGINT NOT NULL,
    PRIMARY KEY (attribute_number, resource_number),
    KEY ix_resource_value (attribute_number, value, resource_number)
) ENGINE = InnoDB;

CREATE TABLE resource_history (
    revision BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    id BINARY(16) NOT NULL,
    type_number BIGINT NOT NULL,
    original_resource_id VARBINARY(1156) NOT NULL,
    creator VARBINARY(1020) NOT NULL,
    user_id VARBINARY(1020),
    project_id VARBINARY(1020),
    started_at BIGINT NOT NULL,
    ended_at BIGINT,
    revision_start BIGINT NOT NULL,
    revision_end BIGINT NOT NULL,
    attributes LONGBLOB NOT NULL,
    type_version BIGINT NOT NULL,
    KEY ix_resource_history_id (id, revision_start, revision_end),
    KEY ix_resource_history_type (type_number, revision_start, started_at, id),
    KEY ix_resource_history_revision (revision_start, started_at, id),
    KEY ix_resource_history_project (project_id, revision_start),
    FOREIGN KEY (type_number) REFERENCES resource_type (number)
) ENGINE = InnoDB;

CREATE TABLE resource_history_value (
    attribute_number BIGINT NOT NULL,
    value VARBINARY(1536) NOT NULL,
    revision BIGINT NOT NULL,
    PRIMARY KEY (attribute_number, revision),
    KEY ix_resource_history_value (attribute_number, value, revision)
) ENGINE = InnoDB;

-- Attributes that are gone and may have left values, until those are swept.
CREATE TABLE resource_attribute_deleted (
    attribute_number BIGINT NOT NULL PRIMARY KEY
) ENGINE = InnoDB;

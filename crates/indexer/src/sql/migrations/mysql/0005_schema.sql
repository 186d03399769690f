-- Texts are bytes: so they compare by their bytes, with spaces at their ends, whatever the collation. Ids are 16 bytes in the
-- order of their hexadecimal form. Each statement may be repeated: one that was done is passed over.

CREATE TABLE archive_policy (
    name VARBINARY(1020) NOT NULL PRIMARY KEY,
    -- An unsigned number's bits: beyond 2^63 it reads as negative.
    back_window BIGINT NOT NULL,
    -- JSON: [[granularity in ns, points or null, timespan in ns or null], ...]
    definition LONGBLOB NOT NULL,
    -- JSON: names
    aggregation_methods LONGBLOB NOT NULL
) ENGINE = InnoDB;

CREATE TABLE archive_policy_rule (
    name VARBINARY(1020) NOT NULL PRIMARY KEY,
    metric_pattern VARBINARY(1020) NOT NULL,
    archive_policy_name VARBINARY(1020) NOT NULL,
    KEY ix_archive_policy_rule_policy (archive_policy_name),
    FOREIGN KEY (archive_policy_name) REFERENCES archive_policy (name)
) ENGINE = InnoDB;

-- A listing filters by one of these keys and goes on in the order of ids.
CREATE TABLE metric (
    id BINARY(16) NOT NULL PRIMARY KEY,
    creator VARBINARY(1020) NOT NULL,
    name VARBINARY(1020),
    unit VARBINARY(124),
    archive_policy_name VARBINARY(1020) NOT NULL,
    resource_id BINARY(16),
    -- 0 active, 1 waits for the janitor
    status BIGINT NOT NULL,
    -- ns since the epoch
    created_at BIGINT NOT NULL,
    KEY ix_metric_creator (creator, id),
    KEY ix_metric_name (name, id),
    KEY ix_metric_policy (archive_policy_name, id),
    -- Metrics without a resource or a name are not compared.
    UNIQUE KEY uniq_metric_resource_name (resource_id, name),
    KEY ix_metric_deleted (status, id),
    FOREIGN KEY (archive_policy_name) REFERENCES archive_policy (name)
) ENGINE = InnoDB;

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
    -- Most resources are called by their id. Those are found by it (0), and only the others by what they are called (1). The
    -- keys of the one are neighbours of those of the other, since this database has no index of some rows.
    named BIGINT NOT NULL DEFAULT 1,
    KEY ix_resource_type (type_number, revision_start, started_at, id),
    KEY ix_resource_revision (revision_start, started_at, id),
    KEY ix_resource_original (named, original_resource_id),
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

-- Which cluster this is: one row, a random id that is made with it.
CREATE TABLE cluster (
    only_one SMALLINT NOT NULL PRIMARY KEY,
    id BINARY(16) NOT NULL
) ENGINE = InnoDB;

-- What transactions changed that caches of other processes may remember, in the order of their commits. A process reads from
-- the number that it has seen last, so that one row is always there.
CREATE TABLE index_change (
    number BIGINT NOT NULL PRIMARY KEY,
    process BIGINT NOT NULL,
    touched LONGBLOB NOT NULL
) ENGINE = InnoDB;
INSERT IGNORE INTO index_change (number, process, touched) VALUES (0, 0, '{}');

-- Texts compare by their bytes, and ids are 16 bytes in the order of their hexadecimal form.

CREATE TABLE archive_policy (
    name VARCHAR(255) NOT NULL PRIMARY KEY,
    -- An unsigned number's bits: beyond 2^63 it reads as negative.
    back_window BIGINT NOT NULL,
    -- JSON: [[granularity in ns, points or null, timespan in ns or null], ...]
    definition TEXT NOT NULL,
    -- JSON: names
    aggregation_methods TEXT NOT NULL
);

CREATE TABLE archive_policy_rule (
    name VARCHAR(255) NOT NULL PRIMARY KEY,
    metric_pattern VARCHAR(255) NOT NULL,
    archive_policy_name VARCHAR(255) NOT NULL REFERENCES archive_policy (name)
);

CREATE INDEX ix_archive_policy_rule_policy ON archive_policy_rule (archive_policy_name);

CREATE TABLE metric (
    id BLOB NOT NULL PRIMARY KEY,
    creator VARCHAR(255) NOT NULL,
    name VARCHAR(255),
    unit VARCHAR(31),
    archive_policy_name VARCHAR(255) NOT NULL REFERENCES archive_policy (name),
    resource_id BLOB,
    -- 0 active, 1 waits for the janitor
    status SMALLINT NOT NULL,
    -- ns since the epoch
    created_at BIGINT NOT NULL
);

-- A listing filters by one of these and goes on in the order of ids.
CREATE INDEX ix_metric_creator ON metric (creator, id);
CREATE INDEX ix_metric_name ON metric (name, id);
CREATE INDEX ix_metric_policy ON metric (archive_policy_name, id);
CREATE UNIQUE INDEX uniq_metric_resource_name ON metric (resource_id, name) WHERE resource_id IS NOT NULL;
CREATE INDEX ix_metric_deleted ON metric (id) WHERE status = 1;

-- Numbers are chosen by the database and never used again, so that what a deleted type, attribute or resource left behind
-- means nothing to its successor of the same name.

CREATE TABLE resource_type (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    name VARCHAR(255) NOT NULL UNIQUE
);

INSERT INTO resource_type (name) VALUES ('generic');

-- How often a type was created, changed or deleted: one row. Who has read the types at one version knows them until the next.
CREATE TABLE resource_type_version (
    version BIGINT NOT NULL
);

INSERT INTO resource_type_version (version) VALUES (0);

CREATE TABLE resource_attribute (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    type_number BIGINT NOT NULL REFERENCES resource_type (number) ON DELETE CASCADE,
    name VARCHAR(255) NOT NULL,
    -- JSON: kind, bounds, whether it is required, and its fills: values, each with the version that brought it
    definition TEXT NOT NULL,
    UNIQUE (type_number, name)
);

CREATE TABLE resource (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id BLOB NOT NULL UNIQUE,
    type_number BIGINT NOT NULL REFERENCES resource_type (number),
    original_resource_id VARCHAR(289) NOT NULL,
    creator VARCHAR(255) NOT NULL,
    user_id VARCHAR(255),
    project_id VARCHAR(255),
    -- ns since the epoch, whole microseconds
    started_at BIGINT NOT NULL,
    ended_at BIGINT,
    revision_start BIGINT NOT NULL,
    -- JSON: values by the attribute's number; never null
    attributes TEXT NOT NULL,
    -- The version of the types when the attributes were written. One that has no value here has that of the first of its
    -- fills whose version is higher.
    type_version BIGINT NOT NULL,
    -- Most resources are called by their id. Those are found by it (0), and only the others by what they are called (1): the
    -- index of names would be written at a place of its own for each of them, as the index of ids is already.
    named SMALLINT NOT NULL DEFAULT 1
);

-- Pages come in the order of the revision's start, unless another is asked for.
CREATE INDEX ix_resource_type ON resource (type_number, revision_start, started_at, id);
CREATE INDEX ix_resource_revision ON resource (revision_start, started_at, id);
CREATE INDEX ix_resource_original ON resource (original_resource_id) WHERE named = 1;
CREATE INDEX ix_resource_project ON resource (project_id) WHERE project_id IS NOT NULL;
CREATE INDEX ix_resource_user ON resource (user_id) WHERE user_id IS NOT NULL;
CREATE INDEX ix_resource_creator ON resource (creator);
CREATE INDEX ix_resource_ended ON resource (ended_at) WHERE ended_at IS NOT NULL;

-- What resources are found by: the values in their JSON, in a form whose bytes sort as the values do.
CREATE TABLE resource_value (
    attribute_number BIGINT NOT NULL,
    value BLOB NOT NULL,
    resource_number BIGINT NOT NULL,
    PRIMARY KEY (attribute_number, value, resource_number)
) WITHOUT ROWID;

CREATE TABLE resource_history (
    revision INTEGER PRIMARY KEY AUTOINCREMENT,
    id BLOB NOT NULL,
    type_number BIGINT NOT NULL REFERENCES resource_type (number),
    original_resource_id VARCHAR(289) NOT NULL,
    creator VARCHAR(255) NOT NULL,
    user_id VARCHAR(255),
    project_id VARCHAR(255),
    started_at BIGINT NOT NULL,
    ended_at BIGINT,
    revision_start BIGINT NOT NULL,
    revision_end BIGINT NOT NULL,
    attributes TEXT NOT NULL,
    type_version BIGINT NOT NULL
);

CREATE INDEX ix_resource_history_id ON resource_history (id, revision_start, revision_end);
CREATE INDEX ix_resource_history_type ON resource_history (type_number, revision_start, started_at, id);
CREATE INDEX ix_resource_history_revision ON resource_history (revision_start, started_at, id);
CREATE INDEX ix_resource_history_project ON resource_history (project_id, revision_start) WHERE project_id IS NOT NULL;

CREATE TABLE resource_history_value (
    attribute_number BIGINT NOT NULL,
    value BLOB NOT NULL,
    revision BIGINT NOT NULL,
    PRIMARY KEY (attribute_number, value, revision)
) WITHOUT ROWID;

-- Attributes that are gone and may have left values, until those are swept.
CREATE TABLE resource_attribute_deleted (
    attribute_number BIGINT NOT NULL PRIMARY KEY
);

-- Which cluster this is: one row, a random id that is made with it.
CREATE TABLE cluster (
    only_one SMALLINT NOT NULL PRIMARY KEY CHECK (only_one = 1),
    id BLOB NOT NULL
);

-- What transactions changed that caches of other processes may remember, in the order of their commits. A process reads from
-- the number that it has seen last, so that one row is always there.
CREATE TABLE index_change (
    number BIGINT NOT NULL PRIMARY KEY,
    process BIGINT NOT NULL,
    touched BLOB NOT NULL
);
INSERT INTO index_change (number, process, touched) VALUES (0, 0, '{}');

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

-- Texts are bytes: so they compare by their bytes whatever the locale, and may have any character, also the one that TEXT
-- refuses. Ids are 16 bytes in the order of their hexadecimal form. `SET bytea_output = escape` shows texts as such.

CREATE TABLE archive_policy (
    name BYTEA NOT NULL PRIMARY KEY,
    -- An unsigned number's bits: beyond 2^63 it reads as negative.
    back_window BIGINT NOT NULL,
    -- JSON: [[granularity in ns, points or null, timespan in ns or null], ...]
    definition BYTEA NOT NULL,
    -- JSON: names
    aggregation_methods BYTEA NOT NULL
);

CREATE TABLE archive_policy_rule (
    name BYTEA NOT NULL PRIMARY KEY,
    metric_pattern BYTEA NOT NULL,
    archive_policy_name BYTEA NOT NULL REFERENCES archive_policy (name)
);

CREATE INDEX ix_archive_policy_rule_policy ON archive_policy_rule (archive_policy_name);

CREATE TABLE metric (
    id BYTEA NOT NULL PRIMARY KEY,
    creator BYTEA NOT NULL,
    name BYTEA,
    unit BYTEA,
    archive_policy_name BYTEA NOT NULL REFERENCES archive_policy (name),
    resource_id BYTEA,
    -- 0 active, 1 waits for the janitor
    status BIGINT NOT NULL,
    -- ns since the epoch
    created_at BIGINT NOT NULL
);

-- A listing filters by one of these and goes on in the order of ids.
CREATE INDEX ix_metric_creator ON metric (creator, id);
CREATE INDEX ix_metric_name ON metric (name NULLS FIRST, id);
CREATE INDEX ix_metric_policy ON metric (archive_policy_name, id);
CREATE UNIQUE INDEX uniq_metric_resource_name ON metric (resource_id, name) WHERE resource_id IS NOT NULL;
CREATE INDEX ix_metric_deleted ON metric (id) WHERE status = 1;

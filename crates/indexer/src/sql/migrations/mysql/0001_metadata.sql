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

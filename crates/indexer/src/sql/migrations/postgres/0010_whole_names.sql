-- What the names of metrics were made of that had to be cut; removed with the metric.
CREATE TABLE metric_whole_name (
    metric_id BYTEA NOT NULL PRIMARY KEY,
    whole_name BYTEA NOT NULL
);

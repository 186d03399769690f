-- What the names of metrics were made of that had to be cut; removed with the metric.
CREATE TABLE metric_whole_name (
    metric_id BLOB NOT NULL PRIMARY KEY,
    whole_name TEXT NOT NULL
);

-- What the names of metrics were made of that had to be cut; removed with the metric.
CREATE TABLE metric_whole_name (
    metric_id BINARY(16) NOT NULL PRIMARY KEY,
    whole_name LONGBLOB NOT NULL
) ENGINE = InnoDB;

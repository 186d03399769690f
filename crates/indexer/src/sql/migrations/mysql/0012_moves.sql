-- Moves of metrics to other policies until the workers have requested the metrics' conversion.
CREATE TABLE metric_move (
    id BINARY(16) NOT NULL PRIMARY KEY,
    metric_id BINARY(16) NOT NULL
) ENGINE = InnoDB;

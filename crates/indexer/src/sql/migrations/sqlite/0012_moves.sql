-- Moves of metrics to other policies until the workers have requested the metrics' conversion.
CREATE TABLE metric_move (
    id BLOB NOT NULL PRIMARY KEY,
    metric_id BLOB NOT NULL
);

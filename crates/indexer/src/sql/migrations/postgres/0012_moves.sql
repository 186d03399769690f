-- Moves of metrics to other policies until the workers have requested the metrics' conversion.
CREATE TABLE metric_move (
    id BYTEA NOT NULL PRIMARY KEY,
    metric_id BYTEA NOT NULL
);

-- What transactions changed that caches of other processes may remember, in the order of their commits. A process reads from
-- the number that it has seen last, so that one row is always there.
CREATE TABLE index_change (
    number BIGINT NOT NULL PRIMARY KEY,
    process BIGINT NOT NULL,
    touched LONGBLOB NOT NULL
) ENGINE = InnoDB;
INSERT IGNORE INTO index_change (number, process, touched) VALUES (0, 0, '{}');

-- Which cluster this is: one row, a random id that is made with it.
CREATE TABLE cluster (
    only_one SMALLINT NOT NULL PRIMARY KEY CHECK (only_one = 1),
    id BLOB NOT NULL
);

-- The conversion of a policy's metrics that is under way: an id, and the last metric that was asked to be converted. NULL: none.
ALTER TABLE archive_policy ADD COLUMN conversion BINARY(16);
ALTER TABLE archive_policy ADD COLUMN converted_to BINARY(16);

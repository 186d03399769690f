-- For how long the policy keeps raw points, in nanoseconds; NULL: it keeps none.
ALTER TABLE archive_policy ADD COLUMN raw_timespan BIGINT;

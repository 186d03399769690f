-- 1: measures later than the back window count where no raw points are kept, too.
ALTER TABLE archive_policy ADD COLUMN recomputes_late BIGINT NOT NULL DEFAULT 0;

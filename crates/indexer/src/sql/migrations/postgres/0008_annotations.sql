-- Former revisions that ended long ago are removed by their end.
CREATE INDEX ix_resource_history_end ON resource_history (revision_end);

-- Raw samples in the manner of Ceilometer's SQL driver: what is measured and of what once, and a row for each sample,
-- with the indexes by which samples are found.

CREATE TABLE meter (
    id serial PRIMARY KEY,
    name varchar(255) NOT NULL,
    type varchar(255),
    unit varchar(255),
    UNIQUE (name, type, unit)
);
CREATE INDEX meter_name ON meter (name);

-- One for each state of a resource: its owner or its metadata may change.
CREATE TABLE resource (
    internal_id serial PRIMARY KEY,
    resource_id varchar(255) NOT NULL,
    user_id varchar(255),
    project_id varchar(255),
    source_id varchar(255),
    resource_metadata text,
    metadata_hash varchar(32),
    UNIQUE (resource_id, user_id, project_id, source_id, metadata_hash)
);
CREATE INDEX resource_resource_id ON resource (resource_id);
CREATE INDEX resource_metadata_hash ON resource (metadata_hash);

-- The metadata once more, to be searched.
CREATE TABLE metadata_text (
    id integer NOT NULL REFERENCES resource (internal_id),
    meta_key varchar(255) NOT NULL,
    value text,
    PRIMARY KEY (id, meta_key)
);
CREATE INDEX metadata_text_meta_key ON metadata_text (meta_key);

CREATE TABLE sample (
    id bigserial PRIMARY KEY,
    meter_id integer NOT NULL REFERENCES meter (id),
    resource_id integer NOT NULL REFERENCES resource (internal_id),
    volume double precision NOT NULL,
    timestamp timestamp NOT NULL,
    recorded_at timestamp NOT NULL,
    message_signature varchar(1000),
    message_id varchar(128)
);
CREATE INDEX sample_timestamp ON sample (timestamp);
CREATE INDEX sample_resource_id ON sample (resource_id);
CREATE INDEX sample_meter_id ON sample (meter_id);
CREATE INDEX sample_meter_id_resource_id ON sample (meter_id, resource_id);

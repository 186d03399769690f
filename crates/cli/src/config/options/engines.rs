//! `[storage]` and `[incoming]`: the driver and the options of each engine, which `[incoming]` inherits from `[storage]`
//! as in Gnocchi; and what only one of them has.

use super::{ANY, Kind, POSITIVE, Spec, inheriting};

/// In `[storage]`.
pub const STORAGE: &[Spec] = &options! {
    [storage]
    option driver(Kind::Choice(&["local", "file", "redis", "ceph", "s3", "swift"]), "local",
        "local: the embedded store in the data directory, which belongs to one process. redis, ceph, s3, swift: \
         shared by any number of processes, and so is file if [indexer] url names a shared database: a folder that \
         all hosts have mounted; without such a database file means local.");
    text file_basepath("",
        "The data directory of the embedded store, which --data-dir overrides (unset: ./gnudi-data), or the \
         shared folder.");
    idle file_subdir_len("2", "the layout does not depend on it");
    option engine_timeout(Kind::Seconds, "10",
        "gnudi: timeout of one call to the engine, in seconds; then 503.");
    secret redis_url(Kind::Url(&["redis", "rediss", "unix"]),
        "redis://[[user]:password@]host[:port][/db]; rediss:// for TLS, redis+cluster:// for a cluster, \
         ?sentinel=master&sentinel_fallback=host:port for Sentinel, as in Gnocchi.")
        { default: "redis://localhost:6379/" };
    text redis_prefix("gnudi", "gnudi: prefix of all keys.");
    option redis_replicas_min(ANY, "",
        "gnudi: replicas that must acknowledge a write before it is acknowledged. Unset: one if Sentinels \
         name the primary and it has a replica, so that the last server left accepts writes; a number always \
         applies.");
    text ceph_pool("gnocchi", "Pool of the objects.");
    text ceph_username("", "Ceph's user without `client.` before it. Unset: admin.");
    secret ceph_secret(Kind::Text, "Key of that user. Unset: from the keyring.");
    text ceph_keyring("", "File with the key. Unset: as in ceph_conffile.");
    option ceph_timeout(POSITIVE, "30", "Timeout of connecting to Ceph, in seconds; that of a call is engine_timeout.");
    text ceph_conffile("/etc/ceph/ceph.conf", "Ceph's own configuration, which names its monitors.");
    text ceph_namespace("gnudi",
        "gnudi: prefix of the namespaces in the pool, so that two clusters can share it.");
    option s3_endpoint_url(Kind::Url(&["http", "https"]), "", "URL of S3. Unset: Amazon's, by region.");
    text s3_region_name("", "Region. Unset: us-east-1.") { environment: "AWS_DEFAULT_REGION" };
    secret s3_access_key_id(Kind::Text, "Access key.") { environment: "AWS_ACCESS_KEY_ID" };
    secret s3_secret_access_key(Kind::Text, "Secret key.") { environment: "AWS_SECRET_ACCESS_KEY" };
    text s3_bucket_prefix("gnocchi", "Prefix of bucket names.");
    text s3_cacert("", "gnudi: file of trusted certificates (PEM). Unset: the system's.");
    idle s3_check_consistency_timeout("60", "S3 is consistent since 2020; other implementations must be, too");
    option s3_max_pool_connections(POSITIVE, "50", "Maximum concurrent connections.");
    option swift_auth_version(Kind::Choice(&["1", "1.0", "2", "2.0", "3"]), "1",
        "How to log in: 1, or 3 for Keystone.");
    option swift_auth_insecure(Kind::Bool, "false", "Do not verify the servers' certificates.");
    text swift_url("", "Swift's URL. Unset: from the login.");
    option swift_authurl(Kind::Url(&["http", "https"]), "http://localhost:8080/auth/v1.0", "URL of the login.");
    secret swift_preauthtoken(Kind::Text, "Token to use instead of logging in.");
    text swift_cacert("", "File of trusted certificates (PEM). Unset: the system's.");
    text swift_region("", "Region, of those that Keystone lists.");
    text swift_user("admin:admin", "User.");
    text swift_user_domain_name("Default", "Domain of the user, in Keystone.");
    secret swift_key(Kind::Text, "Password.") { default: "admin" };
    text swift_project_name("", "Project, in Keystone.") { formerly: &[("", "swift_tenant_name")] };
    text swift_project_domain_name("Default", "Domain of the project, in Keystone.");
    text swift_container_prefix("gnocchi", "Prefix of container names.");
    idle swift_container_prefix_all("false", "all containers have the prefix");
    text swift_storage_policy("", "Storage policy of new containers. Unset: Swift's default.");
    option swift_endpoint_type(Kind::Choice(&["publicURL", "internalURL", "adminURL"]), "publicURL",
        "Which of the URLs that Keystone lists.");
    text swift_service_type("object-store", "Type of the service in Keystone's list.");
    idle swift_timeout("300", "engine_timeout applies");
};

/// The store of aggregates.
pub const STORAGE_ONLY: &[Spec] = &options! {
    [storage]
    option recent_bytes_max(POSITIVE, "268435456",
        "gnudi: size of the log of aggregates at which it is sorted into a run; its index takes up to 30 MB of \
         memory.");
    option dirty_bytes_max(ANY, "33554432",
        "gnudi: memory for heads of aggregates that are in no file yet; beyond it they are written to a run, which \
         needs as much again meanwhile. From half of it on passes keep measures in memory and fold \
         several of a metric at once: up to 64 MiB, or 512 MiB while metrics have fewer than four each. 0: each pass \
         writes its heads to the log.");
    option damaged_metrics(Kind::Choice(&["refuse", "serve"]), "refuse",
        "gnudi: the response to a read of damaged or lost aggregates. refuse: 500 with the place; serve: the \
         undamaged part. New measures are accepted either way, and reads of times after the damage are answered.");
    option disk_reserve_bytes(ANY, "67108864",
        "gnudi: bytes of the data directory's disk that are reserved, in a file, for deletions, the index and \
         acknowledgements, which continue when the disk is full; at most a tenth of the disk. 0: nothing.");
};

/// In `[incoming]`.
pub const INCOMING: [Spec; STORAGE.len()] = inheriting(STORAGE, "incoming", "storage");

/// The log of incoming measures.
pub const INCOMING_ONLY: &[Spec] = &options! {
    [incoming]
    option durability(Kind::Choice(&["disk", "os"]), "",
        "gnudi: durability of a 202. disk: the measures survive a power cut; with Redis, if appendfsync is \
         different, the start is refused. os: they survive a crash of the program, not of the machine. \
         Unset: disk; with Redis what its configuration promises, which is logged at the start.");
    option sacks(Kind::Int { min: 1, max: 65_535 }, "128",
        "gnudi: number of sacks of a new data directory (gnocchi-upgrade --sacks-number).");
    option backlog_bytes_max(POSITIVE, "4294967296",
        "gnudi: maximum bytes of the backlog; beyond it measures get 429.");
    option journal(Kind::Text, "",
        "gnudi: directory of a journal of all incoming measures, for `gnudi export gnocchi`. It grows until it \
         is removed by hand. Each process that serves the API needs its own directory. Unset: no journal.");
};

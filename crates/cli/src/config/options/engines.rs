//! What `[storage]` and `[incoming]` both have: the driver, and the options of each engine. As in Gnocchi, what is unset in
//! `[incoming]` is as in `[storage]`.

use super::{ANY, Kind, POSITIVE, Spec, idle, option, secret};

const fn text(name: &'static str, default: &'static str, help: &'static str) -> Spec {
    option("storage", name, Kind::Text, default, help)
}

const fn hidden(name: &'static str, help: &'static str) -> Spec {
    secret("storage", name, Kind::Text, help)
}

const COUNT: usize = 40;

/// In `[storage]`.
pub const STORAGE: [Spec; COUNT] = [
    option(
        "storage",
        "driver",
        Kind::Choice(&["local", "file", "redis", "ceph", "s3", "swift"]),
        "local",
        "local: the embedded store in the data directory, which belongs to one process. redis, ceph, s3, swift: shared by \
         any number, and so is file where [indexer] url names a shared database: a folder that all hosts have mounted; \
         without such a database file means local.",
    ),
    text(
        "file_basepath",
        "",
        "The data directory of the embedded store, where --data-dir names none (unset: ./gnudi-data), or the shared folder.",
    ),
    idle("storage", "file_subdir_len", "2", "nothing is laid out by it"),
    option(
        "storage",
        "engine_timeout",
        Kind::Seconds,
        "10",
        "gnudi: seconds that one call to the engine may take before it counts as down (503).",
    ),
    Spec {
        default: "redis://localhost:6379/",
        ..secret(
            "storage",
            "redis_url",
            Kind::Url(&["redis", "rediss", "unix"]),
            "redis://[[user]:password@]host[:port][/db]; rediss:// for TLS, redis+cluster:// for a cluster, \
             ?sentinel=master&sentinel_fallback=host:port \
             for Sentinel, as in Gnocchi.",
        )
    },
    text("redis_prefix", "gnudi", "gnudi: what the names of all keys begin with."),
    option(
        "storage",
        "redis_replicas_min",
        ANY,
        "",
        "gnudi: replicas that must have what was written before it counts as written. Unset: one where Sentinels name the \
         primary and it has a replica, so that a lone survivor goes on; a number is always asked for.",
    ),
    text("ceph_pool", "gnocchi", "Pool that objects lie in."),
    text("ceph_username", "", "Ceph's user without `client.` before it. Unset: admin."),
    hidden("ceph_secret", "Key of that user. Unset: from the keyring."),
    text("ceph_keyring", "", "File with the key. Unset: where ceph_conffile says."),
    option(
        "storage",
        "ceph_timeout",
        POSITIVE,
        "30",
        "Seconds to connect to Ceph; a call takes engine_timeout at most.",
    ),
    text("ceph_conffile", "/etc/ceph/ceph.conf", "Ceph's own configuration, which names its monitors."),
    text(
        "ceph_namespace",
        "gnudi",
        "gnudi: what the namespaces within the pool begin with, so that two clusters can share it.",
    ),
    option(
        "storage",
        "s3_endpoint_url",
        Kind::Url(&["http", "https"]),
        "",
        "Where S3 is. Unset: Amazon's, by region.",
    ),
    Spec { environment: "AWS_DEFAULT_REGION", ..text("s3_region_name", "", "Region. Unset: us-east-1.") },
    Spec { environment: "AWS_ACCESS_KEY_ID", ..hidden("s3_access_key_id", "Access key.") },
    Spec { environment: "AWS_SECRET_ACCESS_KEY", ..hidden("s3_secret_access_key", "Secret key.") },
    text("s3_bucket_prefix", "gnocchi", "What the names of buckets begin with."),
    text(
        "s3_cacert",
        "",
        "gnudi: file of certificates, in PEM, that vouch for the server. Unset: the system's.",
    ),
    idle(
        "storage",
        "s3_check_consistency_timeout",
        "60",
        "S3 is consistent since 2020, and so must others be",
    ),
    option("storage", "s3_max_pool_connections", POSITIVE, "50", "Most connections at the same time."),
    option(
        "storage",
        "swift_auth_version",
        Kind::Choice(&["1", "1.0", "2", "2.0", "3"]),
        "1",
        "How to log in: 1, or 3 for Keystone.",
    ),
    option("storage", "swift_auth_insecure", Kind::Bool, "false", "Do not check the servers' certificates."),
    text("swift_url", "", "Swift's URL. Unset: what the login says."),
    option(
        "storage",
        "swift_authurl",
        Kind::Url(&["http", "https"]),
        "http://localhost:8080/auth/v1.0",
        "Where to log in.",
    ),
    hidden("swift_preauthtoken", "Token to use instead of logging in."),
    text(
        "swift_cacert",
        "",
        "File of certificates, in PEM, that vouch for the servers. Unset: the system's.",
    ),
    text("swift_region", "", "Region, of those that Keystone lists."),
    text("swift_user", "admin:admin", "User."),
    text("swift_user_domain_name", "Default", "Domain of the user, in Keystone."),
    Spec { default: "admin", ..hidden("swift_key", "Password.") },
    text("swift_project_name", "", "Project, in Keystone."),
    text("swift_project_domain_name", "Default", "Domain of the project, in Keystone."),
    text("swift_container_prefix", "gnocchi", "What the names of containers begin with."),
    idle("storage", "swift_container_prefix_all", "false", "all containers have the prefix"),
    text("swift_storage_policy", "", "Storage policy of new containers. Unset: Swift's default."),
    option(
        "storage",
        "swift_endpoint_type",
        Kind::Choice(&["publicURL", "internalURL", "adminURL"]),
        "publicURL",
        "Which of the URLs that Keystone lists.",
    ),
    text("swift_service_type", "object-store", "Type of the service in Keystone's list."),
    idle("storage", "swift_timeout", "300", "engine_timeout counts"),
];

/// In `[incoming]`.
pub const INCOMING: [Spec; COUNT] = incoming();

const fn incoming() -> [Spec; COUNT] {
    let mut specs = STORAGE;
    let mut index = 0;
    while index < COUNT {
        specs[index].section = "incoming";
        specs[index].default = "";
        specs[index].environment = "";
        specs[index].inherits = Some("storage");
        index += 1;
    }
    specs
}

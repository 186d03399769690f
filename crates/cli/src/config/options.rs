//! Every option: section, name, type, default, meaning. Gnocchi's names first; gnudi's own are marked.

/// What values an option takes.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Text,
    /// From `min` to `max`, both included.
    Int {
        min: i64,
        max: i64,
    },
    /// Above 0, with a fraction or without.
    Seconds,
    Bool,
    /// Comma separated.
    List,
    Choice(&'static [&'static str]),
}

/// Whether this version heeds an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Heeded,
    /// Known, and without effect: a setting is warned of.
    Idle(&'static str),
}

#[derive(Clone, Copy, Debug)]
pub struct Spec {
    pub section: &'static str,
    pub name: &'static str,
    pub kind: Kind,
    /// As it would stand in the file; empty where the option is unset.
    pub default: &'static str,
    pub help: &'static str,
    pub usage: Use,
}

const fn option(
    section: &'static str,
    name: &'static str,
    kind: Kind,
    default: &'static str,
    help: &'static str,
) -> Spec {
    Spec { section, name, kind, default, help, usage: Use::Heeded }
}

const fn idle(section: &'static str, name: &'static str, default: &'static str, why: &'static str) -> Spec {
    Spec { section, name, kind: Kind::Text, default, help: why, usage: Use::Idle(why) }
}

const ANY: Kind = Kind::Int { min: 0, max: i64::MAX };
const POSITIVE: Kind = Kind::Int { min: 1, max: i64::MAX };

const LOGS: &str = "logs go to standard error: let the service manager keep them";
const SHARED: &str = "comes with the shared drivers";
const WSGI: &str = "belongs to Gnocchi's Python web server";
const POLICY: &str = "comes with keystone and policy files";

/// All options, by section, in the order in which `gnudi config` prints them.
pub const OPTIONS: &[Spec] = &[
    option("DEFAULT", "debug", Kind::Bool, "false", "Log at level debug."),
    option(
        "DEFAULT",
        "verbose",
        Kind::Bool,
        "true",
        "Log at level info; otherwise only warnings and errors.",
    ),
    option(
        "DEFAULT",
        "parallel_operations",
        POSITIVE,
        "",
        "Threads that serve requests. Unset: one for each processor.",
    ),
    option(
        "DEFAULT",
        "graceful_shutdown_timeout",
        POSITIVE,
        "60",
        "Seconds that running requests get to finish when the program is told to stop.",
    ),
    idle("DEFAULT", "coordination_url", "", SHARED),
    idle("DEFAULT", "log_options", "true", LOGS),
    idle("DEFAULT", "log_dir", "", LOGS),
    idle("DEFAULT", "log_file", "", LOGS),
    idle("DEFAULT", "use_syslog", "false", LOGS),
    idle("DEFAULT", "use_journal", "false", LOGS),
    idle("DEFAULT", "syslog_log_facility", "user", LOGS),
    option(
        "api",
        "host",
        Kind::Text,
        "127.0.0.1",
        "Address to listen on. Another than loopback needs a password_file, or --allow-open-access, with auth_mode basic, which trusts whoever calls.",
    ),
    option(
        "api",
        "port",
        Kind::Int { min: 0, max: 65_535 },
        "8041",
        "Port to listen on; 0 for any free one.",
    ),
    option(
        "api",
        "auth_mode",
        Kind::Choice(&["basic", "keystone", "remoteuser"]),
        "basic",
        "Who callers are. This version serves basic: the user's name counts, the password only with password_file, and `admin` is the administrator.",
    ),
    option(
        "api",
        "password_file",
        Kind::Text,
        "",
        "gnudi: users and their passwords for auth_mode basic, as `htpasswd -B` writes them; read at the start. Unset: any \
         password is right, as in Gnocchi.",
    ),
    option("api", "max_limit", POSITIVE, "1000", "Most items in one answer of a listing."),
    option(
        "api",
        "operation_timeout",
        ANY,
        "10",
        "Seconds that a request waits for measures to be processed (refresh) before it answers 503.",
    ),
    option(
        "api",
        "enable_proxy_headers_parsing",
        Kind::Bool,
        "false",
        "Believe Forwarded and X-Forwarded-* headers. Only behind a proxy that sets them.",
    ),
    option(
        "api",
        "body_bytes_max",
        POSITIVE,
        "33554432",
        "gnudi: largest request body; a larger one is answered 413.",
    ),
    option(
        "api",
        "request_measures_max",
        Kind::Int { min: 1, max: 4_194_304 },
        "500000",
        "gnudi: most measures in one request; more are answered 413.",
    ),
    option(
        "api",
        "prometheus_labels",
        Kind::Choice(&["all", "none"]),
        "all",
        "gnudi: which labels of Prometheus' series, besides job and instance, are part of the names of metrics. none: as in \
         Gnocchi, where series that differ in other labels are one metric, of which the last in a request counts.",
    ),
    option("api", "connections_max", POSITIVE, "10000", "gnudi: most connections at the same time."),
    option(
        "api",
        "header_timeout_ms",
        POSITIVE,
        "10000",
        "gnudi: how long a client may take to send a request's head.",
    ),
    idle("api", "paste_config", "api-paste.ini", WSGI),
    idle("api", "uwsgi_path", "", WSGI),
    idle("api", "uwsgi_mode", "http", WSGI),
    option(
        "archive_policy",
        "default_aggregation_methods",
        Kind::List,
        "mean,min,max,sum,std,count",
        "Methods of an archive policy that names none.",
    ),
    option("cors", "allowed_origin", Kind::List, "", "Origins whose pages may call the API."),
    option("cors", "allow_credentials", Kind::Bool, "true", "Whether such pages may send credentials."),
    option("cors", "expose_headers", Kind::List, "", "Headers that such pages may read."),
    option("cors", "max_age", ANY, "3600", "Seconds for which a browser may keep a preflight answer."),
    option(
        "cors",
        "allow_methods",
        Kind::List,
        "OPTIONS,GET,HEAD,POST,PUT,DELETE,TRACE,PATCH",
        "Methods that such pages may use.",
    ),
    option(
        "cors",
        "allow_headers",
        Kind::List,
        "Authorization,X-Auth-Token,X-Subject-Token,X-User-Id,X-Domain-Id,X-Project-Id,X-Roles",
        "Headers that such pages may send.",
    ),
    option(
        "host",
        "enabled",
        Kind::Bool,
        "true",
        "gnudi: collect this machine's own processor, memory, disk and network figures.",
    ),
    option("host", "interval", POSITIVE, "5", "gnudi: seconds from one look at the machine to the next."),
    option(
        "host",
        "archive_policy_name",
        Kind::Text,
        "high",
        "gnudi: archive policy of the metrics of this machine.",
    ),
    option(
        "incoming",
        "driver",
        Kind::Choice(&["local", "file", "redis", "ceph", "s3", "swift"]),
        "",
        "Where measures wait. Unset: as [storage] driver. This version has local (also called file): a log in the data directory.",
    ),
    option(
        "incoming",
        "durability",
        Kind::Choice(&["disk", "os"]),
        "disk",
        "gnudi: what 202 promises. disk: the measures survive a power cut. os: they survive the end of the program, not that of the machine.",
    ),
    option(
        "incoming",
        "sacks",
        Kind::Int { min: 1, max: 65_535 },
        "128",
        "gnudi: number of sacks of a new data directory (gnocchi-upgrade --sacks-number).",
    ),
    option(
        "incoming",
        "backlog_bytes_max",
        POSITIVE,
        "4294967296",
        "gnudi: how many bytes of measures may wait; beyond it measures are answered 429.",
    ),
    option(
        "indexer",
        "url",
        Kind::Text,
        "",
        "Where metadata lies. Unset: in the data directory, which is all that this version has.",
    ),
    option(
        "indexer",
        "metrics_cached_max",
        POSITIVE,
        "2000000",
        "gnudi: how many metrics the hot path keeps in memory, at about 200 bytes each.",
    ),
    option(
        "indexer",
        "resources_cached_max",
        POSITIVE,
        "200000",
        "gnudi: how many resources are kept in memory, at about 1 kB each.",
    ),
    option(
        "metricd",
        "workers",
        POSITIVE,
        "",
        "Sacks processed at the same time. Unset: one for each processor.",
    ),
    option(
        "metricd",
        "metric_processing_delay",
        POSITIVE,
        "60",
        "Seconds between looks at all sacks where greedy is off.",
    ),
    option("metricd", "greedy", Kind::Bool, "true", "Process measures as they arrive."),
    option(
        "metricd",
        "scheduling",
        Kind::Choice(&["shared", "ring", "front"]),
        "shared",
        "gnudi, for experiments: in which order workers take sacks. shared: first come, first served; ring: each worker its own \
         by consistent hashing; front: from the front of the sorted list, as Gnocchi 3 did, where the tail starves.",
    ),
    option(
        "metricd",
        "gather_ms",
        ANY,
        "200",
        "gnudi: how long a sack gathers measures before it is processed, so that one pass folds many requests.",
    ),
    option(
        "metricd",
        "checkpoint_ms",
        POSITIVE,
        "2000",
        "gnudi: how often aggregates are made durable and the log of measures is trimmed.",
    ),
    option(
        "metricd",
        "metric_reporting_delay",
        Kind::Int { min: -1, max: i64::MAX },
        "120",
        "Seconds between log lines about the backlog; -1 for none.",
    ),
    option(
        "metricd",
        "metric_cleanup_delay",
        POSITIVE,
        "300",
        "Seconds between removals of deleted metrics.",
    ),
    option("metricd", "cleanup_batch_size", POSITIVE, "10000", "Most metrics that are removed at once."),
    idle("metricd", "processing_replicas", "3", SHARED),
    option(
        "metricd",
        "metric_inactive_after",
        ANY,
        "0",
        "Seconds without measures after which a metric is inactive; a resource all of whose metrics are is ended. Counts \
         from the start of the program at the earliest. 0: never.",
    ),
    option(
        "metricd",
        "resource_cleanup_after",
        ANY,
        "0",
        "Seconds after their end when resources are deleted, with their metrics. 0: never.",
    ),
    option(
        "storage",
        "driver",
        Kind::Choice(&["local", "file", "redis", "ceph", "s3", "swift"]),
        "local",
        "Where aggregates lie. This version has local (also called file): a store in the data directory.",
    ),
    option(
        "storage",
        "file_basepath",
        Kind::Text,
        "",
        "The data directory, where --data-dir names none. Unset: ./gnudi-data.",
    ),
    option(
        "storage",
        "recent_bytes_max",
        POSITIVE,
        "268435456",
        "gnudi: how large the log of new aggregates grows before they are sorted into a file for good; its index takes \
         up to 30 MB of memory.",
    ),
    idle("storage", "file_subdir_len", "2", "the local store needs no folders"),
    idle("healthcheck", "detailed", "false", WSGI),
    idle("healthcheck", "backends", "", WSGI),
    idle("healthcheck", "allowed_source_ranges", "", WSGI),
    idle("healthcheck", "ignore_proxied_requests", "false", WSGI),
    idle("healthcheck", "disable_by_file_path", "", WSGI),
    idle("healthcheck", "disable_by_file_paths", "", WSGI),
    idle("healthcheck", "enable_by_file_paths", "", WSGI),
    idle("oslo_policy", "enforce_new_defaults", "true", POLICY),
    idle("oslo_policy", "policy_file", "policy.yaml", POLICY),
    idle("oslo_policy", "policy_default_rule", "default", POLICY),
    idle("oslo_policy", "policy_dirs", "policy.d", POLICY),
    idle("oslo_policy", "remote_content_type", "application/x-www-form-urlencoded", POLICY),
    idle("oslo_policy", "remote_ssl_verify_server_crt", "false", POLICY),
    idle("oslo_policy", "remote_ssl_ca_crt_file", "", POLICY),
    idle("oslo_policy", "remote_ssl_client_crt_file", "", POLICY),
    idle("oslo_policy", "remote_ssl_client_key_file", "", POLICY),
    idle("oslo_policy", "remote_timeout", "60", POLICY),
    option(
        "statsd",
        "host",
        Kind::Text,
        "127.0.0.1",
        "Address on which datagrams are taken. They carry no name and no password: whoever reaches it is believed.",
    ),
    option(
        "statsd",
        "port",
        Kind::Int { min: 0, max: 65_535 },
        "8125",
        "Port on which datagrams are taken (UDP).",
    ),
    option(
        "statsd",
        "resource_id",
        Kind::Text,
        "",
        "Resource that the metrics belong to; created where there is none. Unset: one called statsd.",
    ),
    option("statsd", "creator", Kind::Text, "", "User as whom measures are posted. Unset: admin."),
    option(
        "statsd",
        "archive_policy_name",
        Kind::Text,
        "",
        "Archive policy of new metrics. Unset: by the archive policy rules.",
    ),
    option("statsd", "flush_delay", Kind::Seconds, "10", "Seconds between posts."),
    option(
        "amqp1d",
        "url",
        Kind::Text,
        "localhost:5672/u/collectd/telemetry",
        "Where to receive: [amqp://][user[:password]@]host[:port]/address.",
    ),
    option("amqp1d", "data_source", Kind::Choice(&["collectd"]), "collectd", "What the messages are."),
    option(
        "amqp1d",
        "resource_type",
        Kind::Text,
        "collectd_amqp1d",
        "Type of the hosts' resources; created where there is none.",
    ),
    option("amqp1d", "creator", Kind::Text, "", "User as whom measures are posted. Unset: admin."),
    option("amqp1d", "flush_delay", Kind::Seconds, "10", "Seconds between posts."),
];

/// Options of engines that this version does not have, known by the start of their names in [storage] and [incoming].
pub const ENGINE_PREFIXES: &[&str] = &["ceph_", "redis_", "s3_", "swift_"];

/// The option of that name, if there is one.
pub fn find(section: &str, name: &str) -> Option<&'static Spec> {
    OPTIONS.iter().find(|spec| spec.section.eq_ignore_ascii_case(section) && spec.name == name)
}

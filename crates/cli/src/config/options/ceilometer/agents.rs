//! What the notification agent and the polling agents do: `[notification]`, `[agent]`, `[meter]`, `[event]`, `[publisher]`,
//! `[polling]`, `[compute]`, `[ipmi]`, `[coordination]`, `[cache]`.

use super::{ANY, Kind, POSITIVE, Spec, idle, option, secret};

/// Those that Ceilometer listens to.
const EXCHANGES: &str = "nova\nglance\nneutron\ncinder\nheat\nkeystone\ntrove\nzaqar\nswift\nceilometer\nmagnum\ndns\nironic\naodh";
const CACHE: &str = "caches are in the process";
const NOT_SHOWN: &str = "samples go to the broker; a pipeline with prometheus:// shows them";
const DRIVEN: &str = "publishers gather by themselves";

pub const OPTIONS: &[Spec] = &[
    Spec {
        formerly: &[("DEFAULT", "notification_workers")],
        ..option(
            "notification",
            "workers",
            POSITIVE,
            "",
            "Threads that take notifications, in one process. Unset: one for each processor.",
        )
    },
    Spec {
        kind: Kind::Lines,
        ..secret(
            "notification",
            "messaging_urls",
            Kind::Lines,
            "Brokers to listen to, one a line. Unset: transport_url.",
        )
    },
    Spec {
        formerly: &[("DEFAULT", "http_control_exchanges")],
        ..option(
            "notification",
            "notification_control_exchanges",
            Kind::Lines,
            EXCHANGES,
            "Exchanges to listen to, one a line.",
        )
    },
    option(
        "notification",
        "pipelines",
        Kind::Lines,
        "meter\nevent",
        "Which pipelines there are: meter, event.",
    ),
    option(
        "notification",
        "pool",
        Kind::Text,
        "",
        "gnudi: take copies of all notifications from a queue of this name, beside whoever takes the originals.",
    ),
    option(
        "notification",
        "tries_max",
        POSITIVE,
        "3",
        "gnudi: how often a notification that cannot be published is tried before it is set aside.",
    ),
    option(
        "notification",
        "aside_queue",
        Kind::Text,
        "gnudi.aside",
        "gnudi: queue of the notifications that were set aside, each with the reason in its headers.",
    ),
    option(
        "notification",
        "in_flight_bytes_max",
        POSITIVE,
        "50331648",
        "gnudi: bytes of notifications that are taken and not yet acknowledged; beyond them none is taken.",
    ),
    idle(
        "notification",
        "ack_on_event_error",
        "true",
        "what cannot be published is set aside after tries_max tries",
    ),
    idle("notification", "batch_size", "1", DRIVEN),
    idle("notification", "batch_timeout", "", DRIVEN),
    option(
        "agent",
        "metrics_listen",
        Kind::Text,
        "",
        "gnudi: host:port where the agent's figures are shown, at /metrics. Unset: nowhere.",
    ),
    option(
        "meter",
        "meter_definitions_dirs",
        Kind::Lines,
        "/etc/ceilometer/meters.d",
        "Directories of meter definitions (*.yaml). Where none of them has any, those that come with gnudi count.",
    ),
    option("event", "definitions_cfg_file", Kind::Text, "event_definitions.yaml", "Definitions of events."),
    option(
        "event",
        "drop_unmatched_notifications",
        Kind::Bool,
        "false",
        "Make no event of a notification that no definition is for.",
    ),
    option(
        "event",
        "store_raw",
        Kind::Lines,
        "",
        "Priorities whose notifications are kept whole in their events: info, error.",
    ),
    Spec {
        default: "change this for valid signing",
        ..secret(
            "publisher",
            "telemetry_secret",
            Kind::Text,
            "What samples are signed with; empty for no signatures.",
        )
    },
    option(
        "publisher_notifier",
        "metering_topic",
        Kind::Text,
        "metering",
        "Topic of samples that are published to the broker.",
    ),
    option(
        "publisher_notifier",
        "event_topic",
        Kind::Text,
        "event",
        "Topic of events that are published to the broker.",
    ),
    option(
        "publisher_notifier",
        "telemetry_driver",
        Kind::Choice(&["messaging", "messagingv2", "noop"]),
        "messagingv2",
        "Form of what is published to the broker.",
    ),
    option("polling", "cfg_file", Kind::Text, "polling.yaml", "What is polled, and how often."),
    option(
        "polling",
        "partitioning_group_prefix",
        Kind::Text,
        "",
        "Begin the name of the group that shares the work with this.",
    ),
    option("polling", "batch_size", ANY, "50", "Most samples of a message."),
    Spec {
        // Ceilometer lists it in both sections, and reads it in this one.
        formerly: &[("DEFAULT", "pollsters_definitions_dirs")],
        ..option(
            "polling",
            "pollsters_definitions_dirs",
            Kind::Lines,
            "/etc/ceilometer/pollsters.d",
            "Directories of dynamic pollsters (*.yaml).",
        )
    },
    Spec {
        formerly: &[("polling", "tenant_name_discovery")],
        ..option(
            "polling",
            "identity_name_discovery",
            Kind::Bool,
            "false",
            "Ask Keystone for the names of polled samples' users and projects, once for each in [cache] expiration_time.",
        )
    },
    option("polling", "enable_notifications", Kind::Bool, "true", "Publish samples to the broker."),
    option(
        "polling",
        "ignore_disabled_projects",
        Kind::Bool,
        "false",
        "Leave out projects that are disabled.",
    ),
    option(
        "polling",
        "threads_to_process_pollsters",
        ANY,
        "1",
        "Pollsters of a source that run at the same time; 0 for all.",
    ),
    idle("polling", "enable_prometheus_exporter", "false", NOT_SHOWN),
    idle("polling", "prometheus_listen_addresses", "127.0.0.1:9101", NOT_SHOWN),
    idle("polling", "prometheus_tls_enable", "false", NOT_SHOWN),
    idle("polling", "prometheus_tls_certfile", "", NOT_SHOWN),
    idle("polling", "prometheus_tls_keyfile", "", NOT_SHOWN),
    option(
        "polling",
        "jitter",
        Kind::Pause,
        "30",
        "gnudi: the first round begins within this many seconds, so that agents that start together do not ask together; with 0 at \
         once, as Ceilometer's.",
    ),
    option(
        "polling",
        "requests_max",
        POSITIVE,
        "4",
        "gnudi: requests of an agent under way at the same time, to all services together.",
    ),
    option(
        "polling",
        "libvirt_timeout",
        Kind::Seconds,
        "10",
        "gnudi: seconds that libvirt may take for one instance.",
    ),
    option(
        "polling",
        "publish_timeout",
        Kind::Seconds,
        "60",
        "gnudi: seconds after which samples are given up that the broker has not confirmed.",
    ),
    idle("polling", "heartbeat_socket_dir", "", "look at /metrics"),
    option(
        "compute",
        "instance_discovery_method",
        Kind::Choice(&["naive", "workload_partitioning", "libvirt_metadata"]),
        "libvirt_metadata",
        "How instances are found: asked of Nova, or of libvirt alone.",
    ),
    option(
        "compute",
        "resource_update_interval",
        ANY,
        "0",
        "Seconds between two questions to Nova; 0 for every time.",
    ),
    idle(
        "compute",
        "resource_cache_expiry",
        "3600",
        "each question to Nova brings all of this host's instances",
    ),
    option(
        "compute",
        "report_stopped_instance_metrics",
        Kind::Bool,
        "false",
        "Tell state, processors, memory and the sizes of disks of instances that are shut off, too.",
    ),
    option(
        "compute",
        "fetch_extra_metadata",
        Kind::Bool,
        "false",
        "Ask Nova for users' own metadata of the instances that libvirt has found.",
    ),
    idle("ipmi", "polling_retry", "3", "sensors are not polled"),
    secret(
        "coordination",
        "backend_url",
        Kind::Text,
        "Where polling agents find each other: etcd's or Redis' URL. Unset: each polls everything.",
    ),
    option(
        "coordination",
        "lease_seconds",
        Kind::Seconds,
        "30",
        "gnudi: a polling agent without a heartbeat for so long has died, and the others take over.",
    ),
    option(
        "cache",
        "enabled",
        Kind::Bool,
        "false",
        "Heed expiration_time; the caches themselves are in the process.",
    ),
    idle("cache", "backend", "dogpile.cache.null", CACHE),
    option(
        "cache",
        "expiration_time",
        POSITIVE,
        "600",
        "Seconds that names of users and projects are remembered; 600 unless the cache is enabled.",
    ),
    idle("cache", "memcache_servers", "localhost:11211", CACHE),
    idle("cache", "config_prefix", "cache.oslo", CACHE),
];

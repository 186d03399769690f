//! Options of the notification and polling agents: `[notification]`, `[agent]`, `[meter]`, `[event]`, `[publisher]`,
//! `[polling]`, `[compute]`, `[ipmi]`, `[coordination]`, `[cache]`.

use super::{ANY, Kind, POSITIVE, Spec, THREADS};

/// Ceilometer's default exchanges.
const EXCHANGES: &str = "nova\nglance\nneutron\ncinder\nheat\nkeystone\ntrove\nzaqar\nswift\nceilometer\nmagnum\ndns\nironic\naodh";
const CACHE: &str = "caches are in the process";
const DRIVEN: &str = "publishers batch by themselves";

/// In seconds; brokers count milliseconds in 32 bits.
const EXPIRATION: Kind = Kind::Int { min: 0, max: 4_294_967 };

pub const OPTIONS: &[Spec] = &options! {
    [notification]
    option workers(THREADS, "",
        "Threads that process notifications. Unset: one per processor.")
        { formerly: &[("DEFAULT", "notification_workers")] };
    secret messaging_urls(Kind::Lines, "Brokers to consume from, one per line. Unset: transport_url.");
    option notification_control_exchanges(Kind::Lines, EXCHANGES,
        "Exchanges to consume from, one per line.")
        { formerly: &[("DEFAULT", "http_control_exchanges")] };
    option pipelines(Kind::Lines, "meter\nevent", "Pipelines to run: meter, event.");
    text pool("",
        "gnudi: consume copies of all notifications from a queue of this name, besides other consumers.");
    option tries_max(POSITIVE, "3",
        "gnudi: attempts to process a notification that makes the agent panic, before it is set aside.");
    text aside_queue("gnudi.aside",
        "gnudi: queue of notifications that were set aside, with the reason in the headers.");
    option aside_length_max(ANY, "10000",
        "gnudi: maximum length of that queue; beyond it the oldest are dropped. 0: unlimited.");
    option aside_age_max(EXPIRATION, "2592000",
        "gnudi: maximum age of notifications in that queue, in seconds (default 30 days). 0: unlimited.");
    option in_flight_bytes_max(POSITIVE, "50331648",
        "gnudi: maximum bytes of unacknowledged notifications; beyond it consuming pauses.");
    idle ack_on_event_error("true", "failing messages are set aside");
    idle batch_size("1", DRIVEN);
    idle batch_timeout("", DRIVEN);

    [agent]
    text metrics_listen("", "gnudi: host:port of the agent's /metrics. Unset: disabled.");

    [meter]
    option meter_definitions_dirs(Kind::Lines, "/etc/ceilometer/meters.d",
        "Directories of meter definitions (*.yaml); the first definition of a meter's name applies. Unset: this \
         one, then the built-in definitions.");

    [event]
    text definitions_cfg_file("event_definitions.yaml", "Definitions of events.");
    option drop_unmatched_notifications(Kind::Bool, "false",
        "Create no event for a notification without a matching definition.");
    option store_raw(Kind::Lines, "",
        "Priorities whose events include the notification: info, error.");

    [publisher]
    secret telemetry_secret(Kind::Text,
        "Secret that samples are signed with; empty: no signatures.")
        { default: "change this for valid signing" };

    [publisher_notifier]
    text metering_topic("metering", "Topic of samples that are published to the broker.");
    text event_topic("event", "Topic of events that are published to the broker.");
    option telemetry_driver(Kind::Choice(&["messaging", "messagingv2", "noop"]), "messagingv2",
        "Form of what is published to the broker.")
        { formerly: &[("", "metering_driver")] };

    [polling]
    text cfg_file("polling.yaml", "File of what to poll, and how often.");
    text partitioning_group_prefix("", "Prefix of the names of the groups that share the work.")
        { formerly: &[("central", "partitioning_group_prefix")] };
    option batch_size(ANY, "50", "Maximum samples of a message.");
    // Ceilometer declares it in both sections, and reads it in this one.
    option pollsters_definitions_dirs(Kind::Lines, "/etc/ceilometer/pollsters.d",
        "Directories of dynamic pollsters (*.yaml).")
        { formerly: &[("DEFAULT", "pollsters_definitions_dirs")] };
    option identity_name_discovery(Kind::Bool, "false",
        "Query Keystone for the names of polled samples' users and projects, once for each in [cache] \
         expiration_time.")
        { formerly: &[("polling", "tenant_name_discovery")] };
    option enable_notifications(Kind::Bool, "true", "Publish samples to the broker.");
    option ignore_disabled_projects(Kind::Bool, "false", "Leave out projects that are disabled.");
    option threads_to_process_pollsters(ANY, "1", "Pollsters of a source that run at the same time; 0 for all.");
    option enable_prometheus_exporter(Kind::Bool, "false",
        "Export the last samples to Prometheus, at prometheus_listen_addresses.");
    option prometheus_listen_addresses(Kind::List, "127.0.0.1:9101",
        "Addresses with ports of that export.");
    option prometheus_tls_enable(Kind::Bool, "false", "Use TLS for it.");
    text prometheus_tls_certfile("",
        "File of the certificate, in PEM, for prometheus_tls_enable. Read again on SIGHUP and when the file changes.");
    text prometheus_tls_keyfile("", "File of its key.");
    option jitter(Kind::Pause, "30",
        "gnudi: the first round begins within this many seconds, so that agents that start together do not poll \
         together; with 0 at once, as Ceilometer's.");
    option requests_max(POSITIVE, "4",
        "gnudi: concurrent requests of an agent to all services together.");
    option libvirt_timeout(Kind::Seconds, "10", "gnudi: timeout of libvirt's calls for one instance, in seconds.");
    option publish_timeout(Kind::Seconds, "60",
        "gnudi: seconds after which samples that the broker has not confirmed are dropped.");
    text heartbeat_socket_dir("",
        "Directory of a socket that reports when each meter was last polled. Unset: no socket.");

    [compute]
    option instance_discovery_method(Kind::Choice(&["naive", "workload_partitioning", "libvirt_metadata"]),
        "libvirt_metadata", "How to discover instances: through Nova, or through libvirt only.");
    option resource_update_interval(ANY, "0", "Minimum seconds between two requests to Nova; 0: every round.");
    idle resource_cache_expiry("3600", "each request to Nova lists all of this host's instances");
    option report_stopped_instance_metrics(Kind::Bool, "false",
        "Also report state, processors, memory and disk sizes of instances that are shut off.");
    option fetch_extra_metadata(Kind::Bool, "false",
        "Fetch user metadata of the discovered instances from Nova.");

    [ipmi]
    option polling_retry(Kind::Int { min: i64::MIN, max: i64::MAX }, "3",
        "Consecutive failures after which a meter is no longer polled; negative: no limit.");
    text ipmitool_command("ipmitool",
        "gnudi: command that reads the sensors, for example sudo -n ipmitool.");
    option ipmitool_timeout(Kind::Seconds, "60", "gnudi: timeout of one run of it, in seconds.");

    [coordination]
    secret backend_url(Kind::Text,
        "Coordinator of polling agents, Ceilometer's included: URL of etcd or Redis. Unset: each polls \
         everything.");
    option lease_seconds(Kind::Seconds, "30",
        "gnudi: seconds without a heartbeat after which a polling agent counts as dead, and others take over.");

    [cache]
    option enabled(Kind::Bool, "false", "Use expiration_time; the caches themselves are in the process.");
    idle backend("dogpile.cache.null", CACHE);
    option expiration_time(POSITIVE, "600",
        "Lifetime of cached user and project names, in seconds; 600 unless the cache is enabled.");
    idle memcache_servers("localhost:11211", CACHE);
    idle config_prefix("cache.oslo", CACHE);
};

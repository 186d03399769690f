//! What the notification agent and the polling agents do: `[notification]`, `[agent]`, `[meter]`, `[event]`, `[publisher]`,
//! `[polling]`, `[compute]`, `[ipmi]`, `[coordination]`, `[cache]`.

use super::{ANY, Kind, POSITIVE, Spec};

/// Those that Ceilometer listens to.
const EXCHANGES: &str = "nova\nglance\nneutron\ncinder\nheat\nkeystone\ntrove\nzaqar\nswift\nceilometer\nmagnum\ndns\nironic\naodh";
const CACHE: &str = "caches are in the process";
const DRIVEN: &str = "publishers gather by themselves";

/// Seconds: a broker counts milliseconds in 32 bits.
const EXPIRATION: Kind = Kind::Int { min: 0, max: 4_294_967 };

pub const OPTIONS: &[Spec] = &options! {
    [notification]
    option workers(POSITIVE, "",
        "Threads that take notifications, in one process. Unset: one for each processor.")
        { formerly: &[("DEFAULT", "notification_workers")] };
    secret messaging_urls(Kind::Lines, "Brokers to listen to, one a line. Unset: transport_url.");
    option notification_control_exchanges(Kind::Lines, EXCHANGES,
        "Exchanges to listen to, one a line.")
        { formerly: &[("DEFAULT", "http_control_exchanges")] };
    option pipelines(Kind::Lines, "meter\nevent", "Which pipelines there are: meter, event.");
    text pool("",
        "gnudi: take copies of all notifications from a queue of this name, beside whoever takes the originals.");
    option tries_max(POSITIVE, "3",
        "gnudi: how often a notification that cannot be published is tried before it is set aside.");
    text aside_queue("gnudi.aside",
        "gnudi: queue of the notifications that were set aside, each with the reason in its headers.");
    option aside_length_max(ANY, "10000",
        "gnudi: notifications that are kept there; beyond them the oldest are dropped. 0 for any number.");
    option aside_age_max(EXPIRATION, "2592000",
        "gnudi: seconds that they are kept, 30 days; 0 for any time.");
    option in_flight_bytes_max(POSITIVE, "50331648",
        "gnudi: bytes of notifications that are taken and not yet acknowledged; beyond them none is taken.");
    idle ack_on_event_error("true", "what cannot be published is set aside after tries_max tries");
    idle batch_size("1", DRIVEN);
    idle batch_timeout("", DRIVEN);

    [agent]
    text metrics_listen("", "gnudi: host:port where the agent's figures are shown, at /metrics. Unset: nowhere.");

    [meter]
    option meter_definitions_dirs(Kind::Lines, "/etc/ceilometer/meters.d",
        "Directories of meter definitions (*.yaml). Where none of them has any, those that come with gnudi \
         count.");

    [event]
    text definitions_cfg_file("event_definitions.yaml", "Definitions of events.");
    option drop_unmatched_notifications(Kind::Bool, "false",
        "Make no event of a notification that no definition is for.");
    option store_raw(Kind::Lines, "",
        "Priorities whose notifications are kept whole in their events: info, error.");

    [publisher]
    secret telemetry_secret(Kind::Text,
        "What samples are signed with; empty for no signatures.")
        { default: "change this for valid signing" };

    [publisher_notifier]
    text metering_topic("metering", "Topic of samples that are published to the broker.");
    text event_topic("event", "Topic of events that are published to the broker.");
    option telemetry_driver(Kind::Choice(&["messaging", "messagingv2", "noop"]), "messagingv2",
        "Form of what is published to the broker.");

    [polling]
    text cfg_file("polling.yaml", "What is polled, and how often.");
    text partitioning_group_prefix("", "Begin the name of the group that shares the work with this.");
    option batch_size(ANY, "50", "Most samples of a message.");
    // Ceilometer lists it in both sections, and reads it in this one.
    option pollsters_definitions_dirs(Kind::Lines, "/etc/ceilometer/pollsters.d",
        "Directories of dynamic pollsters (*.yaml).")
        { formerly: &[("DEFAULT", "pollsters_definitions_dirs")] };
    option identity_name_discovery(Kind::Bool, "false",
        "Ask Keystone for the names of polled samples' users and projects, once for each in [cache] \
         expiration_time.")
        { formerly: &[("polling", "tenant_name_discovery")] };
    option enable_notifications(Kind::Bool, "true", "Publish samples to the broker.");
    option ignore_disabled_projects(Kind::Bool, "false", "Leave out projects that are disabled.");
    option threads_to_process_pollsters(ANY, "1", "Pollsters of a source that run at the same time; 0 for all.");
    option enable_prometheus_exporter(Kind::Bool, "false",
        "Show what was polled last to Prometheus, at prometheus_listen_addresses.");
    option prometheus_listen_addresses(Kind::List, "127.0.0.1:9101",
        "Addresses, each with a port, where that is shown.");
    option prometheus_tls_enable(Kind::Bool, "false", "Show it over TLS.");
    text prometheus_tls_certfile("", "File of the certificate, in PEM, for prometheus_tls_enable.");
    text prometheus_tls_keyfile("", "File of its key.");
    option jitter(Kind::Pause, "30",
        "gnudi: the first round begins within this many seconds, so that agents that start together do not ask \
         together; with 0 at once, as Ceilometer's.");
    option requests_max(POSITIVE, "4",
        "gnudi: requests of an agent under way at the same time, to all services together.");
    option libvirt_timeout(Kind::Seconds, "10", "gnudi: seconds that libvirt may take for one instance.");
    option publish_timeout(Kind::Seconds, "60",
        "gnudi: seconds after which samples are given up that the broker has not confirmed.");
    text heartbeat_socket_dir("",
        "Directory of a socket that tells when each meter was polled last. Unset: there is none.");

    [compute]
    option instance_discovery_method(Kind::Choice(&["naive", "workload_partitioning", "libvirt_metadata"]),
        "libvirt_metadata", "How instances are found: asked of Nova, or of libvirt alone.");
    option resource_update_interval(ANY, "0", "Seconds between two questions to Nova; 0 for every time.");
    idle resource_cache_expiry("3600", "each question to Nova brings all of this host's instances");
    option report_stopped_instance_metrics(Kind::Bool, "false",
        "Tell state, processors, memory and the sizes of disks of instances that are shut off, too.");
    option fetch_extra_metadata(Kind::Bool, "false",
        "Ask Nova for users' own metadata of the instances that libvirt has found.");

    [ipmi]
    option polling_retry(Kind::Int { min: i64::MIN, max: i64::MAX }, "3",
        "Failures of a meter one after the other, after which it is not polled any more; negative for never.");
    text ipmitool_command("ipmitool",
        "gnudi: program that asks the sensors, with what stands before its arguments: sudo -n ipmitool.");
    option ipmitool_timeout(Kind::Seconds, "60", "gnudi: seconds that one run of it may take.");

    [coordination]
    secret backend_url(Kind::Text,
        "Where polling agents find each other, Ceilometer's included: etcd's or Redis' URL. Unset: each polls \
         everything.");
    option lease_seconds(Kind::Seconds, "30",
        "gnudi: a polling agent without a heartbeat for so long has died, and the others take over.");

    [cache]
    option enabled(Kind::Bool, "false", "Heed expiration_time; the caches themselves are in the process.");
    idle backend("dogpile.cache.null", CACHE);
    option expiration_time(POSITIVE, "600",
        "Seconds that names of users and projects are remembered; 600 unless the cache is enabled.");
    idle memcache_servers("localhost:11211", CACHE);
    idle config_prefix("cache.oslo", CACHE);
};

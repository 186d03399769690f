//! How the broker is spoken to: `[oslo_messaging_notifications]` and `[oslo_messaging_rabbit]`.

use super::{ANY, Kind, POSITIVE, Spec, idle, option, secret};

const POOLS: &str = "each agent has one connection to consume and one to publish";
const RPC: &str = "nothing is called by RPC";
const HEADS: &str = "heartbeats come from a task of their own, at half the threshold";

pub const NOTIFICATIONS: &[Spec] = &[
    option(
        "oslo_messaging_notifications",
        "topics",
        Kind::List,
        "notifications",
        "Topics to listen to, and to publish to.",
    ),
    secret(
        "oslo_messaging_notifications",
        "transport_url",
        Kind::Text,
        "As transport_url, for notifications alone.",
    ),
    option(
        "oslo_messaging_notifications",
        "driver",
        Kind::Lines,
        "messagingv2",
        "Form of what `agent polling` publishes: messagingv2, messaging; noop and log publish nothing.",
    ),
    idle(
        "oslo_messaging_notifications",
        "retry",
        "-1",
        "what could not be published is tried until the agent stops",
    ),
];

const fn idle_rabbit(name: &'static str, default: &'static str, why: &'static str) -> Spec {
    idle("oslo_messaging_rabbit", name, default, why)
}

const fn rabbit(name: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Spec {
    option("oslo_messaging_rabbit", name, kind, default, help)
}

pub const RABBIT: &[Spec] = &[
    rabbit(
        "amqp_durable_queues",
        Kind::Bool,
        "false",
        "Exchanges and queues outlive a restart of the broker.",
    ),
    rabbit("amqp_auto_delete", Kind::Bool, "false", "Queues end with their last consumer."),
    rabbit("rabbit_quorum_queue", Kind::Bool, "false", "Quorum queues, which are durable."),
    rabbit(
        "rabbit_quorum_delivery_limit",
        ANY,
        "0",
        "Deliveries of a message of a quorum queue; 0 for any number.",
    ),
    rabbit(
        "rabbit_quorum_max_memory_length",
        ANY,
        "0",
        "Messages of a quorum queue kept in memory; 0 for any number.",
    ),
    rabbit(
        "rabbit_quorum_max_memory_bytes",
        ANY,
        "0",
        "Bytes of a quorum queue kept in memory; 0 for any number.",
    ),
    rabbit(
        "rabbit_qos_prefetch_count",
        Kind::Int { min: 0, max: 65_535 },
        "0",
        "Messages of each queue that are taken without acknowledgement; 0 for gnudi's own number.",
    ),
    rabbit(
        "heartbeat_timeout_threshold",
        Kind::Int { min: 0, max: 65_535 },
        "60",
        "Seconds of silence after which a connection counts as lost; 0 for any.",
    ),
    rabbit("ssl", Kind::Bool, "false", "Speak TLS."),
    rabbit(
        "ssl_ca_file",
        Kind::Text,
        "",
        "Certificates, in PEM, that vouch for the broker. Unset: the system's.",
    ),
    rabbit("ssl_cert_file", Kind::Text, "", "Certificate of this agent, in PEM."),
    rabbit("ssl_key_file", Kind::Text, "", "Its key, in PEM (PKCS#8)."),
    rabbit(
        "rabbit_login_method",
        Kind::Choice(&["PLAIN", "AMQPLAIN", "EXTERNAL", "RABBIT-CR-DEMO"]),
        "AMQPLAIN",
        "How to log in.",
    ),
    rabbit("rabbit_retry_interval", POSITIVE, "1", "Seconds to the first try to connect again."),
    rabbit("rabbit_retry_backoff", ANY, "2", "Seconds longer with each try after it."),
    rabbit("rabbit_interval_max", POSITIVE, "30", "Most seconds between two tries."),
    rabbit(
        "kombu_failover_strategy",
        Kind::Choice(&["round-robin", "shuffle"]),
        "round-robin",
        "In which order hosts are tried.",
    ),
    idle_rabbit("kombu_reconnect_delay", "1.0", "rabbit_retry_interval counts"),
    idle_rabbit("kombu_reconnect_splay", "0.0", "a quarter of each pause is random"),
    idle_rabbit("kombu_missing_consumer_retry_timeout", "60", RPC),
    idle_rabbit(
        "kombu_compression",
        "",
        "messages are published as they are; those that come compressed are set aside",
    ),
    idle_rabbit("rabbit_ha_queues", "false", "RabbitMQ mirrors queues by its own policies since 3.0"),
    idle_rabbit("rabbit_transient_quorum_queue", "false", RPC),
    idle_rabbit("rabbit_transient_queues_ttl", "1800", RPC),
    idle_rabbit("rabbit_stream_fanout", "false", RPC),
    idle_rabbit("direct_mandatory_flag", "true", RPC),
    idle_rabbit("use_queue_manager", "false", RPC),
    idle_rabbit("hostname", "", RPC),
    idle_rabbit("processname", "", RPC),
    idle_rabbit("enable_cancel_on_failover", "false", "a cancelled consumer is always made anew"),
    idle_rabbit("heartbeat_rate", "3", HEADS),
    idle_rabbit("heartbeat_in_pthread", "false", HEADS),
    idle_rabbit("rpc_conn_pool_size", "30", POOLS),
    idle_rabbit("conn_pool_min_size", "2", POOLS),
    idle_rabbit("conn_pool_ttl", "1200", POOLS),
    idle_rabbit("ssl_version", "", "TLS 1.2 and 1.3"),
    idle_rabbit("ssl_enforce_hostname_verification", "true", "certificates must name the broker"),
    idle_rabbit("ssl_enforce_fips_mode", "false", "the cryptography is built in"),
];

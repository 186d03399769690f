//! How the broker is spoken to: `[oslo_messaging_notifications]` and `[oslo_messaging_rabbit]`.

use super::{ANY, Kind, PORT, POSITIVE, Spec};

const POOLS: &str = "each agent has one connection to consume and one to publish";
const RPC: &str = "nothing is called by RPC";
const HEADS: &str = "heartbeats come from a task of their own, at half the threshold";

pub const NOTIFICATIONS: &[Spec] = &options! {
    [oslo_messaging_notifications]
    option topics(Kind::List, "notifications", "Topics to listen to, and to publish to.");
    secret transport_url(Kind::Text, "As transport_url, for notifications alone.");
    option driver(Kind::Lines, "messagingv2",
        "Form of what `agent polling` publishes: messagingv2, messaging; noop and log publish nothing.");
    idle retry("-1", "what could not be published is tried until the agent stops");
};

pub const RABBIT: &[Spec] = &options! {
    [oslo_messaging_rabbit]
    option amqp_durable_queues(Kind::Bool, "false", "Exchanges and queues outlive a restart of the broker.");
    option amqp_auto_delete(Kind::Bool, "false", "Queues end with their last consumer.");
    option rabbit_quorum_queue(Kind::Bool, "false", "Quorum queues, which are durable.");
    option rabbit_quorum_delivery_limit(ANY, "0", "Deliveries of a message of a quorum queue; 0 for any number.");
    option rabbit_quorum_max_memory_length(ANY, "0",
        "Messages of a quorum queue kept in memory; 0 for any number.");
    option rabbit_quorum_max_memory_bytes(ANY, "0", "Bytes of a quorum queue kept in memory; 0 for any number.");
    option rabbit_qos_prefetch_count(PORT, "0",
        "Messages of each queue that are taken without acknowledgement; 0 for gnudi's own number.");
    option heartbeat_timeout_threshold(PORT, "60",
        "Seconds of silence after which a connection counts as lost; 0 for any.");
    option ssl(Kind::Bool, "false", "Speak TLS.");
    text ssl_ca_file("", "Certificates, in PEM, that vouch for the broker. Unset: the system's.");
    text ssl_cert_file("", "Certificate of this agent, in PEM.");
    text ssl_key_file("", "Its key, in PEM (PKCS#8).");
    option rabbit_login_method(Kind::Choice(&["PLAIN", "AMQPLAIN", "EXTERNAL", "RABBIT-CR-DEMO"]), "AMQPLAIN",
        "How to log in.");
    option rabbit_retry_interval(POSITIVE, "1", "Seconds to the first try to connect again.");
    option rabbit_retry_backoff(ANY, "2", "Seconds longer with each try after it.");
    option rabbit_interval_max(POSITIVE, "30", "Most seconds between two tries.");
    option kombu_failover_strategy(Kind::Choice(&["round-robin", "shuffle"]), "round-robin",
        "In which order hosts are tried.");
    idle kombu_reconnect_delay("1.0", "rabbit_retry_interval counts");
    idle kombu_reconnect_splay("0.0", "a quarter of each pause is random");
    idle kombu_missing_consumer_retry_timeout("60", RPC);
    option kombu_compression(Kind::Choice(&["gzip", "zlib", "bz2", "bzip2", "bzip"]), "",
        "What messages are compressed with that are published; those that come are read, compressed or not.");
    idle rabbit_ha_queues("false", "RabbitMQ mirrors queues by its own policies since 3.0");
    idle rabbit_transient_quorum_queue("false", RPC);
    idle rabbit_transient_queues_ttl("1800", RPC);
    idle rabbit_stream_fanout("false", RPC);
    idle direct_mandatory_flag("true", RPC);
    idle use_queue_manager("false", RPC);
    idle hostname("", RPC);
    idle processname("", RPC);
    idle enable_cancel_on_failover("false", "a cancelled consumer is always made anew");
    idle heartbeat_rate("3", HEADS);
    idle heartbeat_in_pthread("false", HEADS);
    idle rpc_conn_pool_size("30", POOLS);
    idle conn_pool_min_size("2", POOLS);
    idle conn_pool_ttl("1200", POOLS);
    idle ssl_version("", "TLS 1.2 and 1.3");
    idle ssl_enforce_hostname_verification("true", "certificates must name the broker");
    idle ssl_enforce_fips_mode("false", "the cryptography is built in");
};

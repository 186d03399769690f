//! Options of the broker: `[oslo_messaging_notifications]` and `[oslo_messaging_rabbit]`.

use super::{ANY, Kind, PORT, POSITIVE, Spec};

const POOLS: &str = "each agent has one connection to consume and one to publish";
const RPC: &str = "nothing is called by RPC";
const HEADS: &str = "heartbeats come from a task of their own, at half the threshold";

pub const OPTIONS: &[Spec] = &options! {
    [oslo_messaging_notifications]
    option topics(Kind::List, "notifications", "Topics to consume and to publish to.");
    secret transport_url(Kind::Text, "As transport_url, for notifications alone.");
    option driver(Kind::Lines, "messagingv2",
        "Form of what `agent polling` publishes: messagingv2, messaging; noop and log publish nothing.");
    idle retry("-1", "publishing is retried until the agent stops");

    [oslo_messaging_rabbit]
    option amqp_durable_queues(Kind::Bool, "false", "Durable exchanges and queues.");
    option amqp_auto_delete(Kind::Bool, "false", "Delete queues with their last consumer.");
    option rabbit_quorum_queue(Kind::Bool, "false", "Quorum queues, which are durable.");
    option rabbit_quorum_delivery_limit(ANY, "0", "Delivery limit of quorum queues; 0: unlimited.");
    option rabbit_quorum_max_memory_length(ANY, "0",
        "Maximum messages of a quorum queue in memory; 0: unlimited.");
    option rabbit_quorum_max_memory_bytes(ANY, "0", "Maximum bytes of a quorum queue in memory; 0: unlimited.");
    option rabbit_qos_prefetch_count(PORT, "0",
        "Prefetch count of each queue; 0: gnudi's own default.");
    option heartbeat_timeout_threshold(PORT, "60",
        "Heartbeat timeout in seconds; 0: no heartbeats.");
    option ssl(Kind::Bool, "false", "Use TLS.");
    text ssl_ca_file("", "Trusted certificates for the broker (PEM). Unset: the system's.");
    text ssl_cert_file("", "Client certificate (PEM).");
    text ssl_key_file("", "Its key, in PEM (PKCS#8).");
    option rabbit_login_method(Kind::Choice(&["PLAIN", "AMQPLAIN", "EXTERNAL", "RABBIT-CR-DEMO"]), "AMQPLAIN",
        "How to log in.");
    option rabbit_retry_interval(POSITIVE, "1", "Delay of the first reconnect, in seconds.");
    option rabbit_retry_backoff(ANY, "2", "Increase of the delay per attempt, in seconds.");
    option rabbit_interval_max(POSITIVE, "30", "Maximum delay between attempts, in seconds.");
    option kombu_failover_strategy(Kind::Choice(&["round-robin", "shuffle"]), "round-robin",
        "Order in which hosts are tried.");
    idle kombu_reconnect_delay("1.0", "rabbit_retry_interval applies");
    idle kombu_reconnect_splay("0.0", "a quarter of each pause is random");
    idle kombu_missing_consumer_retry_timeout("60", RPC);
    option kombu_compression(Kind::Choice(&["gzip", "zlib", "bz2", "bzip2", "bzip"]), "",
        "Compression of published messages; received ones may be compressed or not.");
    idle rabbit_ha_queues("false", "RabbitMQ mirrors queues by its own policies since 3.0");
    idle rabbit_transient_quorum_queue("false", RPC);
    idle rabbit_transient_queues_ttl("1800", RPC);
    idle rabbit_stream_fanout("false", RPC);
    idle direct_mandatory_flag("true", RPC);
    idle use_queue_manager("false", RPC);
    idle hostname("", RPC);
    idle processname("", RPC);
    idle enable_cancel_on_failover("false", "a cancelled consumer is always recreated");
    idle heartbeat_rate("3", HEADS);
    idle heartbeat_in_pthread("false", HEADS);
    idle rpc_conn_pool_size("30", POOLS);
    idle conn_pool_min_size("2", POOLS);
    idle conn_pool_ttl("1200", POOLS);
    idle ssl_version("", "TLS 1.2 and 1.3");
    idle ssl_enforce_hostname_verification("true", "certificates must name the broker");
    idle ssl_enforce_fips_mode("false", "the cryptography is built in");
};

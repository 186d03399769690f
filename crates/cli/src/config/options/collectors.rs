//! `[host]`: figures of this machine. `[statsd]` and `[amqp1d]`: measures over other protocols than HTTP.

use super::{Kind, PORT, POSITIVE, Spec};

pub const HOST: &[Spec] = &options! {
    [host]
    option enabled(Kind::Bool, "true",
        "gnudi: collect this machine's processor, memory, disk and network figures.");
    option interval(POSITIVE, "5", "gnudi: interval in seconds.");
    text archive_policy_name("high", "gnudi: archive policy of the metrics of this machine.");
};

pub const OPTIONS: &[Spec] = &options! {
    [statsd]
    text host("127.0.0.1",
        "Address to receive datagrams on. They are not authenticated: everybody who can reach it is \
         trusted.");
    option port(PORT, "8125", "UDP port to receive datagrams on.");
    text resource_id("",
        "Resource of the metrics; created if missing. Unset: statsd.");
    text creator("", "User as whom measures are posted. Unset: admin.");
    text archive_policy_name("", "Archive policy of new metrics. Unset: by the archive policy rules.");
    option flush_delay(Kind::Seconds, "10", "Seconds between posts.");

    [amqp1d]
    text url("localhost:5672/u/collectd/telemetry",
        "Where to receive: [amqp[s]://][user[:password]@]host[:port]/address.")
        { is_secret: true };
    text ssl_ca_file("", "gnudi: trusted certificates for an amqps:// broker (PEM). Unset: the system's.");
    text ssl_cert_file("", "gnudi: client certificate (PEM).");
    text ssl_key_file("", "gnudi: its key (PEM). Unset: in ssl_cert_file.");
    option data_source(Kind::Choice(&["collectd"]), "collectd", "Format of the messages.");
    text resource_type("collectd_amqp1d", "Resource type of the hosts; created if missing.");
    text creator("", "User as whom measures are posted. Unset: admin.");
    option flush_delay(Kind::Seconds, "10", "Seconds between posts.");
};

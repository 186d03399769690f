//! `[statsd]` and `[amqp1d]`: measures that come by other ways than HTTP.

use super::{Kind, PORT, Spec};

pub const OPTIONS: &[Spec] = &options! {
    [statsd]
    text host("127.0.0.1",
        "Address on which datagrams are taken. They carry no name and no password: whoever reaches it is \
         trusted.");
    option port(PORT, "8125", "Port on which datagrams are taken (UDP).");
    text resource_id("",
        "Resource that the metrics belong to; created where there is none. Unset: one called statsd.");
    text creator("", "User as whom measures are posted. Unset: admin.");
    text archive_policy_name("", "Archive policy of new metrics. Unset: by the archive policy rules.");
    option flush_delay(Kind::Seconds, "10", "Seconds between posts.");

    [amqp1d]
    text url("localhost:5672/u/collectd/telemetry",
        "Where to receive: [amqp[s]://][user[:password]@]host[:port]/address.");
    text ssl_ca_file("", "gnudi: certificates, in PEM, that vouch for the broker of amqps://. Unset: the system's.");
    text ssl_cert_file("", "gnudi: certificate of this program for the broker, in PEM.");
    text ssl_key_file("", "gnudi: its key, in PEM. Unset: it stands in ssl_cert_file.");
    option data_source(Kind::Choice(&["collectd"]), "collectd", "What the messages are.");
    text resource_type("collectd_amqp1d", "Type of the hosts' resources; created where there is none.");
    text creator("", "User as whom measures are posted. Unset: admin.");
    option flush_delay(Kind::Seconds, "10", "Seconds between posts.");
};

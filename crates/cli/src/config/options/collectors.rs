//! `[statsd]` and `[amqp1d]`: measures that come by other ways than HTTP.

use super::{Kind, Spec, option};

pub const OPTIONS: &[Spec] = &[
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

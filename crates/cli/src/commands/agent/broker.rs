//! Converts options of ceilometer.conf to broker connections and subscriptions.

use anyhow::{Context as _, Result, bail};
use gnudi_telemetry::messaging::{
    BrokerOptions, ConsumerOptions, QueueOptions, QuorumOptions, ReconnectDelays, SaslMechanism, TlsFiles,
    TransportUrl, compression::Compression,
};

use crate::config::Config;

const RABBIT: &str = "oslo_messaging_rabbit";
const NOTIFICATIONS: &str = "oslo_messaging_notifications";

/// Default prefetch count of each queue. `in_flight_bytes_max` bounds memory; this keeps messages coming while a batch
/// is being stored.
const PREFETCH: u16 = 400;

/// The broker to publish to; also the one to consume from, unless `[notification] messaging_urls` is set.
pub fn main_broker(config: &Config, name: &str) -> Result<BrokerOptions> {
    let (section, option) = match config.text(NOTIFICATIONS, "transport_url") {
        Some(_) => (NOTIFICATIONS, "transport_url"),
        None => ("DEFAULT", "transport_url"),
    };
    let url = config.text(section, option).unwrap_or("rabbit://");
    let url: TransportUrl = url.parse().with_context(|| config.place(section, option))?;
    broker(config, url, name)
}

/// All brokers to consume from.
pub fn brokers(config: &Config, name: &str) -> Result<Vec<BrokerOptions>> {
    let urls = config.list("notification", "messaging_urls");
    if urls.is_empty() {
        return Ok(vec![main_broker(config, name)?]);
    }
    let place = || config.place("notification", "messaging_urls");
    urls.iter().map(|url| broker(config, url.parse().with_context(place)?, name)).collect()
}

/// The broker with the queue of messages that are set aside: `transport_url` if the agent consumes from it, otherwise the
/// first one that it does consume from. Those of all brokers are there, and a replay finds the queues of the agent.
pub fn aside_broker(config: &Config, name: &str) -> Result<BrokerOptions> {
    let main = main_broker(config, name)?;
    let consumed = brokers(config, name)?;
    if consumed.iter().any(|broker| broker.url == main.url) {
        return Ok(main);
    }
    Ok(consumed.into_iter().next().unwrap_or(main))
}

fn broker(config: &Config, url: TransportUrl, name: &str) -> Result<BrokerOptions> {
    let number = |name| u32::try_from(config.size(RABBIT, name)).unwrap_or(u32::MAX);
    let login = match config.text(RABBIT, "rabbit_login_method") {
        Some("PLAIN") => SaslMechanism::Plain,
        Some("EXTERNAL") => SaslMechanism::External,
        Some("RABBIT-CR-DEMO") => SaslMechanism::RabbitCrDemo,
        _ => SaslMechanism::AmqPlain,
    };
    let is_secure = url.is_secure || config.bool(RABBIT, "ssl");
    Ok(BrokerOptions {
        tls: if is_secure { Some(tls(config)?) } else { None },
        login,
        heartbeat_s: config.size(RABBIT, "heartbeat_timeout_threshold") as u16,
        shuffled: config.text(RABBIT, "kombu_failover_strategy") == Some("shuffle"),
        pauses: ReconnectDelays {
            first: config.seconds(RABBIT, "rabbit_retry_interval"),
            step: config.seconds(RABBIT, "rabbit_retry_backoff"),
            longest: config.seconds(RABBIT, "rabbit_interval_max"),
        },
        queues: QueueOptions {
            durable: config.bool(RABBIT, "amqp_durable_queues"),
            auto_delete: config.bool(RABBIT, "amqp_auto_delete"),
            quorum: config.bool(RABBIT, "rabbit_quorum_queue").then(|| QuorumOptions {
                delivery_limit: number("rabbit_quorum_delivery_limit"),
                memory_length_max: number("rabbit_quorum_max_memory_length"),
                memory_bytes_max: number("rabbit_quorum_max_memory_bytes"),
            }),
        },
        compression: match config.text(RABBIT, "kombu_compression") {
            Some("gzip" | "zlib") => Some(Compression::Zlib),
            Some("bz2" | "bzip2" | "bzip") => Some(Compression::Bzip2),
            _ => None,
        },
        ..BrokerOptions::new(url, name)
    })
}

fn tls(config: &Config) -> Result<TlsFiles> {
    let file = |name| config.path(RABBIT, name);
    let identity = match (file("ssl_cert_file"), file("ssl_key_file")) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        (Some(_), None) => bail!("{}: needs ssl_key_file beside it", config.place(RABBIT, "ssl_cert_file")),
        (None, Some(_)) => bail!("{}: needs ssl_cert_file beside it", config.place(RABBIT, "ssl_key_file")),
    };
    Ok(TlsFiles { authorities: file("ssl_ca_file"), identity })
}

/// Exchanges, topics and limits of the notification agent.
pub fn listening(config: &Config) -> ConsumerOptions {
    ConsumerOptions {
        exchanges: distinct(config.list("notification", "notification_control_exchanges")),
        topics: distinct(config.list(NOTIFICATIONS, "topics")),
        pool: config.string("notification", "pool"),
        prefetch: match config.size(RABBIT, "rabbit_qos_prefetch_count") {
            0 => PREFETCH,
            count => count as u16,
        },
        in_flight_bytes_max: config.size("notification", "in_flight_bytes_max"),
    }
}

fn distinct(mut names: Vec<String>) -> Vec<String> {
    let mut seen = std::collections::HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Project;

    #[test]
    fn what_is_set_aside_stays_where_it_is_consumed() {
        for (text, host) in [
            ("", "localhost"),
            ("[DEFAULT]\ntransport_url = rabbit://a/\n", "a"),
            ("[notification]\nmessaging_urls = rabbit://b/\nmessaging_urls = rabbit://c/\n", "b"),
            (
                "[DEFAULT]\ntransport_url = rabbit://c/\n[notification]\nmessaging_urls = rabbit://b/\n\
                 messaging_urls = rabbit://c/\n",
                "c",
            ),
            ("[DEFAULT]\ntransport_url = rabbit://a/\n[notification]\nmessaging_urls = rabbit://b/\n", "b"),
        ] {
            let config = Config::of_text(Project::Ceilometer, text).unwrap();
            let broker = aside_broker(&config, "test").unwrap();
            assert_eq!(broker.url.hosts[0].name, host, "{text}");
        }
    }
}

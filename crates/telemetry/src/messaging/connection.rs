//! A connection to one of a broker's hosts.

use std::{fs, path::PathBuf, time::Duration};

use lapin::{
    Connection, ConnectionProperties,
    tcp::{OwnedIdentity, OwnedTLSConfig},
    uri::{AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo, SASLMechanism},
};

use super::{Host, MessagingError, QueueOptions, Result, TransportUrl, compression::Compression};

/// Timeout of connecting to one host, login included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout of a connection's close: nothing depends on the broker's response.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Stack of a thread that parses a frame. Arrays in headers nest without a limit: five bytes a level, so 26,214 levels in
/// the 128 KiB that a broker lets a publisher send by default. The library's parser recurses, before it compares the frame
/// with the negotiated size, and takes 3,104 bytes a level (18,688 without optimisation). The thread is the library's own:
/// it has what `RUST_MIN_STACK` says.
pub const STACK_BYTES: usize = if cfg!(debug_assertions) { 1 << 30 } else { 256 << 20 };

/// SASL mechanism.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SaslMechanism {
    #[default]
    Plain,
    AmqPlain,
    /// By the client certificate.
    External,
    RabbitCrDemo,
}

/// PEM files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Authorities trusted for the broker, in addition to the system's.
    pub authorities: Option<PathBuf>,
    /// Client certificate and key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// Delays between connection attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReconnectDelays {
    pub first: Duration,
    /// Increase per failure.
    pub step: Duration,
    pub longest: Duration,
}

impl Default for ReconnectDelays {
    fn default() -> Self {
        ReconnectDelays {
            first: Duration::from_secs(1),
            step: Duration::from_secs(2),
            longest: Duration::from_secs(30),
        }
    }
}

impl ReconnectDelays {
    /// The delay after `failures` consecutive failures, counted from 1. `fraction`, 0 to 1, is random jitter of up to a
    /// quarter, so that agents do not reconnect in step.
    pub fn after(self, failures: u32, fraction: f64) -> Duration {
        let pause = self.first + self.step.saturating_mul(failures.saturating_sub(1));
        pause.min(self.longest).mul_f64(1.0 - fraction.clamp(0.0, 1.0) / 4.0)
    }
}

/// How to connect to a broker, and the properties of its queues.
#[derive(Clone, Debug)]
pub struct BrokerOptions {
    pub url: TransportUrl,
    /// `None` for plain TCP.
    pub tls: Option<TlsFiles>,
    pub login: SaslMechanism,
    /// Heartbeat interval in seconds: a silent connection is closed; 0 disables it.
    pub heartbeat_s: u16,
    /// Try hosts in random order.
    pub shuffled: bool,
    pub pauses: ReconnectDelays,
    pub queues: QueueOptions,
    /// Compression of published messages.
    pub compression: Option<Compression>,
    /// Shown in the broker's list of connections.
    pub name: String,
}

impl BrokerOptions {
    /// The defaults of oslo.messaging.
    pub fn new(url: TransportUrl, name: &str) -> Self {
        BrokerOptions {
            tls: url.is_secure.then(TlsFiles::default),
            url,
            login: SaslMechanism::default(),
            heartbeat_s: 60,
            shuffled: false,
            pauses: ReconnectDelays::default(),
            queues: QueueOptions::default(),
            compression: None,
            name: name.to_owned(),
        }
    }

    /// Hosts in the order of attempts. `turn` counts connections, so that each starts at the next host; a random
    /// order depends on `seed`.
    fn order(&self, turn: usize, seed: u64) -> Vec<&Host> {
        let mut hosts: Vec<&Host> = self.url.hosts.iter().collect();
        if self.shuffled {
            fastrand::Rng::with_seed(seed).shuffle(&mut hosts);
        } else {
            let hosts_count = hosts.len();
            hosts.rotate_left(turn % hosts_count);
        }
        hosts
    }

    /// Connects to the first host that responds.
    pub(super) async fn connect(&self, turn: usize) -> Result<Connection> {
        let tls = self.tls_config()?;
        let mut reasons = Vec::new();
        for host in self.order(turn, fastrand::u64(..)) {
            let connecting = Connection::connect_uri_with_config(
                self.uri(host),
                ConnectionProperties::default().with_connection_name(self.name.as_str().into()),
                tls.clone(),
                lapin::runtime::default_runtime().map_err(error)?,
            );
            match tokio::time::timeout(CONNECT_TIMEOUT, connecting).await {
                Ok(Ok(connection)) => return Ok(connection),
                Ok(Err(error)) => reasons.push(format!("{host:?}: {error}")),
                Err(_) => reasons.push(format!("{host:?}: no answer within {} s", CONNECT_TIMEOUT.as_secs())),
            }
        }
        Err(MessagingError(reasons.join("; ")))
    }

    fn uri(&self, host: &Host) -> AMQPUri {
        let mechanism = match self.login {
            SaslMechanism::Plain => SASLMechanism::Plain,
            SaslMechanism::AmqPlain => SASLMechanism::AMQPlain,
            SaslMechanism::External => SASLMechanism::External,
            SaslMechanism::RabbitCrDemo => SASLMechanism::RabbitCrDemo,
        };
        AMQPUri {
            scheme: if self.tls.is_some() { AMQPScheme::AMQPS } else { AMQPScheme::AMQP },
            authority: AMQPAuthority {
                userinfo: AMQPUserInfo { username: host.user.clone(), password: host.password.clone() },
                host: host.name.clone(),
                port: host.port,
            },
            vhost: self.url.virtual_host.clone(),
            query: AMQPQueryString {
                heartbeat: Some(self.heartbeat_s),
                connection_timeout: Some(CONNECT_TIMEOUT.as_millis() as u64),
                auth_mechanism: Some(mechanism),
                ..AMQPQueryString::default()
            },
        }
    }

    /// Read for each connection: certificates may be renewed while agents run.
    fn tls_config(&self) -> Result<OwnedTLSConfig> {
        let Some(files) = &self.tls else { return Ok(OwnedTLSConfig::default()) };
        let read = |path: &PathBuf| {
            fs::read(path).map_err(|error| MessagingError(format!("{}: {error}", path.display())))
        };
        let identity = match &files.identity {
            None => None,
            Some((certificate, key)) => {
                Some(OwnedIdentity::PKCS8 { pem: read(certificate)?, key: read(key)? })
            }
        };
        let authorities = files.authorities.as_ref().map(read).transpose()?;
        let cert_chain = authorities.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Ok(OwnedTLSConfig { identity, cert_chain })
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` gives")]
pub(super) fn error(error: lapin::Error) -> MessagingError {
    MessagingError(error.to_string())
}

#[cfg(test)]
mod tests {
    use lapin::types::parsing::parse_field_table;

    use super::*;

    fn names(hosts: &[&Host]) -> String {
        hosts.iter().map(|host| host.name.as_str()).collect()
    }

    #[test]
    fn hosts_are_tried_in_turn_or_at_random() {
        let mut options = BrokerOptions::new("rabbit://a,b,c/".parse().unwrap(), "test");
        assert_eq!(names(&options.order(0, 0)), "abc");
        assert_eq!(names(&options.order(4, 0)), "bca");
        options.shuffled = true;
        let mut firsts: Vec<String> =
            (1..100).map(|seed| names(&options.order(0, seed))[..1].to_owned()).collect();
        firsts.sort();
        firsts.dedup();
        assert_eq!(firsts, ["a", "b", "c"]);
    }

    const FRAME_BYTES: usize = 128 << 10;
    /// A type and a length.
    const LEVEL_BYTES: usize = 5;

    /// Headers of one field: arrays within arrays.
    fn nested_headers(levels: usize) -> Vec<u8> {
        let mut field = vec![1, b'a'];
        for inner_levels in (0..levels).rev() {
            field.push(b'A');
            field.extend(u32::try_from(inner_levels * LEVEL_BYTES).unwrap().to_be_bytes());
        }
        let mut table = u32::try_from(field.len()).unwrap().to_be_bytes().to_vec();
        table.extend(field);
        table
    }

    #[test]
    fn the_stack_is_enough_for_the_deepest_headers() {
        // A tenth of both, since all of that stack becomes memory.
        let table = nested_headers(FRAME_BYTES / LEVEL_BYTES / 10);
        let parsing = std::thread::Builder::new()
            .stack_size(STACK_BYTES / 10)
            .spawn(move || parse_field_table(table.as_slice()).is_ok_and(|(rest, _)| rest.is_empty()));
        assert!(parsing.unwrap().join().unwrap());
    }

    #[test]
    fn pauses_grow_to_the_longest() {
        let pauses = ReconnectDelays::default();
        let seconds = |failures| pauses.after(failures, 0.0).as_secs_f64();
        assert_eq!((seconds(1), seconds(2), seconds(3), seconds(1000)), (1.0, 3.0, 5.0, 30.0));
        assert_eq!(pauses.after(1, 1.0), Duration::from_millis(750));
    }
}

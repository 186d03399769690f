//! Receives from the broker, reconnects, and flushes at intervals.
//!
//! A message is accepted once its values are stored: the broker redelivers what a crash of this process lost.
//! Duplicates change nothing, since values carry collectd's times.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt::{Debug, Display},
    sync::Arc,
    time::Duration,
};

use fe2o3_amqp::{
    Connection, Receiver, Session,
    link::{MessageDecodeError, ReceiverDisposer, RecvError, delivery::DeliveryInfo, receiver::CreditMode},
    sasl_profile::SaslProfile,
    types::{
        definitions::{self, AmqpError, ErrorCondition, LinkError},
        messaging::{AmqpValue, Body},
        primitives::Value,
    },
};
use gnudi_client::{Client, ResourceTypeSpec, StringAttribute};
use gnudi_http::{ClientIdentity, Trust};
use gnudi_model::Measure;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::{mpsc, oneshot},
    time::{Instant, MissedTickBehavior},
};
use tokio_rustls::{TlsConnector, rustls::pki_types::ServerName};

use super::{
    address::Address,
    collectd::{self, CollectdValue},
};
use crate::{
    delivery::{Deliverer, DeliveryOptions, MeasureBacklog, MetricMeasures},
    time::now,
};

/// Link credit: messages that the broker may send before any of them is accepted.
const CREDIT: u32 = 4000;

/// Flush early at this many messages, so that the broker does not wait for the interval.
const FLUSH_MESSAGES: usize = 1000;

/// Messages received and not yet parsed.
const MESSAGES_AHEAD: usize = 200;

/// A message with a longer body is rejected.
const BODY_BYTES_MAX: usize = 16 << 20;

/// A longer message closes the link. Brokers that ignore the limit of a link send as much (`RabbitMQ` before 4.0).
const MESSAGE_BYTES_MAX: u64 = 128 << 20;

/// Receive nothing more while this many measures and messages, which may have no measures, are buffered. As many may be in
/// flight besides.
const BUFFERED_MAX: usize = 500_000;

/// Timeout of one connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Exponential backoff between connection attempts, from the first value to the last.
const RETRY_MIN: Duration = Duration::from_millis(500);
const RETRY_MAX: Duration = Duration::from_secs(30);

/// A connection that lasted this long resets the backoff.
const STABLE: Duration = Duration::from_secs(10);

/// Timeout for accepting the last messages and closing the connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum characters of a host name.
const HOST_CHARACTERS_MAX: u32 = 255;

#[derive(Clone, Debug)]
pub struct Amqp1Options {
    pub address: Address,
    /// The resource type; created if missing.
    pub resource_type: String,
    pub flush_delay: Duration,
    /// Used if the address asks for TLS.
    pub tls: TlsOptions,
}

/// Trusted authorities and the client certificate.
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    pub trust: Trust,
    pub identity: Option<ClientIdentity>,
}

pub struct Amqp1Server {
    options: Amqp1Options,
    deliverer: Deliverer,
    /// By host and metric.
    gathered: BTreeMap<String, BTreeMap<String, Vec<Measure>>>,
    measures: usize,
    malformed: u64,
    /// The messages whose values are buffered.
    messages: Vec<Unaccepted>,
    /// The flushes that the store has not accepted yet, oldest first.
    in_flight: VecDeque<Flush>,
}

/// A message, and the handle that accepts it.
struct Amqp1Message {
    /// `None` if the body is not bytes.
    bytes: Option<Vec<u8>>,
    unaccepted: Unaccepted,
}

struct Unaccepted {
    delivery: DeliveryInfo,
    link: ReceiverDisposer,
}

/// Messages whose values are being stored.
struct Flush {
    messages: Vec<Unaccepted>,
    /// Measures and messages.
    size: usize,
    receipt: oneshot::Receiver<()>,
}

impl Amqp1Server {
    /// Must be called within a Tokio runtime.
    pub fn new(client: Client, options: Amqp1Options) -> Self {
        let host = StringAttribute { required: true, min_length: 0, max_length: HOST_CHARACTERS_MAX };
        let spec = ResourceTypeSpec {
            name: options.resource_type.clone(),
            attributes: BTreeMap::from([("host".to_owned(), host)]),
        };
        let delivery = DeliveryOptions { resource_type: Some(spec), archive_policy_name: None };
        Amqp1Server {
            options,
            deliverer: Deliverer::start(MeasureBacklog::new(client, delivery)),
            gathered: BTreeMap::new(),
            measures: 0,
            malformed: 0,
            messages: Vec::new(),
            in_flight: VecDeque::new(),
        }
    }

    /// Receives messages until `stop`, then flushes once more.
    pub async fn run(mut self, stop: impl Future<Output = ()>) {
        let mut flushes = tokio::time::interval(self.options.flush_delay);
        flushes.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick fires at once.
        flushes.tick().await;
        let (sender, mut messages) = mpsc::channel(MESSAGES_AHEAD);
        let (close, closing) = oneshot::channel();
        let receiving = tokio::spawn(receive_until(self.options.clone(), sender, closing));
        let mut stop = std::pin::pin!(stop);
        loop {
            tokio::select! {
                message = messages.recv(), if has_room(self.measures, self.messages.len()) => {
                    // It ends only by a panic, which is passed on. The broker redelivers the lost messages.
                    self.add_message(message.expect("the task that receives messages goes on"));
                }
                is_stored = Flush::is_stored(self.in_flight.front_mut()) => {
                    if let Some(flush) = self.in_flight.pop_front() {
                        tokio::spawn(flush.settle(is_stored));
                    }
                }
                _ = flushes.tick() => self.flush(),
                () = &mut stop => break,
            }
            if self.in_flight.is_empty() && self.messages.len() >= FLUSH_MESSAGES {
                self.flush();
            }
        }
        // Messages that have already arrived are included.
        for _ in 0..messages.len() {
            let Ok(message) = messages.try_recv() else { break };
            self.add_message(message);
        }
        let mut last = std::mem::take(&mut self.in_flight);
        last.push_back(self.start_flush());
        self.deliverer.finish().await;
        let ending = async move {
            for mut flush in last {
                let is_stored = flush.receipt.try_recv().is_ok();
                flush.settle(is_stored).await;
            }
            let _ = close.send(());
            if let Err(error) = receiving.await {
                tracing::error!(%error, "receiving ended");
            }
        };
        if tokio::time::timeout(CLOSE_TIMEOUT, ending).await.is_err() {
            tracing::warn!("the broker does not answer: it may send the last messages again");
        }
    }

    fn add_message(&mut self, message: Amqp1Message) {
        match collectd::read(message.bytes.as_deref().unwrap_or_default(), now()) {
            Ok(readings) => readings.into_iter().for_each(|reading| self.add(reading)),
            Err(error) => {
                tracing::debug!(%error, "a message that is not collectd's");
                self.malformed += 1;
            }
        }
        self.messages.push(message.unaccepted);
    }

    fn add(&mut self, reading: CollectdValue) {
        self.measures += 1;
        let metrics = self.gathered.entry(reading.host).or_default();
        metrics.entry(reading.metric).or_default().push(reading.measure);
    }

    /// Flushes the buffer, also while other flushes are in flight: values that the store forbids wait until it has accepted
    /// others. An empty round retries those in flight, or has a store that failed probed.
    fn flush(&mut self) {
        let size = self.measures + self.messages.len();
        let in_flight: usize = self.in_flight.iter().map(|flush| flush.size).sum();
        if size == 0 || in_flight > 0 && in_flight + size > BUFFERED_MAX {
            self.deliverer.send(Vec::new());
        } else {
            let flush = self.start_flush();
            self.in_flight.push_back(flush);
        }
    }

    fn start_flush(&mut self) -> Flush {
        let malformed = std::mem::take(&mut self.malformed);
        if malformed > 0 {
            tracing::warn!(malformed, "dropped: malformed messages");
        }
        let size = std::mem::take(&mut self.measures) + self.messages.len();
        let mut round = Vec::new();
        for (host, metrics) in std::mem::take(&mut self.gathered) {
            // Resource ids hold no slash.
            let resource = format!("{}:{}", self.options.resource_type, host.replace('/', "_"));
            round.extend(metrics.into_iter().map(|(metric, measures)| MetricMeasures {
                resource: resource.clone(),
                attributes: BTreeMap::from([("host".to_owned(), host.clone())]),
                metric,
                measures,
            }));
        }
        Flush {
            messages: std::mem::take(&mut self.messages),
            size,
            receipt: self.deliverer.send_with_receipt(round),
        }
    }
}

fn has_room(measures: usize, messages: usize) -> bool {
    measures + messages < BUFFERED_MAX
}

impl Flush {
    /// Resolves once the values are stored or rejected for good; pending while nothing is in flight.
    async fn is_stored(oldest: Option<&mut Flush>) -> bool {
        match oldest {
            Some(flush) => (&mut flush.receipt).await.is_ok(),
            None => std::future::pending().await,
        }
    }

    /// Accepts the messages, or releases them to the broker.
    async fn settle(self, is_stored: bool) {
        for Unaccepted { delivery, link } in self.messages {
            let settled = if is_stored { link.accept(delivery).await } else { link.release(delivery).await };
            // If the connection is gone the broker has released them already.
            if let Err(error) = settled {
                tracing::debug!(%error, "a message was not settled");
            }
        }
    }
}

/// Receives messages until `closing`; reconnects with backoff.
async fn receive_until(
    options: Amqp1Options,
    messages: mpsc::Sender<Amqp1Message>,
    mut closing: oneshot::Receiver<()>,
) {
    let mut pause = RETRY_MIN;
    let address = &options.address;
    loop {
        let began = Instant::now();
        let mut was_connected = false;
        let error = tokio::select! {
            connected = connect_in_time(&options) => match connected {
                Ok(mut link) => {
                    was_connected = true;
                    tracing::info!(?address, "receiving from the broker");
                    tokio::select! {
                        error = receive(&mut link.receiver, &messages) => error,
                        _ = &mut closing => return link.close().await,
                    }
                }
                Err(error) => error,
            },
            _ = &mut closing => return,
        };
        // An attempt to connect may take as long.
        if was_connected && began.elapsed() >= STABLE {
            pause = RETRY_MIN;
        }
        let pause_ms = pause.as_millis();
        tracing::warn!(?address, error, pause_ms, "not connected to the broker: trying again");
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = &mut closing => return,
        }
        pause = (pause * 2).min(RETRY_MAX);
    }
}

async fn connect_in_time(options: &Amqp1Options) -> Result<ReceivingLink, String> {
    let connecting = tokio::time::timeout(CONNECT_TIMEOUT, connect(options));
    connecting.await.unwrap_or_else(|_| Err("no answer".to_owned()))
}

/// Receives until the connection fails, and returns the reason.
async fn receive(receiver: &mut Receiver, messages: &mpsc::Sender<Amqp1Message>) -> String {
    let link = receiver.disposer();
    loop {
        let delivery = match receiver.recv::<Body<Value>>().await {
            Ok(delivery) => delivery,
            Err(RecvError::MessageDecode(MessageDecodeError { info, source })) => {
                match reject(receiver, info, AmqpError::DecodeError, source.to_string()).await {
                    Ok(()) => continue,
                    Err(error) => return error,
                }
            }
            Err(error) => return error.to_string(),
        };
        let info = DeliveryInfo::from(&delivery);
        let bytes = bytes_of(delivery.into_body());
        let length = bytes.as_ref().map_or(0, Vec::len);
        if length > BODY_BYTES_MAX {
            let reason = format!("a body of {length} bytes, more than {BODY_BYTES_MAX}");
            match reject(receiver, info, LinkError::MessageSizeExceeded, reason).await {
                Ok(()) => continue,
                Err(error) => return error,
            }
        }
        let unaccepted = Unaccepted { delivery: info, link: link.clone() };
        if messages.send(Amqp1Message { bytes, unaccepted }).await.is_err() {
            return "nobody takes messages any more".to_owned();
        }
    }
}

/// Has the broker drop a message, or set it aside: what is released, or under way when the link is closed, comes again.
async fn reject(
    receiver: &Receiver,
    delivery: DeliveryInfo,
    condition: impl Into<ErrorCondition>,
    reason: String,
) -> Result<(), String> {
    tracing::warn!(reason, "a message is rejected");
    let error = definitions::Error::new(condition, Some(reason), None);
    receiver.reject(delivery, error).await.map_err(text)
}

/// A receiving link with its session and connection.
struct ReceivingLink {
    receiver: Receiver,
    session: fe2o3_amqp::session::SessionHandle<()>,
    connection: fe2o3_amqp::connection::ConnectionHandle<()>,
}

impl ReceivingLink {
    /// Closes it after everything queued was sent.
    async fn close(mut self) {
        // The broker may be gone already.
        let _ = self.receiver.close().await;
        let _ = self.session.end().await;
        let _ = self.connection.close().await;
    }
}

fn text(error: impl Display) -> String {
    error.to_string()
}

async fn connect(options: &Amqp1Options) -> Result<ReceivingLink, String> {
    let address = &options.address;
    let stream = TcpStream::connect((address.host.as_str(), address.port)).await.map_err(text)?;
    if !address.is_secure {
        return attach(address, stream).await;
    }
    // Read for each connection: certificates may be renewed while this process runs.
    let TlsOptions { trust, identity } = &options.tls;
    let config = trust.config_as(identity.as_ref()).map_err(text)?;
    let name = ServerName::try_from(address.host.clone()).map_err(text)?;
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(text)?;
    attach(address, stream).await
}

async fn attach<S>(address: &Address, stream: S) -> Result<ReceivingLink, String>
where
    S: AsyncRead + AsyncWrite + Debug + Send + Unpin + 'static,
{
    let profile = match &address.login {
        None => SaslProfile::Anonymous,
        Some((username, password)) => {
            SaslProfile::Plain { username: username.clone(), password: password.clone() }
        }
    };
    let mut connection = Connection::builder()
        .container_id(format!("gnudi-amqpd-{}", std::process::id()))
        .scheme("amqp")
        .hostname(address.host.as_str())
        .sasl_profile(profile)
        .open_with_stream(stream)
        .await
        .map_err(text)?;
    let mut session = Session::begin(&mut connection).await.map_err(text)?;
    let receiver = Receiver::builder()
        .name("gnudi-amqpd")
        .source(address.source.as_str())
        .max_message_size(MESSAGE_BYTES_MAX)
        .credit_mode(CreditMode::Auto(CREDIT))
        .attach(&mut session)
        .await
        .map_err(text)?;
    Ok(ReceivingLink { receiver, session, connection })
}

/// The bytes of a message body, from whichever section holds them.
fn bytes_of(body: Body<Value>) -> Option<Vec<u8>> {
    match body {
        Body::Value(AmqpValue(Value::Binary(bytes))) => Some(bytes.into_vec()),
        Body::Value(AmqpValue(Value::String(text))) => Some(text.into_bytes()),
        Body::Data(sections) => Some(sections.into_iter().flat_map(|section| section.0.into_vec()).collect()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use gnudi_client::ClientOptions;
    use gnudi_model::Timestamp;

    use super::*;
    use crate::test_server::serve;

    /// A server without a broker.
    fn server(endpoint: &str) -> Amqp1Server {
        let options = Amqp1Options {
            address: "127.0.0.1/collectd".parse().unwrap(),
            resource_type: "collectd".to_owned(),
            flush_delay: Duration::from_secs(10),
            tls: TlsOptions::default(),
        };
        Amqp1Server::new(Client::new(endpoint, &ClientOptions::default()).unwrap(), options)
    }

    fn value(host: &str) -> CollectdValue {
        let measure = Measure { timestamp: Timestamp(0), value: 1.0 };
        CollectdValue { host: host.to_owned(), metric: "load".to_owned(), measure }
    }

    #[tokio::test]
    async fn a_host_that_is_forbidden_holds_up_no_other() {
        let endpoint = serve(|_, body| {
            let status = if body.contains("theirs") { "403 Forbidden" } else { "202 Accepted" };
            (status, "")
        });
        let mut server = server(&endpoint.await);
        // Nothing else is in the first flush, and shows that the store accepts anything.
        for host in ["theirs", "ours"] {
            server.add(value(host));
            server.flush();
        }
        for _ in 0..2 {
            let stored = Flush::is_stored(server.in_flight.front_mut());
            let stored = tokio::time::timeout(Duration::from_secs(30), stored).await;
            assert!(stored.expect("both flushes end"));
            server.in_flight.pop_front();
        }
    }

    #[tokio::test]
    async fn no_more_is_flushed_than_may_be_in_flight() {
        // Nobody listens there.
        let mut server = server("http://127.0.0.1:1");
        for flushes in [1, 2, 2] {
            server.measures = BUFFERED_MAX / 2;
            server.flush();
            assert_eq!(server.in_flight.len(), flushes);
        }
    }

    #[test]
    fn messages_without_measures_take_room_too() {
        assert!(has_room(0, 0) && has_room(BUFFERED_MAX - 2, 1));
        assert!(!has_room(BUFFERED_MAX, 0) && !has_room(BUFFERED_MAX - 1, 1));
        assert!(!has_room(0, BUFFERED_MAX));
    }
}

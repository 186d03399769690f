//! The connection, its renewal, and the clock of the flushes.

use std::{collections::BTreeMap, time::Duration};

use fe2o3_amqp::{
    Connection, Receiver, Session,
    link::receiver::CreditMode,
    sasl_profile::SaslProfile,
    types::{
        messaging::{AmqpValue, Body},
        primitives::Value,
    },
};
use gnudi_client::{Client, ResourceTypeSpec, StringAttribute};
use gnudi_model::Measure;
use tokio::{net::TcpStream, sync::mpsc, time::MissedTickBehavior};

use super::{
    address::Address,
    collectd::{self, Reading},
};
use crate::delivery::{Deliverer, Delivery, DeliveryOptions, Item, now};

/// Messages that the broker may send ahead.
const CREDIT: u32 = 200;

/// A longer message closes the link.
const MESSAGE_BYTES_MAX: u64 = 16 << 20;

/// Measures that one flush may hold; what is beyond is counted and dropped.
const MEASURES_MAX: usize = 500_000;

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// From one try to connect to the next: twice as long each time, from the first to the last.
const RETRY_MIN: Duration = Duration::from_millis(500);
const RETRY_MAX: Duration = Duration::from_secs(30);

/// Characters of a host's name.
const HOST_CHARACTERS_MAX: u32 = 255;

#[derive(Clone, Debug)]
pub struct ServerOptions {
    pub address: Address,
    /// The type of the resources; created where there is none.
    pub resource_type: String,
    pub flush_delay: Duration,
}

pub struct Server {
    options: ServerOptions,
    deliverer: Deliverer,
    /// By host and metric.
    gathered: BTreeMap<String, BTreeMap<String, Vec<Measure>>>,
    measures: usize,
    malformed: u64,
    excess: u64,
}

impl Server {
    /// Must be called within a Tokio runtime.
    pub fn new(client: Client, options: ServerOptions) -> Self {
        let host = StringAttribute { required: true, min_length: 0, max_length: HOST_CHARACTERS_MAX };
        let spec = ResourceTypeSpec {
            name: options.resource_type.clone(),
            attributes: BTreeMap::from([("host".to_owned(), host)]),
        };
        let delivery = DeliveryOptions { resource_type: Some(spec), archive_policy_name: None };
        Server {
            options,
            deliverer: Deliverer::start(Delivery::new(client, delivery)),
            gathered: BTreeMap::new(),
            measures: 0,
            malformed: 0,
            excess: 0,
        }
    }

    /// Takes messages until `stop`, then flushes once more.
    pub async fn run(mut self, stop: impl Future<Output = ()>) {
        let mut flushes = tokio::time::interval(self.options.flush_delay);
        flushes.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick is at once.
        flushes.tick().await;
        let (sender, mut messages) = mpsc::channel(CREDIT as usize);
        let receiving = tokio::spawn(receive_for_ever(self.options.address.clone(), sender));
        let mut stop = std::pin::pin!(stop);
        loop {
            tokio::select! {
                Some(message) = messages.recv() => self.take(&message),
                _ = flushes.tick() => self.flush(),
                () = &mut stop => break,
            }
        }
        receiving.abort();
        while let Ok(message) = messages.try_recv() {
            self.take(&message);
        }
        self.flush();
        self.deliverer.finish().await;
    }

    fn take(&mut self, message: &[u8]) {
        match collectd::read(message, now()) {
            Ok(readings) => readings.into_iter().for_each(|reading| self.add(reading)),
            Err(error) => {
                tracing::debug!(%error, "a message that is not collectd's");
                self.malformed += 1;
            }
        }
    }

    fn add(&mut self, reading: Reading) {
        if self.measures >= MEASURES_MAX {
            self.excess += 1;
            return;
        }
        self.measures += 1;
        let metrics = self.gathered.entry(reading.host).or_default();
        metrics.entry(reading.metric).or_default().push(reading.measure);
    }

    fn flush(&mut self) {
        let (malformed, excess) = (std::mem::take(&mut self.malformed), std::mem::take(&mut self.excess));
        if malformed > 0 || excess > 0 {
            tracing::warn!(
                malformed,
                excess,
                "dropped: malformed messages, values beyond what a flush holds"
            );
        }
        self.measures = 0;
        let mut round = Vec::new();
        for (host, metrics) in std::mem::take(&mut self.gathered) {
            // No id of a resource may hold a slash.
            let resource = format!("{}:{}", self.options.resource_type, host.replace('/', "_"));
            round.extend(metrics.into_iter().map(|(metric, measures)| Item {
                resource: resource.clone(),
                attributes: BTreeMap::from([("host".to_owned(), host.clone())]),
                metric,
                measures,
            }));
        }
        self.deliverer.send(round);
    }
}

/// Receives messages; where the connection fails, connects again after a while.
async fn receive_for_ever(address: Address, messages: mpsc::Sender<Vec<u8>>) {
    let mut pause = RETRY_MIN;
    loop {
        let received = receive(&address, &messages, &mut pause).await;
        if messages.is_closed() {
            return;
        }
        let error = received.expect_err("it goes on until it fails");
        let pause_ms = pause.as_millis();
        tracing::warn!(?address, error, pause_ms, "not connected to the broker: trying again");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(RETRY_MAX);
    }
}

/// Receives until the connection fails, and says why; once it stands, the next pause is a short one again.
async fn receive(
    address: &Address,
    messages: &mpsc::Sender<Vec<u8>>,
    pause: &mut Duration,
) -> Result<(), String> {
    let connecting = tokio::time::timeout(CONNECT_TIMEOUT, connect(address));
    let mut link = connecting.await.map_err(|_| "no answer".to_owned())??;
    tracing::info!(?address, "receiving from the broker");
    *pause = RETRY_MIN;
    loop {
        let delivery = link.receiver.recv::<Body<Value>>().await.map_err(|error| error.to_string())?;
        let Some(bytes) = bytes_of(delivery.into_body()) else { continue };
        if messages.send(bytes).await.is_err() {
            return Ok(());
        }
    }
}

/// A receiving link, with what it lives in.
struct Link {
    receiver: Receiver,
    _session: fe2o3_amqp::session::SessionHandle<()>,
    _connection: fe2o3_amqp::connection::ConnectionHandle<()>,
}

async fn connect(address: &Address) -> Result<Link, String> {
    fn text(error: impl std::fmt::Display) -> String {
        error.to_string()
    }
    let stream = TcpStream::connect((address.host.as_str(), address.port)).await.map_err(text)?;
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
        .auto_accept(true)
        .attach(&mut session)
        .await
        .map_err(text)?;
    Ok(Link { receiver, _session: session, _connection: connection })
}

/// The bytes of a message's body, whatever section they are in.
fn bytes_of(body: Body<Value>) -> Option<Vec<u8>> {
    match body {
        Body::Value(AmqpValue(Value::Binary(bytes))) => Some(bytes.into_vec()),
        Body::Value(AmqpValue(Value::String(text))) => Some(text.into_bytes()),
        Body::Data(sections) => Some(sections.into_iter().flat_map(|section| section.0.into_vec()).collect()),
        _ => None,
    }
}

//! Declares exchanges, queues and bindings as oslo.messaging does; accepts existing ones with other properties.

use lapin::{
    Channel, Connection, ErrorKind, ExchangeKind,
    options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions},
    types::{AMQPValue, FieldTable},
};

use super::{MessagingError, Result, connection::error};

/// AMQP reply code: exists with other properties.
const PRECONDITION_FAILED: u16 = 406;

/// Limits of quorum queues; 0 leaves the value to the broker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuorumOptions {
    pub delivery_limit: u32,
    pub memory_length_max: u32,
    pub memory_bytes_max: u32,
}

/// Properties of exchanges and queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueOptions {
    pub durable: bool,
    pub auto_delete: bool,
    /// Quorum queues; they are always durable.
    pub quorum: Option<QuorumOptions>,
}

impl QueueOptions {
    fn is_durable(self) -> bool {
        self.durable || self.quorum.is_some()
    }

    fn arguments(self) -> FieldTable {
        let mut arguments = FieldTable::default();
        let Some(quorum) = self.quorum else { return arguments };
        arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
        for (name, number) in [
            ("x-delivery-limit", quorum.delivery_limit),
            ("x-max-in-memory-length", quorum.memory_length_max),
            ("x-max-in-memory-bytes", quorum.memory_bytes_max),
        ] {
            if number > 0 {
                arguments.insert(name.into(), AMQPValue::LongUInt(number));
            }
        }
        arguments
    }
}

/// The variants of a declaration, tried in order until the broker accepts one.
#[derive(Clone, Copy, Debug)]
enum Variant {
    AsWanted,
    NotDurable,
    /// Accept it as it exists.
    Passive,
}

impl Variant {
    /// Which variant succeeded, for the log; `None`: the requested one.
    fn description(self) -> Option<&'static str> {
        match self {
            Variant::AsWanted => None,
            Variant::NotDurable => Some("as one that does not outlive a restart of the broker"),
            Variant::Passive => Some("as it is"),
        }
    }
}

/// Declares on a channel, which is reopened when the broker closes it to refuse.
pub(super) struct Declarer<'a> {
    connection: &'a Connection,
    channel: Channel,
    options: QueueOptions,
}

impl<'a> Declarer<'a> {
    pub async fn new(connection: &'a Connection, options: QueueOptions) -> Result<Self> {
        let channel = connection.create_channel().await.map_err(error)?;
        Ok(Declarer { connection, channel, options })
    }

    /// A topic exchange.
    pub async fn exchange(&mut self, name: &str) -> Result<()> {
        let wanted = self.options;
        let declare = |channel: Channel, variant: Variant| async move {
            let options = ExchangeDeclareOptions {
                passive: matches!(variant, Variant::Passive),
                durable: wanted.is_durable() && !matches!(variant, Variant::NotDurable),
                auto_delete: wanted.auto_delete,
                ..ExchangeDeclareOptions::default()
            };
            channel.exchange_declare(name.into(), ExchangeKind::Topic, options, FieldTable::default()).await
        };
        self.declare("exchange", name, declare).await
    }

    pub async fn queue(&mut self, name: &str) -> Result<()> {
        self.queue_of(name, self.options).await
    }

    pub async fn queue_of(&mut self, name: &str, wanted: QueueOptions) -> Result<()> {
        let declare = |channel: Channel, variant: Variant| async move {
            let options = QueueDeclareOptions {
                passive: matches!(variant, Variant::Passive),
                durable: wanted.is_durable() && !matches!(variant, Variant::NotDurable),
                auto_delete: wanted.auto_delete,
                ..QueueDeclareOptions::default()
            };
            let arguments = match variant {
                Variant::AsWanted => wanted.arguments(),
                Variant::NotDurable | Variant::Passive => FieldTable::default(),
            };
            channel.queue_declare(name.into(), options, arguments).await.map(drop)
        };
        self.declare("queue", name, declare).await
    }

    pub async fn bind(&self, queue: &str, exchange: &str, routing_key: &str) -> Result<()> {
        let (options, arguments) = (QueueBindOptions::default(), FieldTable::default());
        let bound =
            self.channel.queue_bind(queue.into(), exchange.into(), routing_key.into(), options, arguments);
        bound.await.map_err(error)
    }

    /// The channel, for further use.
    pub fn into_channel(self) -> Channel {
        self.channel
    }

    /// Tries the variants of a declaration, after each refusal on a new channel.
    async fn declare<F: Future<Output = Result<(), lapin::Error>>>(
        &mut self,
        what: &str,
        name: &str,
        declare: impl Fn(Channel, Variant) -> F,
    ) -> Result<()> {
        for variant in [Variant::AsWanted, Variant::NotDurable, Variant::Passive] {
            let Err(failure) = declare(self.channel.clone(), variant).await else {
                if let Some(taken) = variant.description() {
                    tracing::info!(what, name, taken, "exists with other properties");
                }
                return Ok(());
            };
            let is_other = matches!(failure.kind(), ErrorKind::ProtocolError(reason) if reason.get_id() == PRECONDITION_FAILED);
            if !is_other {
                return Err(MessagingError(format!("{what} {name}: {failure}")));
            }
            tracing::debug!(what, name, way = ?variant, %failure, "declared with other properties by another program");
            self.channel = self.connection.create_channel().await.map_err(error)?;
        }
        Err(MessagingError(format!("{what} {name} exists with other properties")))
    }
}

/// Whether the broker can be told this name.
pub(super) fn check_name(name: &str) -> Result<()> {
    const NAME_BYTES_MAX: usize = 255;
    if name.len() > NAME_BYTES_MAX {
        return Err(MessagingError(format!(
            "a name of {} bytes; at most {NAME_BYTES_MAX} are possible",
            name.len()
        )));
    }
    Ok(())
}

//! The notifier publisher's bus: sends notifications as oslo.messaging does, over an [`Outbox`].

use std::{collections::HashMap, sync::Arc};

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::{Bus, BusOpener, OpenError};
use crate::{
    messaging::{
        AmqpOutbox, BrokerOptions, Outbox, Outgoing, TransportUrl,
        envelope::{OsloMessage, Version, seal},
    },
    time::naive_text,
};

/// Options of notifications.
#[derive(Clone, Debug)]
pub struct BusOptions {
    /// `[DEFAULT] control_exchange`: `ceilometer`.
    pub exchange: String,
    /// `[publisher_notifier] telemetry_driver`: `messagingv2` or `messaging`.
    pub version: Version,
    /// Part of the publisher's id.
    pub host: String,
}

struct OutboxBus {
    outbox: Arc<dyn Outbox>,
    options: BusOptions,
}

/// Connects to the agent's own broker, and to brokers named by URLs; one connection to each.
pub fn bus_opener(broker: BrokerOptions, options: BusOptions) -> BusOpener {
    let open: Mutex<HashMap<Option<String>, Arc<dyn Bus>>> = Mutex::default();
    Arc::new(move |transport| {
        let mut open = open.lock();
        if let Some(bus) = open.get(&transport.map(str::to_owned)) {
            return Ok(bus.clone());
        }
        let mut broker = broker.clone();
        if let Some(text) = transport {
            let url: TransportUrl = text.parse().map_err(|error| OpenError(format!("{error}")))?;
            broker.tls = url.is_secure.then(|| broker.tls.unwrap_or_default());
            broker.url = url;
        }
        let outbox = Arc::new(AmqpOutbox::new(broker));
        let bus: Arc<dyn Bus> = Arc::new(OutboxBus { outbox, options: options.clone() });
        open.insert(transport.map(str::to_owned), bus.clone());
        Ok(bus)
    })
}

#[async_trait]
impl Bus for OutboxBus {
    async fn notify(&self, id: Uuid, topic: &str, event_type: &str, payload: &str) -> Result<(), String> {
        let payload: &RawValue = serde_json::from_str(payload).map_err(|error| error.to_string())?;
        let body = seal(
            &OsloMessage {
                request_id: None,
                message_id: &id.to_string(),
                publisher_id: &format!("telemetry.publisher.{}", self.options.host),
                event_type,
                priority: "SAMPLE",
                payload,
                timestamp: &now(),
                unique_id: &id.simple().to_string(),
            },
            self.options.version,
        );
        let message = Outgoing {
            exchange: self.options.exchange.clone(),
            routing_key: format!("{topic}.sample"),
            body: body.into(),
            ..Outgoing::default()
        };
        self.outbox.try_publish(&message).await.map_err(|error| error.to_string())
    }
}

/// Always with a fraction.
fn now() -> String {
    let text = naive_text(crate::time::now());
    if text.contains('.') { text } else { format!("{text}.000000") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messaging::MessagingError;

    #[derive(Default)]
    struct Seen(Mutex<Vec<Outgoing>>);

    #[async_trait]
    impl Outbox for Seen {
        async fn publish(&self, message: &Outgoing) -> Result<(), MessagingError> {
            self.try_publish(message).await
        }

        async fn try_publish(&self, message: &Outgoing) -> Result<(), MessagingError> {
            self.0.lock().push(message.clone());
            Ok(())
        }
    }

    #[tokio::test]
    async fn notifications_are_oslos() {
        let outbox = Arc::new(Seen::default());
        let options =
            BusOptions { exchange: "ceilometer".to_owned(), version: Version::Bare, host: "h".to_owned() };
        let bus = OutboxBus { outbox: outbox.clone(), options };
        let id = Uuid::from_u128(7);
        bus.notify(id, "metering", "metering.cpu", "[1]").await.unwrap();
        let message = outbox.0.lock()[0].clone();
        assert_eq!(
            (message.exchange.as_str(), message.routing_key.as_str()),
            ("ceilometer", "metering.sample")
        );
        let body: serde_json::Value = serde_json::from_slice(&message.body).unwrap();
        assert_eq!(body["publisher_id"], "telemetry.publisher.h");
        assert_eq!((&body["priority"], &body["payload"][0]), (&"SAMPLE".into(), &1.into()));
        assert_eq!(body["message_id"], id.to_string());
        assert_eq!(body["_unique_id"], "00000000000000000000000000000007");
        assert_eq!(body["timestamp"].as_str().unwrap().len(), "2026-01-02 03:04:05.000006".len());
    }
}

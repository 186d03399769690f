//! A store that loses an acknowledgement, as Redis may in a failover: a later pass repeats it.

mod support;

use std::{sync::Arc, time::Duration};

use gnudi_drivers::{
    aggregates::memory::MemoryAggregates,
    incoming::{Append as _, Consume as _, Position, Positions, Topology as _},
};
use gnudi_engine::{Engine, Metricd, MetricdOptions};
use gnudi_model::{Sack, Timestamp};
use parking_lot::Mutex;
use support::{
    batch,
    incoming::{Tap, TappedIncoming},
    indexer, metric, options,
    wait::until,
};

/// The sack without its acknowledgements.
#[derive(Default)]
struct Forgetful(Mutex<Option<Sack>>);

impl Tap for Forgetful {
    fn acknowledging(&self, sack: Sack) {
        self.0.lock().take_if(|lost| *lost == sack);
    }

    fn positions(&self, sacks: &[Sack], found: &mut [Positions]) {
        let lost = *self.0.lock();
        for (_, positions) in sacks.iter().zip(found).filter(|(sack, _)| lost == Some(**sack)) {
            positions.acknowledged = Position(0);
        }
    }
}

/// No later record of the sack brings another acknowledgement. An old sack of a split has counted as drained before.
#[tokio::test]
async fn a_lost_acknowledgement_is_repeated() {
    for splits in [false, true] {
        let incoming = TappedIncoming::new(1, Forgetful::default());
        let store = Arc::new(MemoryAggregates::default());
        let indexer = indexer(1, "low").await;
        let engine = Arc::new(Engine::new(indexer, incoming.clone(), store, || Timestamp::EPOCH));
        let options = MetricdOptions {
            greedy: false,
            processing_delay: Duration::from_millis(2),
            ..options("test", Duration::from_hours(1))
        };
        let metricd = Metricd::start(engine.clone(), &options);
        engine.append(batch(0..1, 0)).await.unwrap();
        let sack = Sack::of(metric(0), incoming.numbering().count);
        if splits {
            incoming.driver.split().await.unwrap();
            engine.append(batch(0..1, 60)).await.unwrap();
        }
        until("nothing waits", async || incoming.backlog().await.unwrap().measures == 0).await;
        *incoming.tap.0.lock() = Some(sack);
        until("another acknowledgement", async || incoming.tap.0.lock().is_none()).await;
        metricd.stop().await;
    }
}

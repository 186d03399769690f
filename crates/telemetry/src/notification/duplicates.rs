//! Detects duplicates: an unsure sender sends again, and a broker delivers again what a broken connection has left
//! unacknowledged, even while it is being published.

use std::collections::{HashMap, VecDeque};

use tokio::sync::watch;

/// As many acknowledged messages as oslo.messaging keeps.
const REMEMBERED: usize = 16;

/// The minimum number of deliveries at which those that have ended are removed.
const SWEEP_MIN: usize = 1024;

/// Ids of messages that are being published, and at least of the last 16 that were acknowledged.
#[derive(Debug, Default)]
pub struct Duplicates {
    acknowledged: VecDeque<String>,
    /// By id, whether it was published; closed once the delivery has ended.
    deliveries: HashMap<String, watch::Receiver<bool>>,
    sweep_at: usize,
}

/// What a delivery of a message has to do.
pub enum Turn {
    /// Publish it, and call [`Duplicates::acknowledged`]; dropped before, it leaves the turn to the next delivery.
    Ours(watch::Sender<bool>),
    /// Wait until another delivery was published (`true`) or has failed (closed).
    Later(watch::Receiver<bool>),
    /// Nothing: it is a duplicate.
    Never,
}

impl Duplicates {
    pub fn turn(&mut self, id: &str) -> Turn {
        let other = self.deliveries.get(id);
        if other.is_some_and(|other| *other.borrow()) || self.acknowledged.iter().any(|known| known == id) {
            return Turn::Never;
        }
        if let Some(other) = other.filter(|other| is_pending(other)) {
            return Turn::Later(other.clone());
        }
        if self.deliveries.len() >= self.sweep_at {
            self.deliveries.retain(|_, delivery| is_pending(delivery));
            self.sweep_at = SWEEP_MIN.max(2 * self.deliveries.len());
        }
        let (ours, others) = watch::channel(false);
        self.deliveries.insert(id.to_owned(), others);
        Turn::Ours(ours)
    }

    /// The message was published: all its other deliveries are duplicates.
    pub fn acknowledged(&mut self, id: String, turn: &watch::Sender<bool>) {
        if self.acknowledged.len() >= REMEMBERED {
            self.acknowledged.pop_front();
        }
        self.acknowledged.push_back(id);
        turn.send_replace(true);
    }
}

fn is_pending(delivery: &watch::Receiver<bool>) -> bool {
    !*delivery.borrow() && delivery.has_changed().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn publish(duplicates: &mut Duplicates, number: usize) {
        let id = number.to_string();
        let Turn::Ours(turn) = duplicates.turn(&id) else { panic!("{id} is known") };
        duplicates.acknowledged(id, &turn);
    }

    #[test]
    fn the_last_sixteen_are_known_and_the_others_forgotten_some_time() {
        let mut duplicates = Duplicates::default();
        for number in 0..=SWEEP_MIN {
            publish(&mut duplicates, number);
        }
        assert_eq!(duplicates.deliveries.len(), 1);
        for number in SWEEP_MIN - 15..=SWEEP_MIN {
            assert!(matches!(duplicates.turn(&number.to_string()), Turn::Never), "{number}");
        }
        publish(&mut duplicates, 0);
    }

    #[tokio::test]
    async fn a_delivery_waits_for_another_one() {
        let mut duplicates = Duplicates::default();
        let Turn::Ours(first) = duplicates.turn("a") else { panic!("it is new") };
        let Turn::Later(mut end) = duplicates.turn("a") else { panic!("it is being published") };
        drop(first);
        assert!(end.wait_for(|published| *published).await.is_err());
        let Turn::Ours(second) = duplicates.turn("a") else { panic!("the first has failed") };
        let Turn::Later(mut end) = duplicates.turn("a") else { panic!("it is being published") };
        duplicates.acknowledged("a".to_owned(), &second);
        drop(second);
        assert!(end.wait_for(|published| *published).await.is_ok());
    }
}

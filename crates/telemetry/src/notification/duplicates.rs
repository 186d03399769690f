//! Detects duplicates: an unsure sender sends again, and a broker delivers again what a broken connection has left
//! unacknowledged, even while it is being published.

use std::collections::{HashMap, VecDeque};

use tokio::sync::watch;

/// Published messages that are known again. oslo.messaging knows 16, and takes one at a time. A lost connection loses the
/// acknowledgements under way, of hundreds of messages.
const REMEMBERED: usize = 1024;

/// Ids of messages that are being published, and of the last ones that were.
#[derive(Debug, Default)]
pub struct Duplicates {
    /// Oldest first.
    published: VecDeque<String>,
    /// By id, whether it was published; closed once the delivery has ended.
    deliveries: HashMap<String, watch::Receiver<bool>>,
    /// The number of deliveries at which those that have failed are removed.
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
        match self.deliveries.get(id) {
            Some(other) if *other.borrow() => return Turn::Never,
            Some(other) if !has_failed(other) => return Turn::Later(other.clone()),
            _ => {}
        }
        if self.deliveries.len() >= self.sweep_at {
            self.deliveries.retain(|_, delivery| !has_failed(delivery));
            self.sweep_at = REMEMBERED.max(2 * self.deliveries.len());
        }
        let (ours, others) = watch::channel(false);
        self.deliveries.insert(id.to_owned(), others);
        Turn::Ours(ours)
    }

    /// The message was published: all its other deliveries are duplicates.
    pub fn acknowledged(&mut self, id: String, turn: &watch::Sender<bool>) {
        if self.published.len() >= REMEMBERED
            && let Some(oldest) = self.published.pop_front()
        {
            self.deliveries.remove(&oldest);
        }
        self.published.push_back(id);
        turn.send_replace(true);
    }
}

fn has_failed(delivery: &watch::Receiver<bool>) -> bool {
    !*delivery.borrow() && delivery.has_changed().is_err()
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
    fn the_last_ones_are_known_and_older_ones_forgotten() {
        let mut duplicates = Duplicates::default();
        for number in 0..=REMEMBERED {
            publish(&mut duplicates, number);
        }
        // Those that fail are forgotten, too.
        for number in 0..5 * REMEMBERED {
            assert!(matches!(duplicates.turn(&format!("failed {number}")), Turn::Ours(_)), "{number}");
            assert!(duplicates.deliveries.len() <= 2 * REMEMBERED);
        }
        for number in 1..=REMEMBERED {
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

//! The rules of [`LogRegistry`].

use std::sync::Arc;

use futures_util::future::join_all;
use gnudi_model::SackCount;
use uuid::Uuid;

use crate::incoming::{
    Position,
    registry::{LogRegistry, RegisteredLog},
};

fn log(generation: u64, identity: u128) -> RegisteredLog {
    RegisteredLog {
        generation,
        identity: Uuid::from_u128(identity),
        place: "bucket ä 'quoted'".to_owned(),
        sacks: SackCount::DEFAULT,
        first: Position(1 << 60),
        floor: Position(1 << 60 | 5),
        reached: Position(0),
    }
}

/// `processes` are two processes' clients of an empty registry.
pub async fn log_registry<R: LogRegistry>(processes: [Arc<R>; 2]) {
    let [one, other] = &processes;
    assert_eq!(one.newest_log().await.unwrap(), None);
    // Of several concurrent registrations of a generation one succeeds, and all see which.
    let offered: Vec<RegisteredLog> = (0..6).map(|number| log(1, number)).collect();
    let registered =
        offered.iter().zip(processes.iter().cycle()).map(|(log, process)| process.register_log(log));
    join_all(registered).await.into_iter().for_each(|registered| registered.unwrap());
    let first = one.newest_log().await.unwrap().expect("one is registered");
    assert!(offered.contains(&first));
    assert_eq!(other.newest_log().await.unwrap().as_ref(), Some(&first));
    // Figures grow; nothing else changes.
    let doubled = SackCount::DEFAULT.doubled().expect("there can be more");
    for (reached, floor, sacks) in [
        (Position(7), Position(1 << 60 | 9), SackCount::DEFAULT),
        (Position(3), Position(4), doubled),
        (Position(0), Position(0), SackCount::DEFAULT),
    ] {
        assert!(other.raise_log(&RegisteredLog { sacks, floor, reached, ..first.clone() }).await.unwrap());
    }
    let raised =
        RegisteredLog { reached: Position(7), floor: Position(1 << 60 | 9), sacks: doubled, ..first };
    assert_eq!(one.newest_log().await.unwrap().as_ref(), Some(&raised));
    // A log with a successor no longer changes.
    let next = raised.successor(Uuid::from_u128(99), "elsewhere".to_owned());
    assert!(next.first >= raised.floor);
    one.register_log(&next).await.unwrap();
    let late = RegisteredLog { reached: Position(u64::MAX >> 2), ..raised };
    assert!(!other.raise_log(&late).await.unwrap());
    assert_eq!(other.newest_log().await.unwrap().as_ref(), Some(&next));
    one.register_log(&log(1, 7)).await.unwrap();
    assert_eq!(other.newest_log().await.unwrap(), Some(next));
}

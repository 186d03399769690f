//! Responses in groups, with limited memory.
//!
//! All groups are computed before the response begins, since an error in any of them decides the status. The
//! first ones are kept, up to [`HELD_BYTES_MAX`]; the others are computed again when the client gets there.
//! So a short response is computed once, a long one up to twice, and the memory is bounded by this limit and
//! one group.

use std::{future::ready, io, sync::Arc, time::Duration};

use futures_util::{StreamExt as _, future::Either, stream};
use gnudi_app::{AnswerBudget, Call, Result};
use gnudi_engine::{CrossMeasuresError, Engine, Project, cross::POINTS_MAX};
use gnudi_server::ReplyBody;

use super::document::Document;

/// The maximum size of the groups kept from the first computation: a million points.
const HELD_BYTES_MAX: usize = 16 << 20;

/// How long a group waits for the budget. Clients that do not read are disconnected after the same time.
const ROOM_WAIT_MAX: Duration = Duration::from_secs(30);

/// A group's part of the response.
pub(crate) trait GroupPart: Send + Sync + 'static {
    /// Computes the group and appends its part; computes again on each call.
    fn write(&self, engine: &Engine, document: &mut Document) -> impl Future<Output = Result<()>> + Send;

    /// The number of series that it reads.
    fn series(&self) -> usize;
}

/// The approximate memory of a series that is not read yet.
const SERIES_BYTES: usize = 512;

/// A group to be computed again.
struct Later<G> {
    group: G,
    separator: &'static str,
    /// The budget that its points need.
    bytes: usize,
}

/// The list of all groups.
pub(crate) struct Groups<G> {
    engine: Arc<Engine>,
    budget: AnswerBudget,
    held: Document,
    held_bytes: usize,
    held_bytes_max: usize,
    later: Vec<Later<G>>,
    /// The closing bracket; also holds the reservation for `later`.
    end: Document,
    room_wait_max: Duration,
    rows: usize,
    is_empty: bool,
}

impl<G: GroupPart> Groups<G> {
    pub fn new(call: &Call<'_>) -> Self {
        Groups::holding(call.app.shared_engine(), &call.answers(), HELD_BYTES_MAX, ROOM_WAIT_MAX)
    }

    fn holding(
        engine: Arc<Engine>,
        budget: &AnswerBudget,
        held_bytes_max: usize,
        room_wait_max: Duration,
    ) -> Self {
        let (mut held, mut end) = (Document::new(budget), Document::new(budget));
        held.text("[");
        end.text("]");
        Groups {
            engine,
            budget: budget.clone(),
            held,
            held_bytes: 0,
            held_bytes_max,
            later: Vec::new(),
            end,
            room_wait_max,
            rows: 0,
            is_empty: true,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// Computes and appends a group.
    ///
    /// # Errors
    /// Those of the group; 413 if all groups have more than [`POINTS_MAX`] points, 503 if the budget of all
    /// responses is exhausted.
    pub async fn add(&mut self, group: G) -> Result<()> {
        let separator = if self.is_empty { "" } else { ", " };
        self.is_empty = false;
        let mut part = Document::new(&self.budget);
        part.text(separator);
        group.write(&self.engine, &mut part).await?;
        self.rows += part.row_count();
        if self.rows > POINTS_MAX {
            return Err(CrossMeasuresError::TooManyPoints.into());
        }
        let bytes = part.bytes();
        if self.later.is_empty() && self.held_bytes + bytes <= self.held_bytes_max {
            self.held.append(part);
            self.held_bytes += bytes;
        } else {
            self.end.hold(group.series() * SERIES_BYTES)?;
            self.later.push(Later { group, separator, bytes: part.bytes_of_budget() });
        }
        Ok(())
    }

    pub fn into_body(self) -> ReplyBody {
        let Groups { engine, budget, mut held, later, end, room_wait_max, .. } = self;
        if later.is_empty() {
            held.text("]");
            return held.into_body();
        }
        let project = Project::current();
        let computed = stream::iter(later)
            .then(move |later| project.run(compute(later, engine.clone(), budget.clone(), room_wait_max)));
        let parts = stream::once(ready(Ok(held))).chain(computed).chain(stream::once(ready(Ok(end))));
        ReplyBody::stream(parts.flat_map(|part: io::Result<Document>| match part {
            Ok(document) => Either::Left(stream::iter(document.map(Ok))),
            Err(error) => Either::Right(stream::once(ready(Err(error)))),
        }))
    }
}

/// Computes a group again.
///
/// # Errors
/// Any failure: the status is already sent, so the connection is closed in the middle of the response.
async fn compute<G: GroupPart>(
    later: Later<G>,
    engine: Arc<Engine>,
    budget: AnswerBudget,
    room_wait_max: Duration,
) -> io::Result<Document> {
    let cut_short = |reason: String| {
        tracing::warn!(reason, "a response was truncated: a group could not be computed again");
        io::Error::other(reason)
    };
    let room = tokio::time::timeout(room_wait_max, Document::with_room(&budget, later.bytes));
    let mut document =
        room.await.map_err(|_| cut_short("timeout: clients do not read other large responses".to_owned()))?;
    document.text(later.separator);
    match later.group.write(&engine, &mut document).await {
        Ok(()) => {
            document.fill_room();
            Ok(document)
        }
        Err(error) => Err(cut_short(error.detail.repr())),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bytes::Bytes;
    use futures_util::FutureExt as _;
    use gnudi_app::ApiError;
    use gnudi_drivers::{aggregates::memory::MemoryAggregates, incoming::memory::MemoryIncoming};
    use gnudi_engine::Resample;
    use gnudi_indexer::memory::MemoryIndexer;
    use gnudi_model::{SackCount, Timespan, Timestamp};
    use http_body_util::BodyExt as _;

    use super::*;
    use crate::measures::write::Column;
    use gnudi_app::json::Value;

    const ROW_BYTES: usize = 16;

    /// A group with this number of points, which may fail on the second computation.
    struct Points {
        rows: usize,
        computed: Arc<AtomicUsize>,
        fails_again: bool,
    }

    impl GroupPart for Points {
        async fn write(&self, _: &Engine, document: &mut Document) -> Result<()> {
            let before = self.computed.fetch_add(1, Ordering::Relaxed);
            if self.fails_again && before > 0 {
                return Err(ApiError::unavailable("gone"));
            }
            document.value(&Value::from(self.rows.to_string()));
            let timestamps = Arc::new(vec![Timestamp::EPOCH; self.rows]);
            let granularity = Resample::Span(Timespan::from_secs(1));
            document.rows(vec![Column::new(granularity, timestamps, vec![0.5; self.rows])])
        }

        fn series(&self) -> usize {
            0
        }
    }

    fn engine() -> Arc<Engine> {
        let incoming = Arc::new(MemoryIncoming::new(SackCount::DEFAULT, 1 << 20));
        let store = Arc::new(MemoryAggregates::default());
        Arc::new(Engine::new(Arc::new(MemoryIndexer::default()), incoming, store, || Timestamp::EPOCH))
    }

    /// The body of groups with these numbers of points, and how often each was computed.
    async fn groups(
        budget: &AnswerBudget,
        held_bytes_max: usize,
        rows: &[usize],
        fails_again: bool,
    ) -> (ReplyBody, Vec<Arc<AtomicUsize>>) {
        let mut groups = Groups::holding(engine(), budget, held_bytes_max, Duration::from_millis(100));
        let counts: Vec<Arc<AtomicUsize>> = rows.iter().map(|_| Arc::default()).collect();
        for (&rows, computed) in rows.iter().zip(&counts) {
            groups.add(Points { rows, computed: computed.clone(), fails_again }).await.unwrap();
        }
        (groups.into_body(), counts)
    }

    fn counts(counts: &[Arc<AtomicUsize>]) -> Vec<usize> {
        counts.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }

    fn budget() -> AnswerBudget {
        AnswerBudget::new(usize::MAX)
    }

    async fn whole(body: ReplyBody) -> Bytes {
        body.collect().await.unwrap().to_bytes()
    }

    #[tokio::test]
    async fn what_is_computed_later_is_the_same() {
        let rows = [3, 0, 6_000, 1, 9_000];
        let (held, once) = groups(&budget(), usize::MAX, &rows, false).await;
        let expected = whole(held).await;
        assert_eq!(counts(&once), [1; 5]);
        for held_bytes_max in [0, 200, 100_000] {
            let budget = budget();
            let (body, computed) = groups(&budget, held_bytes_max, &rows, false).await;
            assert_eq!(counts(&computed), [1; 5], "nothing is computed again before it is read");
            assert_eq!(whole(body).await, expected, "{held_bytes_max}");
            assert!(counts(&computed).contains(&2) && budget.held() == 0);
        }
    }

    #[tokio::test]
    async fn an_answer_that_is_not_read_holds_a_bounded_part() {
        let budget = budget();
        let rows = [1_000; 100];
        let (mut body, computed) = groups(&budget, 5 * 1_100 * ROW_BYTES, &rows, false).await;
        let held = budget.held();
        assert!(held <= 5 * 1_000 * ROW_BYTES, "{held}");
        for _ in 0..20 {
            body.frame().await.unwrap().unwrap();
            assert!(budget.held() <= held);
        }
        assert!(counts(&computed).iter().filter(|count| **count == 2).count() < 50);
        drop(body);
        assert_eq!(budget.held(), 0);
    }

    #[tokio::test]
    async fn what_fails_later_ends_the_answer_in_its_middle() {
        let (body, _) = groups(&budget(), 0, &[10, 10], true).await;
        let error = body.collect().await.unwrap_err();
        assert!(error.to_string().contains("gone"));
    }

    #[tokio::test]
    async fn a_group_waits_for_room_and_not_for_ever() {
        let budget = AnswerBudget::new(1_000 * ROW_BYTES);
        let (mut body, _) = groups(&budget, 0, &[600, 600], false).await;
        let mut other = Document::with_room(&budget, 500 * ROW_BYTES).await;
        // The opening bracket.
        body.frame().await.unwrap().unwrap();
        assert!(body.frame().now_or_never().is_none());
        other.fill_room();
        assert!(body.frame().await.unwrap().is_ok());
        let _other = Document::with_room(&budget, 500 * ROW_BYTES).await;
        let error = body.frame().await.unwrap().unwrap_err();
        assert!(error.to_string().contains("not read"));
    }
}

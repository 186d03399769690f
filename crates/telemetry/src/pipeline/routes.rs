//! Routes names to the pipelines of one kind, with a cache.

use std::{collections::HashMap, sync::Arc};

use parking_lot::RwLock;

use super::{PipelineError, PipelineFile, Selection};
use crate::publishers::{Opened, Publisher, Receipt};

/// Maximum number of cached names; further ones are matched each time.
const NAMES_MAX: usize = 10_000;

/// For each pipeline, whether it accepts a name.
type Acceptors = Arc<[bool]>;

#[derive(Default)]
pub struct Routes {
    pipelines: Vec<Pipeline>,
    /// The pipelines that accept a name.
    cached: RwLock<HashMap<Box<str>, Acceptors>>,
}

struct Pipeline {
    selection: Selection,
    publishers: Vec<Arc<dyn Publisher>>,
}

/// The result of publishing a batch.
pub struct Routed {
    pub receipt: Receipt,
    /// Number of items that no pipeline accepts.
    pub unrouted: usize,
}

impl Routes {
    /// Opens each URL once.
    ///
    /// # Errors
    /// A sink that a source uses has no publisher that can be opened.
    pub fn new(
        file: &PipelineFile,
        open: &mut dyn FnMut(&str) -> Opened,
        left_out: &mut Vec<String>,
    ) -> Result<Self, PipelineError> {
        let mut opened: HashMap<&str, Opened> = HashMap::new();
        for sink in &file.sinks {
            for url in &sink.publishers {
                opened.entry(url).or_insert_with(|| {
                    open(url).inspect_err(|error| {
                        left_out.push(format!("sink {}: a publisher is skipped: {error}", sink.name));
                    })
                });
            }
        }
        file.check_sinks(|url| opened[url].as_ref().err().map(ToString::to_string))?;
        let pipelines = file.pipelines().map(|(_, source, sink)| Pipeline {
            selection: source.selection.clone(),
            publishers: sink.publishers.iter().filter_map(|url| opened[url.as_str()].clone().ok()).collect(),
        });
        Ok(Routes { pipelines: pipelines.collect(), cached: RwLock::default() })
    }

    pub fn is_empty(&self) -> bool {
        self.pipelines.is_empty()
    }

    /// Hands each item to the publishers of all pipelines that accept its name.
    pub fn publish<T: Clone>(
        &self,
        items: &[T],
        name: impl Fn(&T) -> &str,
        publish: impl Fn(&dyn Publisher, &[T]) -> Receipt,
    ) -> Routed {
        let mut receipts = Vec::new();
        let mut hand_over = |pipeline: &Pipeline, items: &[T]| {
            if !items.is_empty() {
                receipts.extend(pipeline.publishers.iter().map(|to| publish(&**to, items)));
            }
        };
        let mut unrouted = 0;
        if self.pipelines.iter().all(|pipeline| pipeline.selection.is_everything()) {
            self.pipelines.iter().for_each(|pipeline| hand_over(pipeline, items));
            unrouted = if self.pipelines.is_empty() { items.len() } else { 0 };
        } else {
            let takers = self.acceptors(items, name);
            unrouted += takers.iter().filter(|takers| !takers.iter().any(|takes| *takes)).count();
            for (at, pipeline) in self.pipelines.iter().enumerate() {
                if takers.iter().all(|takers| takers[at]) {
                    hand_over(pipeline, items);
                } else {
                    let taken: Vec<T> = items
                        .iter()
                        .zip(&takers)
                        .filter(|(_, takers)| takers[at])
                        .map(|(item, _)| item.clone())
                        .collect();
                    hand_over(pipeline, &taken);
                }
            }
        }
        let receipt = match receipts.len() {
            0 => Receipt::done(),
            1 => receipts.remove(0),
            _ => Receipt::all(receipts),
        };
        Routed { receipt, unrouted }
    }

    /// For each item, the pipelines that accept it. Adjacent items mostly have the same name.
    fn acceptors<T>(&self, items: &[T], name: impl Fn(&T) -> &str) -> Vec<Acceptors> {
        let mut all: Vec<Acceptors> = Vec::with_capacity(items.len());
        for (at, item) in items.iter().enumerate() {
            let takers = match at.checked_sub(1) {
                Some(before) if name(&items[before]) == name(item) => all[before].clone(),
                _ => self.acceptors_of(name(item)),
            };
            all.push(takers);
        }
        all
    }

    fn acceptors_of(&self, name: &str) -> Acceptors {
        if let Some(takers) = self.cached.read().get(name) {
            return takers.clone();
        }
        let takers: Acceptors =
            self.pipelines.iter().map(|pipeline| pipeline.selection.matches(name)).collect();
        let mut cached = self.cached.write();
        if cached.len() < NAMES_MAX {
            cached.insert(name.into(), takers.clone());
        }
        takers
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use futures_util::FutureExt as _;
    use parking_lot::Mutex;

    use super::*;
    use crate::{
        event::Event,
        pipeline::PipelineKind,
        publishers::{OpenError, PublishError},
        sample::Sample,
    };

    /// Records the types of the events, batch by batch.
    #[derive(Default)]
    struct Seen(Mutex<Vec<Vec<String>>>);

    impl Publisher for Seen {
        fn samples(&self, _: &[Sample<'_>]) -> Receipt {
            Receipt::failed(PublishError("no samples".to_owned()))
        }

        fn events(&self, events: &[Event]) -> Receipt {
            self.0.lock().push(events.iter().map(|event| event.event_type.clone()).collect());
            Receipt::done()
        }
    }

    fn event(name: &str) -> Event {
        Event {
            message_id: String::new(),
            event_type: name.to_owned(),
            generated: 0,
            traits: vec![],
            raw: serde_json::Value::Null,
        }
    }

    #[test]
    fn names_go_where_their_sources_lead() {
        let text = "sources:\n  - {name: a, events: ['x.*'], sinks: [k, l]}\n  - {name: b, events: ['!x.1'], sinks: [l]}\n\
                    sinks:\n  - {name: k, publishers: ['test://1', 'bad://']}\n  - {name: l, publishers: ['test://2']}\n";
        let file = PipelineFile::parse(Path::new("e.yaml"), text, PipelineKind::Events).unwrap();
        let opened: Mutex<HashMap<String, Arc<Seen>>> = Mutex::default();
        let mut left_out = Vec::new();
        let mut open = |url: &str| -> Opened {
            if url == "bad://" {
                return Err(OpenError("no such publisher".to_owned()));
            }
            let seen = Arc::new(Seen::default());
            assert!(opened.lock().insert(url.to_owned(), seen.clone()).is_none(), "{url} opened twice");
            Ok(seen)
        };
        let routes = Routes::new(&file, &mut open, &mut left_out).unwrap();
        assert_eq!(left_out, ["sink k: a publisher is skipped: no such publisher"]);

        let events = [event("x.1"), event("y"), event("x.2")];
        for _ in 0..2 {
            let routed = routes.publish(&events, |event| &event.event_type, |to, events| to.events(events));
            assert_eq!((routed.unrouted, routed.receipt.now_or_never()), (0, Some(Ok(()))));
        }
        assert_eq!(opened.lock()["test://1"].0.lock()[1..], [["x.1", "x.2"]]);
        assert_eq!(opened.lock()["test://2"].0.lock()[2..], [["x.1", "x.2"], ["y", "x.2"]]);
        assert_eq!(routes.cached.read().len(), 3);
    }

    #[test]
    fn nothing_is_routed_to_a_sink_without_a_publisher() {
        for kind in [PipelineKind::Samples, PipelineKind::Events] {
            let file = PipelineFile::defaults(kind);
            let mut open = |_: &str| -> Opened { Err(OpenError("no credentials".to_owned())) };
            let error = Routes::new(&file, &mut open, &mut Vec::new()).err().map(|error| error.to_string());
            let expected = format!("sink {}: none of its publishers can be opened", file.sinks[0].name);
            assert!(error.as_ref().is_some_and(|error| error.contains(&expected)), "{error:?}");
            assert!(error.is_some_and(|error| error.ends_with("lost: no credentials")));
        }
    }
}

//! The measures that wait as objects, as the drivers `s3` and `swift` keep them: which metric has which, by a list of all.

use std::collections::HashMap;

use gnudi_model::{MetricId, python};
use parking_lot::Mutex;

use super::request_time;

/// By metric, the names of its measures in the order of their requests.
#[derive(Debug, Default)]
pub(super) struct Backlog(Mutex<HashMap<MetricId, Vec<String>>>);

impl Backlog {
    /// `names` end with `<metric>/<uuid>_<time>`; others are settings.
    pub fn set(&self, names: impl IntoIterator<Item = String>) {
        let mut backlog: HashMap<MetricId, Vec<String>> = HashMap::new();
        for name in names {
            let metric = name.rsplit('/').nth(1).and_then(python::parse_uuid);
            if let Some(metric) = metric {
                backlog.entry(MetricId(metric)).or_default().push(name);
            }
        }
        for names in backlog.values_mut() {
            names.sort_by(|a, b| request_time(a).cmp(request_time(b)));
        }
        *self.0.lock() = backlog;
    }

    pub fn names(&self, metric: MetricId) -> Vec<String> {
        self.0.lock().get(&metric).cloned().unwrap_or_default()
    }
}

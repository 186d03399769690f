//! Metrics per project: the most expensive projects by name, the others in sum.

use std::{fmt, sync::Arc};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder},
    metrics::{MetricType, counter::ConstCounter},
};

use super::{Limit, OTHERS, Quotas, Totals};

/// How many projects are shown by name.
const PROJECTS_SHOWN_MAX: usize = 100;
/// The label of all others.
const REST: &str = "other";

/// A collector that reads the totals at each scrape.
#[derive(Debug)]
pub struct QuotaFigures(pub Arc<Quotas>);

/// Reads one metric's value.
type Reading = fn(&Totals) -> f64;

impl QuotaFigures {
    /// The most expensive projects in descending order, then the sum of the others.
    fn shown(&self) -> Vec<(String, Totals)> {
        let mut all: Vec<(String, Totals)> =
            self.0.projects.lock().iter().map(|(name, usage)| (name.clone(), usage.totals)).collect();
        all.sort_by(|(a, left), (b, right)| right.cost.total_cmp(&left.cost).then_with(|| a.cmp(b)));
        let mut rest = Totals::default();
        let mut shown = Vec::new();
        for (name, totals) in all {
            if name != OTHERS && shown.len() < PROJECTS_SHOWN_MAX {
                shown.push((name, totals));
            } else {
                rest.add(totals);
            }
        }
        if rest != Totals::default() {
            shown.push((REST.to_owned(), rest));
        }
        shown
    }
}

impl Totals {
    fn add(&mut self, other: Totals) {
        self.requests += other.requests;
        self.cost += other.cost;
        self.measures += other.measures;
        for (own, other) in self.refused.iter_mut().zip(other.refused) {
            *own += other;
        }
    }
}

impl Collector for QuotaFigures {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let shown = self.shown();
        if shown.is_empty() {
            return Ok(());
        }
        let single: [(&str, &str, Reading); 3] = [
            ("requests", "Requests of a project", |totals| totals.requests as f64),
            ("request_cost", "Cost of a project's requests", |totals| totals.cost),
            ("measures", "Measures that a project has posted", |totals| totals.measures as f64),
        ];
        for (name, help, value) in single {
            let name = format!("gnudi_project_{name}");
            let mut family = encoder.encode_descriptor(&name, help, None, MetricType::Counter)?;
            for (project, totals) in &shown {
                counter(&mut family, &[("project", project)], value(totals))?;
            }
        }
        let help = "Requests refused because the project exceeded a limit";
        let mut family =
            encoder.encode_descriptor("gnudi_project_refused", help, None, MetricType::Counter)?;
        for (project, totals) in &shown {
            for limit in Limit::ALL {
                let labels = [("project", project.as_str()), ("limit", limit.name())];
                counter(&mut family, &labels, totals.refused[limit as usize] as f64)?;
            }
        }
        Ok(())
    }
}

fn counter<const N: usize>(
    family: &mut MetricEncoder<'_>,
    labels: &[(&str, &str); N],
    value: f64,
) -> fmt::Result {
    ConstCounter::new(value).encode(family.encode_family(labels)?)
}

#[cfg(test)]
mod tests {
    use gnudi_model::Timestamp;
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::{policy::Caller, quota::QuotaOptions};

    #[test]
    fn labels_are_bounded() {
        let quotas = Arc::new(Quotas::default());
        let options = QuotaOptions { figures: true, ..QuotaOptions::default() };
        for project in 0..PROJECTS_SHOWN_MAX + 20 {
            let caller = Caller { user: format!("p{project}"), ..Caller::default() };
            for _ in 0..=project {
                quotas.charge_request(&options, &caller, Timestamp(0), 0, 0);
            }
        }
        let mut registry = Registry::default();
        registry.register_collector(Box::new(QuotaFigures(quotas)));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let requests: Vec<&str> =
            text.lines().filter(|line| line.starts_with("gnudi_project_requests_total{")).collect();
        assert_eq!(requests.len(), PROJECTS_SHOWN_MAX + 1, "{text}");
        assert!(
            requests[0].starts_with("gnudi_project_requests_total{project=\"p119\"} 120"),
            "{}",
            requests[0]
        );
        assert!(
            requests[100].starts_with("gnudi_project_requests_total{project=\"other\"} 210"),
            "{}",
            requests[100]
        );
        assert!(
            text.contains("gnudi_project_refused_total{project=\"p119\",limit=\"measures\"} 0"),
            "{text}"
        );
    }
}

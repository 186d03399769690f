//! The results of operations as JSON: `{"aggregated": [...]}` if all series were aggregated to one; otherwise
//! the points of each series by metric, `{"<id>": {"mean": [...]}}`, or by resource and metric name.

use std::collections::{HashMap, hash_map::Entry};

use gnudi_app::Result;
use gnudi_series::{
    cross::{CrossMeasures, CrossSeries},
    resample::Resample,
};

use super::references::Reference;
use crate::measures::{document::Document, write::Column};

/// Appends `{"measures": ...}`, followed by the output of `more`.
///
/// # Errors
/// Those of [`Document::rows`], and of `more`.
pub(super) fn write(
    document: &mut Document,
    references: &[Reference],
    measures: Vec<CrossMeasures>,
    more: impl FnOnce(&mut Document) -> Result<()>,
) -> Result<()> {
    document.text("{\"measures\": ");
    // The operations are the same for all granularities, so the first one decides.
    if measures.first().is_some_and(|first| first.aggregated) {
        document.text("{\"aggregated\": ");
        document.rows(aggregated(measures))?;
        document.text("}");
    } else {
        write_series(document, series(references, measures))?;
    }
    more(document)?;
    document.text("}");
    Ok(())
}

/// The points of the aggregated series, granularity by granularity.
pub(crate) fn aggregated(measures: Vec<CrossMeasures>) -> Vec<Column> {
    let granularities = measures.into_iter().flat_map(|measures| {
        let granularity = measures.granularity;
        measures.columns.into_iter().map(move |series| column(granularity, series))
    });
    granularities.collect()
}

fn column(granularity: Resample, series: CrossSeries) -> Column {
    Column::new(granularity, series.timestamps, series.values)
}

/// A path of keys and the columns below it.
type Series = (Vec<String>, Vec<Column>);

/// Merges series with the same path, and groups paths by common prefixes, in order of first appearance.
fn series(references: &[Reference], measures: Vec<CrossMeasures>) -> Vec<Series> {
    let mut series: Vec<Series> = Vec::with_capacity(references.len());
    let mut places: HashMap<Vec<String>, usize> = HashMap::with_capacity(references.len());
    let mut place_of = Vec::with_capacity(references.len());
    for reference in references {
        place_of.push(match places.entry(reference.path()) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                series.push((new.key().clone(), Vec::with_capacity(measures.len())));
                *new.insert(series.len() - 1)
            }
        });
    }
    for measures in measures {
        for (place, found) in place_of.iter().zip(measures.columns) {
            series[*place].1.push(column(measures.granularity, found));
        }
    }
    let mut ranks: HashMap<&[String], usize> = HashMap::new();
    let mut keys = Vec::with_capacity(series.len());
    for (path, _) in &series {
        let rank = |end| {
            let next = ranks.len();
            *ranks.entry(&path[..end]).or_insert(next)
        };
        keys.push((1..=path.len()).map(rank).collect::<Vec<usize>>());
    }
    let mut sorted: Vec<_> = keys.into_iter().zip(series).collect();
    sorted.sort_by(|(a, _), (b, _)| a.cmp(b));
    sorted.into_iter().map(|(_, series)| series).collect()
}

/// Writes the paths as nested objects.
fn write_series(document: &mut Document, series: Vec<Series>) -> Result<()> {
    let mut open: Vec<String> = Vec::new();
    document.text("{");
    for (index, (path, columns)) in series.into_iter().enumerate() {
        let (last, outer) = path.split_last().expect("a path has keys");
        let common = open.iter().zip(outer).take_while(|(open, key)| open == key).count();
        document.text(&"}".repeat(open.len() - common));
        document.text(if index > 0 { ", " } else { "" });
        for key in &outer[common..] {
            document.value(&key.as_str().into());
            document.text(": {");
        }
        document.value(&last.as_str().into());
        document.text(": ");
        document.rows(columns)?;
        open.truncate(common);
        open.extend_from_slice(&outer[common..]);
    }
    document.text(&"}".repeat(open.len() + 1));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gnudi_model::{Metric, MetricId, Timespan, Timestamp};
    use gnudi_series::operations::MetricName;
    use uuid::Uuid;

    use super::*;
    use gnudi_app::AnswerBudget;
    use gnudi_server::ReplyBody;

    fn reference(id: u128, aggregation: &str) -> Reference {
        Reference {
            metric: Arc::new(Metric::new(MetricId(Uuid::from_u128(id)))),
            resource: None,
            name: MetricName { name: "as written".to_owned(), aggregation: aggregation.to_owned() },
        }
    }

    fn measures(granularity: i64, aggregated: bool, values: &[f64]) -> CrossMeasures {
        let timestamps = Arc::new(vec![Timestamp::EPOCH]);
        let column = |value: &f64| CrossSeries { timestamps: timestamps.clone(), values: vec![*value] };
        CrossMeasures {
            granularity: Resample::Span(Timespan::from_secs(granularity)),
            aggregated,
            columns: values.iter().map(column).collect(),
        }
    }

    fn text(references: &[Reference], measures: Vec<CrossMeasures>) -> String {
        let mut document = Document::new(&AnswerBudget::new(usize::MAX));
        let more = |document: &mut Document| {
            document.text(", \"more\": 1");
            Ok(())
        };
        write(&mut document, references, measures, more).unwrap();
        let ReplyBody::Whole(Some(bytes)) = document.into_body() else { panic!("a short answer") };
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        text.replace("\"1970-01-01T00:00:00+00:00\"", "T").replace("00000000-0000-0000-0000-00000000000", "")
    }

    #[test]
    fn series_stand_under_their_metrics() {
        // A metric's series are grouped; a duplicate reference is shown twice.
        let references =
            [reference(1, "mean"), reference(2, "mean"), reference(1, "max"), reference(2, "mean")];
        let both =
            vec![measures(60, false, &[1.0, 2.0, 3.0, 4.0]), measures(1, false, &[5.0, 6.0, 7.0, 8.0])];
        assert_eq!(
            text(&references, both),
            concat!(
                r#"{"measures": {"1": {"mean": [[T, 60.0, 1.0], [T, 1.0, 5.0]], "max": [[T, 60.0, 3.0], [T, 1.0, 7.0]]}, "#,
                r#""2": {"mean": [[T, 60.0, 2.0], [T, 60.0, 4.0], [T, 1.0, 6.0], [T, 1.0, 8.0]]}}, "more": 1}"#
            )
        );
        assert_eq!(
            text(&references, vec![measures(60, true, &[1.0]), measures(1, true, &[2.0])]),
            r#"{"measures": {"aggregated": [[T, 60.0, 1.0], [T, 1.0, 2.0]]}, "more": 1}"#
        );
    }

    #[test]
    fn paths_are_objects_within_objects() {
        let path = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<Vec<String>>();
        let paths: [&[&str]; 4] =
            [&["r", "cpu", "mean"], &["r", "cpu", "max"], &["r", "disk", "mean"], &["s", "disk", "mean"]];
        let mut document = Document::new(&AnswerBudget::new(usize::MAX));
        write_series(&mut document, paths.iter().map(|keys| (path(keys), Vec::new())).collect()).unwrap();
        let ReplyBody::Whole(Some(bytes)) = document.into_body() else { panic!("a short answer") };
        assert_eq!(
            &bytes[..],
            br#"{"r": {"cpu": {"mean": [], "max": []}, "disk": {"mean": []}}, "s": {"disk": {"mean": []}}}"#
        );
    }
}

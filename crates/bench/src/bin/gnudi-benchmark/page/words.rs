//! Conclusions as sentences: where a peer is ahead of gnudi, and which aims are missed. All are computed from the
//! measurements of the run.

use crate::{
    measurement::{Measurement, Row, Unit},
    peers::Peer,
    rows,
    spread::Spread,
    table,
};

/// Figures closer than this count as level.
const LEVEL: f64 = 1.1;
/// The aim relative to Gnocchi, and the one relative to the load generator's limit.
const GNOCCHI_TIMES: f64 = 100.0;
const LIMIT_SHARE: f64 = 0.5;

/// gnudi's figure and a peer's for the same work.
pub struct Pair<'a> {
    pub row: &'static Row,
    pub ours: &'a Measurement,
    pub theirs: &'a Measurement,
    pub times: f64,
}

/// gnudi (`ours`: with or without a sync per request) against a peer, row by row: gnudi's plain figure against the
/// peer's best variant, or against the same variant of the no-op server.
pub fn pairs(measurements: &[Measurement], ours: Peer, peer: Peer) -> Vec<Pair<'_>> {
    rows::all()
        .filter_map(|row| {
            let of = |peer: Peer| {
                measurements
                    .iter()
                    .filter(move |found| found.row == row.key && found.peer == peer && is_sound(found))
            };
            let ours = of(ours).next()?;
            // The no-op server's variants only show the limit of gnudi's.
            let is_like = |found: &&Measurement| peer != Peer::Limit || found.variant == ours.variant;
            let theirs = of(peer)
                .filter(is_like)
                .reduce(|best, next| if next.times_better_than(best) > 1.0 { next } else { best })?;
            Some(Pair { row, ours, theirs, times: ours.times_better_than(theirs) })
        })
        .collect()
}

/// Whether there are valid measurements.
fn is_sound(measurement: &Measurement) -> bool {
    let figure = measurement.figure();
    figure.is_finite() && figure > 0.0
}

/// A sentence or two for each peer, in order.
pub fn standings(measurements: &[Measurement], peers: &[Peer]) -> Vec<String> {
    peers
        .iter()
        .filter(|peer| **peer != Peer::Limit && !peer.is_gnudi())
        .flat_map(|&peer| [(Peer::Gnudi, peer), (Peer::GnudiOs, peer)])
        // The sync matters if the peer is otherwise ahead.
        .filter(|(ours, peer)| *ours == Peer::Gnudi || *peer == Peer::VictoriaMetrics)
        .filter_map(|(ours, peer)| standing(ours, peer, &pairs(measurements, ours, peer)))
        .collect()
}

fn standing(ours: Peer, peer: Peer, pairs: &[Pair]) -> Option<String> {
    if pairs.is_empty() {
        return None;
    }
    let (ours, name) = (ours.name(), peer.name());
    let behind: Vec<&Pair> = pairs.iter().filter(|pair| pair.times < 1.0 / LEVEL).collect();
    let ahead: Vec<&Pair> = pairs.iter().filter(|pair| pair.times > LEVEL).collect();
    let level = pairs.len() - behind.len() - ahead.len();
    let ahead = match (ahead.len(), pairs.len()) {
        (0, 1) => format!("{ours} is not ahead of {name} in the one row that both did"),
        (0, all) => format!("{ours} is ahead of {name} in none of {all} rows"),
        (count, all) => {
            let Spread { least, median, greatest } = Spread::of(ahead.iter().map(|pair| pair.times))?;
            let [least, median, greatest] = [least, median, greatest].map(table::short);
            let range = match count {
                1 => format!("{least} times"),
                _ => format!("{least} to {greatest} times (median {median})"),
            };
            format!("{ours} is ahead of {name} in {count} of {all} rows, by {range}")
        }
    };
    let level = if level > 0 { format!("; level (within 10 %) in {level}") } else { String::new() };
    let behind = match &behind[..] {
        [] => format!(". {name} wins in none."),
        behind => {
            let losses: Vec<String> = behind.iter().map(|pair| loss(pair)).collect();
            format!(". {name} wins in {}: {}.", behind.len(), losses.join("; "))
        }
    };
    Some(ahead + &level + &behind)
}

fn loss(pair: &Pair) -> String {
    format!(
        "{} ({} against {}'s {}, {} times)",
        pair.row.title,
        table::shown(&pair.theirs.value()),
        pair.ours.peer.name(),
        table::shown(&pair.ours.value()),
        table::short(1.0 / pair.times)
    )
}

/// Which gnudi, which peer, the aimed ratio, its description, and the format of ratios.
type Aim = (Peer, Peer, f64, &'static str, fn(f64) -> String);

/// Which aims are met, as sentences, and which rows miss them. Aims concern work, not memory.
pub fn aims(measurements: &[Measurement]) -> Vec<String> {
    let times = |times: f64| format!("{} times", table::short(times));
    let share = |times: f64| format!("{:.0} %", 100.0 * times);
    let aims: [Aim; 4] = [
        (Peer::Gnudi, Peer::Gnocchi, GNOCCHI_TIMES, "a hundred times Gnocchi", times),
        (Peer::Gnudi, Peer::VictoriaMetrics, 1.0 / LEVEL, "level with VictoriaMetrics or ahead of it", times),
        (
            Peer::GnudiOs,
            Peer::VictoriaMetrics,
            1.0 / LEVEL,
            "the same where neither waits for the disk (gnudi-os)",
            times,
        ),
        (
            Peer::Gnudi,
            Peer::Limit,
            LIMIT_SHARE,
            "half of what the load generator reaches against a server that does nothing",
            share,
        ),
    ];
    let sentence = |(ours, peer, wanted, what, shown): Aim| {
        let mut pairs = pairs(measurements, ours, peer);
        pairs.retain(|pair| pair.row.unit != Unit::Bytes);
        let missed = pairs.iter().filter(|pair| pair.times < wanted);
        let missed: Vec<String> =
            missed.map(|pair| format!("{} ({})", pair.row.key, shown(pair.times))).collect();
        let (met, all) = (pairs.len() - missed.len(), pairs.len());
        match (all, missed.is_empty()) {
            (0, _) => None,
            (_, true) => Some(format!("Aim: {what}. Met in all {met} rows.")),
            _ => Some(format!("Aim: {what}. Met in {met} of {all} rows; missed in {}.", missed.join(", "))),
        }
    };
    aims.into_iter().filter_map(sentence).collect()
}

/// Aims for gnudi's figures: the row, the variant (empty for the plain one), and a rate, or an amount of memory that it
/// may take.
const FIGURE_AIMS: [(&str, &str, f64); 18] = [
    ("push-5000", "", 10e6),
    ("push-5000", "arrow", 40e6),
    ("push-1-c64", "", 40e3),
    ("create", "", 20e3),
    ("show", "", 40e3),
    ("resource-create", "", 10e3),
    ("resource-show", "", 40e3),
    ("resource-search", "", 200.0),
    ("read", "", 10e6),
    ("read", "raw", 40e6),
    ("read-year", "arrow", 200e6),
    ("read-year", "raw, arrow", 200e6),
    ("aggregate", "", 10e6),
    // A day of 100,000 resources by five minutes in a second.
    ("aggregate-resources", "", 28.8e6),
    ("process", "", 600e3),
    ("stream", "", 120e3),
    ("memory", "", 150e6),
    ("memory-restart", "", 150e6),
];

/// Which aims gnudi's figures meet, as sentences, in the order of the aims.
pub fn figures(measurements: &[Measurement]) -> Vec<String> {
    let sentence = |&(key, variant, aim): &(&str, &str, f64)| {
        let is_wanted = |found: &&Measurement| {
            let of_variant = found.variant.as_deref().unwrap_or_default() == variant;
            found.peer == Peer::Gnudi && found.row == key && of_variant
        };
        let found = measurements.iter().find(is_wanted)?;
        let row = rows::all().find(|row| row.key == key)?;
        let (wanted, is_met) = match row.unit {
            Unit::Bytes => (format!("{} or less", table::bytes(aim)), found.figure() <= aim),
            _ => (table::short(aim) + "/s", found.figure() >= aim),
        };
        let variant = if variant.is_empty() { String::new() } else { format!(" ({variant})") };
        let verdict = if is_met { "met" } else { "missed" };
        let figure = table::shown(&found.value());
        Some(format!("{}{variant}: {figure}; aim {wanted}: {verdict}.", row.title))
    };
    FIGURE_AIMS.iter().filter_map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::sample;

    #[test]
    fn every_aim_is_for_a_row() {
        for (key, ..) in FIGURE_AIMS {
            assert!(rows::all().any(|row| row.key == key), "{key}");
        }
    }

    #[test]
    fn figures_are_compared_with_aims() {
        assert_eq!(
            figures(&measurements()),
            [
                "create metric, 48 connections: 3.00k/s; aim 20.0k/s: missed.",
                "memory with 20,000 idle metrics (medium): 100B; aim 150MB or less: met.",
            ]
        );
    }

    fn measurements() -> Vec<Measurement> {
        let measured = |row, peer, unit, rate| sample(row, peer, unit, rate, 1.0);
        vec![
            measured("push-1", Peer::Limit, Unit::Measures, 100_000.0),
            measured("push-1", Peer::Gnudi, Unit::Measures, 20_000.0),
            measured("push-1", Peer::GnudiOs, Unit::Measures, 60_000.0),
            measured("push-1", Peer::Gnocchi, Unit::Measures, 100.0),
            measured("push-1", Peer::VictoriaMetrics, Unit::Measures, 10_000.0),
            Measurement {
                variant: Some("arrow".into()),
                ..measured("push-1", Peer::Limit, Unit::Measures, 900_000.0)
            },
            // The faster of its two variants counts.
            measured("push-1", Peer::VictoriaMetrics, Unit::Measures, 40_000.0),
            measured("create", Peer::Gnudi, Unit::Metrics, 3_000.0),
            measured("create", Peer::Gnocchi, Unit::Metrics, 100.0),
            measured("memory", Peer::Gnudi, Unit::Bytes, 100.0),
            measured("memory", Peer::Gnocchi, Unit::Bytes, 1_000.0),
            measured("memory", Peer::VictoriaMetrics, Unit::Bytes, 95.0),
        ]
    }

    #[test]
    fn peers_that_win_are_named_with_their_figures() {
        let words = standings(
            &measurements(),
            &[Peer::Limit, Peer::Gnudi, Peer::GnudiOs, Peer::Gnocchi, Peer::VictoriaMetrics, Peer::InfluxDb],
        );
        assert_eq!(
            words,
            [
                "gnudi is ahead of gnocchi in 3 of 3 rows, by 10.0 to 200 times (median 30.0). gnocchi wins in none.",
                "gnudi is ahead of victoria-metrics in none of 2 rows; level (within 10 %) in 1. victoria-metrics wins in 1: \
             push, 1 measure a call, 8 connections (40.0k/s against gnudi's 20.0k/s, 2.00 times).",
                "gnudi-os is ahead of victoria-metrics in 1 of 1 rows, by 1.50 times. victoria-metrics wins in none.",
            ]
        );
    }

    #[test]
    fn missed_aims_are_named() {
        assert_eq!(
            aims(&measurements()),
            [
                "Aim: a hundred times Gnocchi. Met in 1 of 2 rows; missed in create (30.0 times).",
                "Aim: level with VictoriaMetrics or ahead of it. Met in 0 of 1 rows; missed in push-1 (0.50 times).",
                "Aim: the same where neither waits for the disk (gnudi-os). Met in all 1 rows.",
                "Aim: half of what the load generator reaches against a server that does nothing. Met in 0 of 1 rows; \
             missed in push-1 (20 %).",
            ]
        );
    }

    #[test]
    fn what_was_not_measured_is_not_compared() {
        let mut measurements = measurements();
        measurements.retain(|found| !matches!(found.peer, Peer::Gnudi | Peer::GnudiOs));
        assert!(aims(&measurements).is_empty());
        assert!(standings(&measurements, &[Peer::Gnocchi]).is_empty());
        let empty = sample("push-1", Peer::Gnudi, Unit::Measures, 0.0, 0.0);
        assert!(standings(&[empty, measurements[1].clone()], &[Peer::Gnocchi]).is_empty());
    }
}

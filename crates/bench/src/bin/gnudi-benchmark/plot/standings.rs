//! Servers over named rows: a line per server with its figures relative to gnudi's, on a logarithmic axis.
//!
//! Narrow and tall, so that it is readable on a phone.

use std::fmt::Write as _;

use super::{Scale, dot, escape, exactly, legend, open_svg, path_of, width_of, x_axis};
use crate::{measurement::Row, peers::Peer};

const WIDTH: f64 = 520.0;
/// Distance of two rows.
const ROW: f64 = 19.0;
const RIGHT: f64 = 16.0;
/// Below the rows: tick labels and axis label.
const BELOW: f64 = 40.0;

/// A server, and its ratio in each row; `None` without a figure.
pub type Standing = (Peer, Vec<Option<f64>>);

/// The drawing as an `svg` element.
pub fn svg(title: &str, axis: &str, rows: &[&Row], servers: &[Standing]) -> String {
    let title = escape(title);
    let left = rows.iter().map(|row| width_of(row.key)).fold(0.0, f64::max) + 14.0;
    let named = servers.iter().map(|(peer, _)| (peer.name(), peer.style()));
    let (legend, legend_rows) = legend(named, (left, WIDTH - RIGHT), ROW);
    let top = 8.0 + ROW * legend_rows as f64 + 8.0;
    let bottom = top + ROW * rows.len() as f64;
    let ratios = servers.iter().flat_map(|(_, ratios)| ratios.iter().flatten().copied());
    // gnudi's own figure is always in range.
    let x = Scale::new(ratios.chain([1.0]), true, (left, WIDTH - RIGHT)).expect("one is a value");
    let mut out = open_svg("plot standings", WIDTH, bottom + BELOW, &title) + &legend;
    out += &x_axis(&x, (top, bottom), axis, "x");
    let middle = |row: usize| top + ROW * (row as f64 + 0.5);
    for (index, row) in rows.iter().enumerate() {
        write!(
            out,
            "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}<title>{}</title></text>",
            left - 8.0,
            middle(index) + 4.0,
            escape(row.key),
            escape(row.title)
        )
        .expect("a String takes it");
    }
    for server in servers {
        out += &draw(server, rows, &x, middle);
    }
    out + "</svg>\n"
}

fn draw((peer, ratios): &Standing, rows: &[&Row], x: &Scale, middle: impl Fn(usize) -> f64) -> String {
    let shown = ratios.iter().map(|ratio| ratio.filter(|ratio| x.shows(*ratio)));
    let places = shown.clone().enumerate().map(|(row, ratio)| Some((x.place(ratio?), middle(row))));
    let mut out = path_of(peer.style(), peer.name(), places);
    for (row, ratio) in shown.enumerate().filter_map(|(row, ratio)| Some((row, ratio?))) {
        let says = format!("{}: {}x, {}", peer.name(), exactly(ratio), rows[row].title);
        out += &dot(peer.style(), x.place(ratio), middle(row), &says);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{measurement::Unit, page::well_formed};

    #[test]
    fn a_better_figure_stands_further_right_and_what_is_missing_breaks_the_line() {
        let rows = [("a", "row a"), ("b", "row <b>"), ("c", "row c"), ("d", "row d")]
            .map(|(key, title)| Row::new(key, Unit::Metrics, title));
        let ratios = vec![Some(0.01), Some(2.0), None, Some(f64::NAN)];
        let svg = svg("servers & rows", "times", &rows.each_ref(), &[(Peer::Gnocchi, ratios)]);
        well_formed(&svg).unwrap_or_else(|error| panic!("{error}: {svg}"));
        assert!(!svg.contains("NaN"), "{svg}");
        let path = svg.split("<path class=\"line\"").nth(1).unwrap().split(" d=\"M").nth(1).unwrap();
        let numbers: Vec<f64> = path[..path.find('"').unwrap()]
            .split(['L', 'M', ' '])
            .map(|number| number.parse().unwrap())
            .collect();
        assert!(numbers.len() == 4 && numbers[0] < numbers[2] && numbers[1] < numbers[3], "{numbers:?}");
        well_formed(&super::svg("nothing", "times", &[], &[])).unwrap();
    }
}

//! Plots as SVG: lines over a common axis, with a legend, ticks, and marks.
//!
//! Lines differ by colour (Okabe and Ito's colour-blind safe palette), dash and point shape, so that they are
//! distinguishable in grey, too. Text and grid inherit the page's colours.

mod axis;
pub mod standings;

use std::fmt::Write as _;

use askama::filters;
use axis::{EXACT_DIGITS, Scale, label};

use crate::{
    findings::{Line, Plot},
    peers::Peer,
};

const WIDTH: f64 = 760.0;
/// Height of the plot area.
const FIELD_HEIGHT: f64 = 260.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 24.0;
/// Below it: tick labels and axis label.
const BELOW: f64 = 44.0;
/// Height of a row of legend or marks.
const ROW: f64 = 20.0;
/// Approximate width of a character, which SVG does not provide.
const LETTER: f64 = 6.6;
/// Individual points are shown for at most this many on a line.
const DOTS_MAX: usize = 40;

/// Colour and dash by line number; the colours' names are defined by the page.
const STYLES: [(&str, &str); 8] = [
    ("#0072b2", ""),
    ("#d55e00", "7 3"),
    ("#009e73", "2 3"),
    ("#cc79a7", "9 3 2 3"),
    ("#e69f00", "14 4"),
    ("#56b4e9", "1 4"),
    ("#7f7f7f", "4 2"),
    ("#a6761d", "12 3 3 3"),
];

/// The plot as an `svg` element; says so if there is nothing to draw.
pub fn svg(plot: &Plot) -> String {
    let points = || plot.lines.iter().flat_map(|line| line.points.iter().copied());
    let xs = points().map(|(x, _)| x).chain(plot.marks.iter().map(|mark| mark.x));
    let x = Scale::new(xs, plot.x.logarithmic, (LEFT, WIDTH - RIGHT));
    let styles = styles(&plot.lines);
    let named = plot.lines.iter().map(|line| line.name.as_str()).zip(styles.iter().copied());
    let (legend, legend_rows) = legend(named, (LEFT, WIDTH - RIGHT), ROW);
    // Each mark has a row for its label.
    let top = 8.0 + ROW * (legend_rows + plot.marks.len()) as f64 + 6.0;
    let bottom = top + FIELD_HEIGHT;
    let y = Scale::new(points().map(|(_, y)| y), plot.y.logarithmic, (bottom, top));
    let mut out = open_svg("plot", WIDTH, bottom + BELOW, &escape(&plot.title));
    let (Some(x), Some(y)) = (x, y) else {
        out += &text(WIDTH / 2.0, top + FIELD_HEIGHT / 2.0, "middle", "label", "nothing was measured");
        return out + "</svg>\n";
    };
    out += &legend;
    out += &grid(plot, &x, &y);
    for (row, mark) in plot.marks.iter().enumerate().filter(|(_, mark)| x.shows(mark.x)) {
        let (at, baseline) = (x.place(mark.x), 8.0 + ROW * (legend_rows + row) as f64 + 14.0);
        let is_left = at + 4.0 + width_of(&mark.label) <= WIDTH;
        let (anchor, text_at) = if is_left { ("start", at + 4.0) } else { ("end", at - 4.0) };
        out += &stroke_between("mark", "", (at, baseline + 3.0), (at, bottom));
        out += &text(text_at, baseline, anchor, "label", &mark.label);
    }
    for (line, &style) in plot.lines.iter().zip(&styles) {
        out += &draw_line(style, line, plot, &x, &y);
    }
    out + "</svg>\n"
}

/// Escapes text for SVG.
fn escape(text: &str) -> String {
    let Ok(escaped) = filters::escape(text, filters::Html);
    escaped.0.to_string()
}

fn text(x: f64, y: f64, anchor: &str, class: &str, content: &str) -> String {
    format!(
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
        escape(content)
    )
}

/// A straight line; `style` is further attributes.
fn stroke_between(class: &str, style: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) -> String {
    format!("<line class=\"{class}\"{style} x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>")
}

fn width_of(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER
}

/// The style number of each line: servers have fixed ones, other lines get the remaining ones.
fn styles(lines: &[Line]) -> Vec<usize> {
    let of_servers: Vec<Option<usize>> =
        lines.iter().map(|line| Peer::from_name(&line.name).map(Peer::style)).collect();
    let mut free = (0..).filter(|style| !of_servers.contains(&Some(*style)));
    of_servers.iter().map(|style| style.unwrap_or_else(|| free.next().expect("numbers do not end"))).collect()
}

/// The colour of a line, which a page may override by a variable, and its dash.
fn stroke(number: usize) -> (String, &'static str) {
    let number = number % STYLES.len();
    let (colour, dash) = STYLES[number];
    (format!("var(--line-{number}, {colour})"), dash)
}

/// A sample of each line with its name, between `left` and `right` in rows of this height: the SVG, and the number of
/// rows.
fn legend<'a>(
    lines: impl Iterator<Item = (&'a str, usize)>,
    (left, right): (f64, f64),
    row_height: f64,
) -> (String, usize) {
    const SAMPLE: f64 = 34.0;
    let (mut out, mut at, mut rows) = (String::new(), left, 0);
    for (name, number) in lines {
        let width = SAMPLE + 8.0 + width_of(name) + 18.0;
        if rows == 0 || at > left && at + width > right {
            (at, rows) = (left, rows + 1);
        }
        let middle = 8.0 + row_height * (rows - 1) as f64 + 10.0;
        let (colour, dash) = stroke(number);
        let style = format!(" style=\"stroke:{colour}\" stroke-dasharray=\"{dash}\"");
        out += &stroke_between("line", &style, (at, middle), (at + SAMPLE, middle));
        out += &dot(number, at + SAMPLE / 2.0, middle, "");
        out += &text(at + SAMPLE + 8.0, middle + 4.0, "start", "label", name);
        at += width;
    }
    (out, rows)
}

/// A point in the shape of its line, with a tooltip.
fn dot(number: usize, x: f64, y: f64, says: &str) -> String {
    const R: f64 = 3.6;
    let (colour, _) = stroke(number);
    // Four shapes, filled and then hollow.
    let style = match (number / 4) % 2 {
        0 => format!("fill:{colour}"),
        _ => format!("fill:var(--paper, #fff);stroke:{colour};stroke-width:1.6"),
    };
    let title = if says.is_empty() { String::new() } else { format!("<title>{}</title>", escape(says)) };
    let path = match number % 4 {
        0 => {
            return format!(
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{R}\" style=\"{style}\">{title}</circle>"
            );
        }
        1 => format!("M{:.1} {:.1}h{w}v{w}h-{w}z", x - R, y - R, w = 2.0 * R),
        2 => format!("M{x:.1} {:.1}L{:.1} {:.1}L{:.1} {:.1}z", y - 4.4, x + 4.2, y + 3.4, x - 4.2, y + 3.4),
        _ => format!("M{x:.1} {:.1}l4.6 4.6l-4.6 4.6l-4.6 -4.6z", y - 4.6),
    };
    format!("<path d=\"{path}\" style=\"{style}\">{title}</path>")
}

fn grid(plot: &Plot, x: &Scale, y: &Scale) -> String {
    let mut out = String::new();
    let ((left, right), (bottom, top)) = (x.range, y.range);
    for tick in y.ticks() {
        let at = y.place(tick.value);
        out += &stroke_between("grid", "", (left, at), (right, at));
        out += &text(left - 8.0, at + 4.0, "end", "tick", &tick.label);
    }
    out += &x_axis(x, (top, bottom), &plot.x.label, "");
    write!(
        out,
        "<path class=\"axis\" d=\"M{left:.1} {top:.1}V{bottom:.1}H{right:.1}\"/>\
         <text class=\"label\" transform=\"translate(14 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        f64::midpoint(top, bottom),
        escape(&plot.y.label)
    )
    .expect("a String takes it");
    out
}

/// The horizontal axis below an area: its label, and for each tick a line across the area and a number with this unit.
fn x_axis(x: &Scale, (top, bottom): (f64, f64), label: &str, unit: &str) -> String {
    let mut out = String::new();
    for tick in x.ticks() {
        let at = x.place(tick.value);
        out += &stroke_between("grid", "", (at, bottom), (at, top));
        out += &text(at, bottom + 17.0, "middle", "tick", &(tick.label + unit));
    }
    out + &text(f64::midpoint(x.range.0, x.range.1), bottom + 36.0, "middle", "label", label)
}

fn draw_line(number: usize, line: &Line, plot: &Plot, x: &Scale, y: &Scale) -> String {
    let shown: Vec<(f64, f64)> =
        line.points.iter().copied().filter(|&(at, value)| x.shows(at) && y.shows(value)).collect();
    let places = thinned(&shown, x).into_iter().map(|(at, value)| Some((x.place(at), y.place(value))));
    let mut out = path_of(number, &line.name, places);
    if shown.len() <= DOTS_MAX {
        for &(at, value) in &shown {
            let [exact_at, exact_value] = [at, value].map(exactly);
            let says = format!("{}: {exact_value} at {exact_at} {}", line.name, plot.x.label);
            out += &dot(number, x.place(at), y.place(value), &says);
        }
    }
    out
}

/// A value in a tooltip.
fn exactly(value: f64) -> String {
    label(value, EXACT_DIGITS)
}

/// A line from place to place, with its name as tooltip; it is broken where one is missing.
fn path_of(number: usize, name: &str, places: impl Iterator<Item = Option<(f64, f64)>>) -> String {
    let (mut path, mut command) = (String::new(), 'M');
    for place in places {
        if let Some((x, y)) = place {
            write!(path, "{command}{x:.1} {y:.1}").expect("a String takes it");
        }
        command = if place.is_some() { 'L' } else { 'M' };
    }
    let (colour, dash) = stroke(number);
    let title = escape(name);
    format!(
        "<path class=\"line\" style=\"stroke:{colour}\" stroke-dasharray=\"{dash}\" d=\"{path}\"><title>{title}</title></path>"
    )
}

/// The beginning of a drawing, up to its title, which is escaped.
fn open_svg(class: &str, width: f64, height: f64, title: &str) -> String {
    format!(
        "<svg class=\"{class}\" viewBox=\"0 0 {width} {height:.0}\" role=\"img\" aria-label=\"{title}\" \
         xmlns=\"http://www.w3.org/2000/svg\"><title>{title}</title>"
    )
}

/// At most four points per unit of width: first, least, greatest and last, in order.
fn thinned(points: &[(f64, f64)], x: &Scale) -> Vec<(f64, f64)> {
    let mut kept = Vec::new();
    for of_column in points.chunk_by(|a, b| x.place(a.0).floor() == x.place(b.0).floor()) {
        let by_value = |a: &&(usize, (f64, f64)), b: &&(usize, (f64, f64))| f64::total_cmp(&a.1.1, &b.1.1);
        let numbered: Vec<(usize, (f64, f64))> = of_column.iter().copied().enumerate().collect();
        let least = numbered.iter().min_by(by_value).map(|found| found.0);
        let greatest = numbered.iter().max_by(by_value).map(|found| found.0);
        let mut indices: Vec<usize> =
            [Some(0), least, greatest, Some(of_column.len() - 1)].into_iter().flatten().collect();
        indices.sort_unstable();
        indices.dedup();
        kept.extend(indices.into_iter().map(|index| of_column[index]));
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        findings::{Axis, Mark},
        page::well_formed,
    };

    fn plot(lines: &[(&str, &[(f64, f64)])]) -> Plot {
        Plot::new(
            "backlog <of> \"20,000\" & more",
            Axis::linear("seconds"),
            Axis::linear("measures waiting"),
            lines.iter().map(|(name, points)| Line::new(*name, points.iter().copied())).collect(),
        )
    }

    #[test]
    fn any_plot_is_well_formed() {
        let many: Vec<(f64, f64)> =
            (0..20_000).map(|i| (f64::from(i) / 100.0, f64::from(i % 97) * 1e5)).collect();
        for lines in [
            &[][..],
            &[("empty", &[][..])],
            &[("one <point>", &[(3.0, 4.0)])],
            &[("same", &[(1.0, 5.0), (2.0, 5.0)]), ("bad", &[(f64::NAN, 1.0), (1.0, f64::INFINITY)])],
            &[("many", &many), ("below zero", &[(0.0, -3.0), (5.0, 3.0)])],
        ] {
            for logarithmic in [false, true] {
                let mut plot = plot(lines);
                (plot.x.logarithmic, plot.y.logarithmic) = (logarithmic, logarithmic);
                plot.marks.push(Mark::new(2.0, "pg_num & 2"));
                let svg = svg(&plot);
                well_formed(&svg).unwrap_or_else(|error| panic!("{error}: {svg}"));
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
                assert!(svg.contains("<title>backlog &#60;of&#62; &#34;20,000&#34; &#38; more</title>"));
                assert!(svg.len() < 200_000, "{} bytes", svg.len());
            }
        }
    }

    #[test]
    fn higher_values_stand_higher_and_later_ones_further_right() {
        let svg = svg(&plot(&[("a", &[(0.0, 0.0), (10.0, 100.0)])]));
        let path = svg.split("class=\"line\"").last().unwrap().split(" d=\"M").nth(1).unwrap();
        let numbers: Vec<f64> =
            path[..path.find('"').unwrap()].split(['L', ' ']).map(|number| number.parse().unwrap()).collect();
        assert!(numbers[0] < numbers[2] && numbers[1] > numbers[3], "{numbers:?}");
        assert_eq!(numbers[2], WIDTH - RIGHT);
    }

    #[test]
    fn a_server_has_one_style_everywhere() {
        let lines =
            ["first", "gnudi", "second", "gnocchi", "third"].map(|name| Line::new(name, [(0.0, 1.0)]));
        let found = styles(&lines);
        assert_eq!((found[1], found[3]), (Peer::Gnudi.style(), Peer::Gnocchi.style()));
        let distinct: std::collections::BTreeSet<_> = found.iter().collect();
        assert_eq!(distinct.len(), lines.len(), "{found:?}");
    }

    #[test]
    fn labels_of_marks_stand_in_rows_of_their_own_within_the_plot() {
        let mut plot = plot(&[("a", &[(0.0, 0.0), (1000.0, 1.0)])]);
        plot.marks = [500.0, 999.0].map(|x| Mark::new(x, "the group splits")).to_vec();
        let svg = svg(&plot);
        let labels: Vec<&str> =
            svg.split("<text class=\"label\"").filter(|text| text.contains("splits")).collect();
        assert!(labels[0].contains("y=\"42.0\" text-anchor=\"start\""), "{labels:?}");
        assert!(labels[1].contains("y=\"62.0\" text-anchor=\"end\""), "{labels:?}");
    }

    #[test]
    fn a_thinned_line_keeps_its_extremes() {
        let points: Vec<(f64, f64)> =
            (0..10_000).map(|i| (f64::from(i), if i == 4_321 { 77.0 } else { 1.0 })).collect();
        let x = Scale::new(points.iter().map(|point| point.0), false, (0.0, 100.0)).unwrap();
        let thin = thinned(&points, &x);
        assert!(thin.len() < 410 && thin.contains(&(4_321.0, 77.0)), "{}", thin.len());
        assert_eq!((thin.first(), thin.last()), (points.first(), points.last()));
    }
}

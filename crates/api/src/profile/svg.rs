//! Draws a flame graph: each function is a bar on top of its caller, as wide as its share of the samples.
//!
//! The file is self-contained: no external fonts, styles or scripts. The script only zooms; the graph works
//! without it.

use std::{fmt::Write as _, time::Duration};

use super::{
    ProfileOptions,
    function::{Function, Origin},
    stacks::{Node, Stacks},
};

/// Sizes in pixels.
const WIDTH: f64 = 1400.0;
const BAR_HEIGHT: f64 = 17.0;
const CHARACTER_WIDTH: f64 = 6.6;
const HEADER_HEIGHT: f64 = 64.0;
const MARGIN_BELOW: f64 = 8.0;

/// Narrower bars are left out; the rest includes some that become visible by zooming.
const SHARE_MIN: f64 = 0.0005;

/// Bars narrower than this many characters have no name.
const NAME_CHARS_MIN: usize = 3;

const ZOOM: &str = include_str!("zoom.js");

/// A profile's flame graph as an SVG file. `used`: the CPU time used during the profile.
pub fn draw(stacks: &Stacks, options: ProfileOptions, used: Option<Duration>) -> String {
    let root = stacks.root();
    let samples_min = ((root.samples as f64 * SHARE_MIN).ceil() as usize).max(1);
    let rows = root.depth(samples_min) + 1;
    let height = HEADER_HEIGHT + rows as f64 * BAR_HEIGHT + MARGIN_BELOW;
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_head(&mut out, root.samples, height, options, used);
    if root.samples > 0 {
        let base = height - MARGIN_BELOW - BAR_HEIGHT;
        let mut drawing = Drawing { out: &mut out, total: root.samples, samples_min, base };
        let _ = drawing.bar(&Function::thread("all threads"), root, 0, 0);
        let _ = writeln!(out, "<script><![CDATA[\n{ZOOM}]]></script>");
    }
    out += "</svg>\n";
    out
}

fn write_head(
    out: &mut String,
    samples: usize,
    height: f64,
    options: ProfileOptions,
    used: Option<Duration>,
) -> std::fmt::Result {
    writeln!(out, r#"<?xml version="1.0" encoding="UTF-8"?>"#)?;
    writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" data-width="{WIDTH}" data-samples="{samples}" font-family="ui-monospace, Menlo, Consolas, monospace" font-size="11">"#
    )?;
    writeln!(
        out,
        "<style>g[data-s]{{cursor:pointer}}g[data-s]:hover rect{{stroke:#222;stroke-width:1}}text{{pointer-events:none;fill:#111}}</style>"
    )?;
    writeln!(out, r##"<rect width="100%" height="100%" fill="#fdfdfb"/>"##)?;
    let seconds = options.duration.as_secs_f64();
    let used =
        used.map_or(String::new(), |used| format!("{:.1} s of processor time in ", used.as_secs_f64()));
    writeln!(
        out,
        r#"<text x="8" y="20" font-size="15">gnudi: {used}{seconds} s, by thread and function</text>"#
    )?;
    let seen = match samples {
        0 => "No samples: nothing used the CPU. Retry while the server is busy.".to_owned(),
        samples => format!(
            "{samples} samples; up to {} per second of CPU time. Point at a bar for its name, click to zoom, click on the lowest to come back.",
            options.frequency_hz
        ),
    };
    writeln!(out, r#"<text x="8" y="38">{seen}</text>"#)?;
    writeln!(
        out,
        r#"<text x="8" y="53">Orange is gnudi, blue other crates, yellow the standard library, violet the C library. Pale functions are inlined into the one below: their share is an estimate.</text>"#
    )
}

/// The state of drawing.
struct Drawing<'a> {
    out: &'a mut String,
    total: usize,
    samples_min: usize,
    /// The top edge of the lowest row.
    base: f64,
}

impl Drawing<'_> {
    /// Draws a function's bar and those above it; `start` is its first sample.
    fn bar(&mut self, function: &Function, node: &Node, start: usize, row: usize) -> std::fmt::Result {
        let scale = WIDTH / self.total as f64;
        let (x, y) = (start as f64 * scale, self.base - row as f64 * BAR_HEIGHT);
        let width = node.samples as f64 * scale;
        let percent = node.samples as f64 * 100.0 / self.total as f64;
        let fill = colour(function);
        writeln!(
            self.out,
            r#"<g data-s="{start}" data-n="{samples}"><title>{title}
{samples} samples, {percent:.2} %</title><rect x="{x:.2}" y="{y}" width="{shown:.2}" height="{height}" fill="{fill}"/><text x="{text_x:.2}" y="{text_y}">{text}</text></g>"#,
            samples = node.samples,
            title = escaped(&function.name),
            shown = (width - 0.5).max(0.2),
            height = BAR_HEIGHT - 1.0,
            text_x = x + 3.0,
            text_y = y + 12.0,
            text = escaped(&fitted(&function.name, width)),
        )?;
        let mut start = start;
        for (function, child) in &node.children {
            if child.samples >= self.samples_min {
                self.bar(function, child, start, row + 1)?;
            }
            start += child.samples;
        }
        Ok(())
    }
}

/// The part of a name that fits into a bar.
fn fitted(name: &str, width: f64) -> String {
    let room = ((width - 6.0) / CHARACTER_WIDTH).max(0.0) as usize;
    if name.chars().count() <= room {
        return name.to_owned();
    }
    if room < NAME_CHARS_MIN {
        return String::new();
    }
    name.chars().take(room - 2).chain("..".chars()).collect()
}

/// Escapes a text for XML; characters that XML forbids become replacement characters.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '&' => out += "&amp;",
            '\n' | '\t' => out.push(' '),
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}

/// The hue is the origin's, the shade a hash of the name; inlined functions are paler.
fn colour(function: &Function) -> String {
    let bytes = function.name.bytes();
    let shade = bytes.fold(7_u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(u32::from(byte))) % 16;
    let (hue, saturation) = match function.origin {
        Origin::Thread => (0, 0),
        Origin::Own => (24, 85),
        Origin::Standard => (52, 60),
        Origin::Dependency => (200, 60),
        Origin::Unknown => (280, 35),
    };
    let lightness = if function.is_inlined { 82 } else { 66 } + shade / 2;
    format!("hsl({}, {saturation}%, {lightness}%)", hue + shade)
}

#[cfg(test)]
mod tests {
    use super::{super::stacks::tests::stacks, *};

    const OPTIONS: ProfileOptions = ProfileOptions { duration: Duration::from_secs(10), frequency_hz: 99 };
    const USED: Option<Duration> = Some(Duration::from_millis(1250));

    /// A bar's start, samples, x, y and width.
    fn bar(svg: &str, name: &str) -> [f64; 5] {
        let title = format!("<title>{name}\n");
        let line = svg.split("<g ").find(|group| group.contains(&title)).unwrap_or_else(|| panic!("{name}"));
        let value = |key: &str| {
            let text = line.split(&format!("{key}=\"")).nth(1).expect(key);
            text.split('"').next().unwrap().parse().unwrap()
        };
        ["data-s", "data-n", " x", " y", " width"].map(value)
    }

    #[test]
    fn bars_are_as_wide_as_their_share_and_lie_on_their_callers() {
        let svg = draw(&stacks(&["t;a;b 25", "t;a;c 50", "u 25"]), OPTIONS, USED);
        let [all, outer, middle, first, second, other] =
            ["all threads", "t", "a", "b", "c", "u"].map(|name| bar(&svg, name));
        let whole = WIDTH;
        assert_eq!([all[2], all[4]], [0.0, whole - 0.5]);
        assert_eq!([outer[2], outer[4]], [0.0, whole * 0.75 - 0.5]);
        assert_eq!([middle[2], middle[4]], [0.0, whole * 0.75 - 0.5]);
        assert_eq!([first[2], first[4]], [0.0, whole * 0.25 - 0.5]);
        assert_eq!([second[0], second[1]], [25.0, 50.0]);
        assert_eq!([second[2], second[4]], [whole * 0.25, whole * 0.5 - 0.5]);
        assert_eq!([other[2], other[4]], [whole * 0.75, whole * 0.25 - 0.5]);
        assert_eq!([outer[3], middle[3], first[3]], [1.0, 2.0, 3.0].map(|row| all[3] - row * BAR_HEIGHT));
        assert_eq!((outer[3], first[3]), (other[3], second[3]));
        assert!(first[3] >= HEADER_HEIGHT, "the head is free");
        assert!(svg.contains("25 samples, 25.00 %"));
        assert!(svg.contains("gnudi: 1.2 s of processor time in 10 s, by"), "{svg}");
    }

    #[test]
    fn names_are_text_whatever_they_hold() {
        let svg = draw(&stacks(&["t;<core::pin::Pin<P> as F>::poll&]]>\"\u{1} 1"]), OPTIONS, USED);
        assert!(
            svg.contains("<title>&lt;core::pin::Pin&lt;P&gt; as F&gt;::poll&amp;]]&gt;\"\u{fffd}\n"),
            "{svg}"
        );
        assert!(!svg.contains('\u{1}'));
        assert_eq!(svg.matches("]]>").count(), 1, "that of the script");
    }

    #[test]
    fn a_name_is_cut_to_its_bar() {
        assert_eq!(fitted("abcdef", 6.0 + 6.0 * CHARACTER_WIDTH + 0.1), "abcdef");
        assert_eq!(fitted("abcdef", 6.0 + 5.0 * CHARACTER_WIDTH + 0.1), "abc..");
        assert_eq!(fitted("abcdef", 6.0 + 2.0 * CHARACTER_WIDTH + 0.1), "");
        assert_eq!(fitted("abcdef", 0.2), "");
    }

    #[test]
    fn what_cannot_be_seen_is_left_out_and_leaves_its_place() {
        let svg = draw(&stacks(&["t;a 1", "t;b 9999"]), OPTIONS, USED);
        assert!(!svg.contains("<title>a\n"));
        assert_eq!(bar(&svg, "b")[0], 1.0);
    }

    #[test]
    fn without_samples_it_says_so() {
        let svg = draw(&Stacks::default(), OPTIONS, USED);
        assert!(svg.contains("No samples") && svg.ends_with("</svg>\n") && !svg.contains("<script"));
    }
}

//! The fast parser of measures: `[{"timestamp": "2015-01-01T12:00:00", "value": 4.2}, ...]` and batches.
//!
//! It accepts the regular bodies that clients send: two keys in either order, timestamps that are all plain
//! ISO strings or all numbers, values that are JSON numbers. On anything else (escapes, other keys, literals,
//! dates outside 1970 to 2261, errors) it returns [`Scan::Irregular`] for the whole body, and `slow` parses
//! it. Where both accept a body, their results are equal to the bit; a property test and a fuzz target verify
//! that.
//!
//! Techniques: the text around the values is learnt from one measure and compared by whole words in the next;
//! a date is converted once while it repeats; digits are parsed eight at a time.

use std::ops::Range;

use gnudi_model::{
    Measure, MetricId, Timestamp,
    timestamp::{days_from_civil, days_in_month},
};
use uuid::Uuid;

use super::number;

/// The result of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scan {
    /// All measures were read.
    Regular,
    /// The body is irregular; ignore the measures appended so far.
    Irregular,
    /// The body has more measures than allowed.
    TooMany,
}

/// One metric of a batch; its measures are `range` of the parsed measures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricMeasures {
    pub metric: MetricId,
    pub range: Range<usize>,
}

/// Parses a list of measures; appends at most `measures_max` of them to `out`.
pub fn list(input: &[u8], measures_max: usize, out: &mut Vec<Measure>) -> Scan {
    let mut scanner = Scanner::new(input, measures_max);
    let done = scanner.measures(out).and_then(|()| scanner.end());
    scanner.outcome(done)
}

/// Parses an object of lists by metric id; appends to both vectors.
pub fn batch(
    input: &[u8],
    measures_max: usize,
    metrics: &mut Vec<MetricMeasures>,
    out: &mut Vec<Measure>,
) -> Scan {
    let mut scanner = Scanner::new(input, measures_max);
    let done = scanner.metrics(metrics, out).and_then(|()| scanner.end());
    scanner.outcome(done)
}

const SPACE: [bool; 256] = {
    let mut table = [false; 256];
    table[b' ' as usize] = true;
    table[b'\t' as usize] = true;
    table[b'\r' as usize] = true;
    table[b'\n' as usize] = true;
    table
};

/// A text of up to 32 bytes, compared as one or two overlapping words of 16 bytes.
#[derive(Clone, Copy)]
struct Pattern {
    head: u128,
    /// The bytes of the first word to compare.
    mask: u128,
    tail: u128,
    length: usize,
}

const WORD: usize = size_of::<u128>();

impl Pattern {
    const NEVER: Pattern = Pattern { head: 1, mask: 0, tail: 0, length: 0 };

    /// A pattern of the text; it never matches if the text is empty or too long.
    fn new(text: &[u8]) -> Self {
        if text.is_empty() || text.len() > 2 * WORD {
            return Pattern::NEVER;
        }
        let mut padded = [0; 2 * WORD];
        padded[..text.len()].copy_from_slice(text);
        let head = word(&padded, 0).expect("it is long enough");
        if text.len() <= WORD {
            let mask = u128::MAX >> (8 * (WORD - text.len()));
            return Pattern { head, mask, tail: 0, length: text.len() };
        }
        let tail = word(&padded, text.len() - WORD).expect("it is long enough");
        Pattern { head, mask: u128::MAX, tail, length: text.len() }
    }

    #[inline]
    fn matches(&self, input: &[u8], at: usize) -> bool {
        word(input, at).is_some_and(|head| head & self.mask == self.head)
            && (self.length <= WORD || word(input, at + self.length - WORD) == Some(self.tail))
    }
}

#[inline]
fn word(input: &[u8], at: usize) -> Option<u128> {
    input.get(at..)?.first_chunk().map(|word| u128::from_le_bytes(*word))
}

/// The text around the previous measure's values: before the first, between them, and after the second. It
/// includes the timestamp's quotes.
#[derive(Clone, Copy)]
struct Layout {
    before: Pattern,
    between: Pattern,
    after: Pattern,
    timestamp_first: bool,
}

/// The timestamps' form in a list; as in Gnocchi, the first one decides.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Iso,
    Seconds,
}

pub(super) struct Scanner<'a> {
    input: &'a [u8],
    at: usize,
    room: usize,
    too_many: bool,
    date_text: [u8; 10],
    date_ns: i64,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(input: &'a [u8], room: usize) -> Self {
        Scanner { input, at: 0, room, too_many: false, date_text: *b"1970-01-01", date_ns: 0 }
    }

    pub(super) fn outcome(&self, done: Option<()>) -> Scan {
        match done {
            Some(()) => Scan::Regular,
            None if self.too_many => Scan::TooMany,
            None => Scan::Irregular,
        }
    }

    fn skip_space(&mut self) {
        while self.input.get(self.at).is_some_and(|byte| SPACE[usize::from(*byte)]) {
            self.at += 1;
        }
    }

    pub(super) fn peek(&mut self) -> Option<u8> {
        self.skip_space();
        self.input.get(self.at).copied()
    }

    pub(super) fn expect(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    pub(super) fn end(&mut self) -> Option<()> {
        self.skip_space();
        (self.at == self.input.len()).then_some(())
    }

    /// Parses an object; calls `entry` with each key, to parse its value.
    pub(super) fn object(&mut self, mut entry: impl FnMut(&mut Self, &'a [u8]) -> Option<()>) -> Option<()> {
        self.expect(b'{')?;
        if self.peek()? == b'}' {
            self.at += 1;
            return Some(());
        }
        loop {
            let key = self.plain_string()?;
            self.expect(b':')?;
            entry(self, key)?;
            match self.peek()? {
                b',' => self.at += 1,
                b'}' => {
                    self.at += 1;
                    return Some(());
                }
                _ => return None,
            }
        }
    }

    /// The bytes of a string without escapes.
    pub(super) fn plain_string(&mut self) -> Option<&'a [u8]> {
        self.expect(b'"')?;
        let rest = &self.input[self.at..];
        let length = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0))?;
        self.at += length + 1;
        (rest[length] == b'"').then_some(&rest[..length])
    }

    fn metrics(&mut self, metrics: &mut Vec<MetricMeasures>, out: &mut Vec<Measure>) -> Option<()> {
        self.object(|scanner, key| {
            let text: &[u8; 36] = key.try_into().ok()?;
            let metric = MetricId(Uuid::try_parse_ascii(text).ok()?);
            let start = out.len();
            scanner.measures(out)?;
            metrics.push(MetricMeasures { metric, range: start..out.len() });
            Some(())
        })
    }

    pub(super) fn measures(&mut self, out: &mut Vec<Measure>) -> Option<()> {
        self.expect(b'[')?;
        if self.peek()? == b']' {
            self.at += 1;
            return Some(());
        }
        // The first measure has no comma before it, so it has no layout to repeat.
        let mut lead = None;
        let mut form = None;
        loop {
            let (measure, measure_form, layout) = self.measure(lead)?;
            if *form.get_or_insert(measure_form) != measure_form {
                return None;
            }
            self.push(measure, out)?;
            // While the text around the values repeats, only the values are parsed.
            match measure_form {
                Form::Iso => self.repeat(&layout, out, Self::iso)?,
                Form::Seconds => self.repeat(&layout, out, Self::seconds)?,
            }
            lead = Some(self.at);
            match self.peek()? {
                b',' => self.at += 1,
                b']' => {
                    self.at += 1;
                    return Some(());
                }
                _ => return None,
            }
        }
    }

    fn push(&mut self, measure: Measure, out: &mut Vec<Measure>) -> Option<()> {
        if self.room == 0 {
            self.too_many = true;
            return None;
        }
        self.room -= 1;
        out.push(measure);
        Some(())
    }

    /// Parses measures with this layout, up to the first that differs; `None` at the limit.
    #[inline]
    fn repeat(
        &mut self,
        layout: &Layout,
        out: &mut Vec<Measure>,
        timestamp: impl Fn(&mut Self) -> Option<Timestamp>,
    ) -> Option<()> {
        loop {
            let start = self.at;
            let Some(measure) = self.repeated(layout, &timestamp) else {
                self.at = start;
                return Some(());
            };
            self.push(measure, out)?;
        }
    }

    #[inline]
    fn repeated(
        &mut self,
        layout: &Layout,
        timestamp: impl Fn(&mut Self) -> Option<Timestamp>,
    ) -> Option<Measure> {
        let pattern = |scanner: &mut Self, pattern: &Pattern| {
            pattern.matches(scanner.input, scanner.at).then(|| scanner.at += pattern.length)
        };
        pattern(self, &layout.before)?;
        let measure = if layout.timestamp_first {
            let timestamp = timestamp(self)?;
            pattern(self, &layout.between)?;
            Measure { timestamp, value: self.value()? }
        } else {
            let value = self.value()?;
            pattern(self, &layout.between)?;
            Measure { timestamp: timestamp(self)?, value }
        };
        pattern(self, &layout.after)?;
        Some(measure)
    }

    /// Parses one measure by the grammar and learns its layout; `lead` is the end of the previous measure.
    #[cold]
    fn measure(&mut self, lead: Option<usize>) -> Option<(Measure, Form, Layout)> {
        self.expect(b'{')?;
        let timestamp_first = self.key()?;
        let mut form = Form::Seconds;
        let first = self.field(timestamp_first, &mut form)?;
        self.expect(b',')?;
        if self.key()? == timestamp_first {
            return None;
        }
        let second = self.field(!timestamp_first, &mut form)?;
        self.expect(b'}')?;
        let layout = Layout {
            before: lead.map_or(Pattern::NEVER, |lead| Pattern::new(&self.input[lead..first.start])),
            between: Pattern::new(&self.input[first.end..second.start]),
            after: Pattern::new(&self.input[second.end..self.at]),
            timestamp_first,
        };
        let (timestamp, value) = if timestamp_first { (first, second) } else { (second, first) };
        let timestamp = Timestamp(timestamp.number.to_bits() as i64);
        Some((Measure { timestamp, value: value.number }, form, layout))
    }

    /// Parses a key and its colon: true for `timestamp`, false for `value`.
    fn key(&mut self) -> Option<bool> {
        self.expect(b'"')?;
        let rest = &self.input[self.at..];
        let (is_timestamp, length) = if rest.starts_with(b"timestamp\"") {
            (true, 10)
        } else if rest.starts_with(b"value\"") {
            (false, 6)
        } else {
            return None;
        };
        self.at += length;
        self.expect(b':')?;
        Some(is_timestamp)
    }

    fn field(&mut self, is_timestamp: bool, form: &mut Form) -> Option<Field> {
        let quoted = self.peek()? == b'"';
        if !is_timestamp {
            let start = self.at;
            return Some(Field { start, number: self.value()?, end: self.at });
        }
        if quoted {
            self.at += 1;
            *form = Form::Iso;
        }
        let start = self.at;
        let timestamp = if quoted { self.iso()? } else { self.seconds()? };
        let field = Field { start, number: f64::from_bits(timestamp.0 as u64), end: self.at };
        if quoted {
            (self.input.get(self.at) == Some(&b'"')).then(|| self.at += 1)?;
        }
        Some(field)
    }

    #[inline]
    fn value(&mut self) -> Option<f64> {
        let (value, end) = number::read(self.input, self.at)?;
        self.at = end;
        Some(value)
    }

    /// Seconds since the epoch, converted through a float as in Gnocchi.
    #[inline]
    fn seconds(&mut self) -> Option<Timestamp> {
        let nanoseconds = self.value()? * 1e9;
        // The upper bound is the largest double below 2^63; NaN is not in the range.
        (0.0..9_223_372_036_854_774_784.0).contains(&nanoseconds).then_some(Timestamp(nanoseconds as i64))
    }

    /// `YYYY-MM-DDTHH:MM:SS`, with `T` or a space, an optional fraction of up to nine digits, and an optional
    /// zero offset. Stops before the closing quote.
    #[inline]
    fn iso(&mut self) -> Option<Timestamp> {
        let text: &[u8; 19] = self.input.get(self.at..)?.first_chunk()?;
        let date: &[u8; 10] = text.first_chunk()?;
        if *date != self.date_text {
            self.date_ns = date_ns(date)?;
            self.date_text = *date;
        }
        if text[10] != b'T' && text[10] != b' ' {
            return None;
        }
        let seconds = second_of_day(*text.last_chunk()?)?;
        self.at += 19;
        let mut nanoseconds = self.date_ns + seconds * 1_000_000_000;
        if self.input.get(self.at) != Some(&b'"') {
            nanoseconds += self.iso_tail()?;
        }
        Some(Timestamp(nanoseconds))
    }

    /// The fraction in nanoseconds, and the zero offset.
    fn iso_tail(&mut self) -> Option<i64> {
        let mut fraction = 0;
        if self.input.get(self.at) == Some(&b'.') {
            let start = self.at + 1;
            let mut end = start;
            while let Some(digit @ b'0'..=b'9') = self.input.get(end) {
                if end - start == 9 {
                    return None;
                }
                fraction = fraction * 10 + i64::from(digit - b'0');
                end += 1;
            }
            if end == start {
                return None;
            }
            fraction *= 10_i64.pow(9 - (end - start) as u32);
            self.at = end;
        }
        let rest = &self.input[self.at..];
        if rest.starts_with(b"Z\"") {
            self.at += 1;
        } else if rest.starts_with(b"+00:00\"") {
            self.at += 6;
        } else if rest.first() != Some(&b'"') {
            return None;
        }
        Some(fraction)
    }
}

/// A field's value and its start, without quotes. A timestamp's nanoseconds are stored as the bits of the
/// float.
struct Field {
    start: usize,
    number: f64,
    end: usize,
}

/// Midnight of `YYYY-MM-DD`, in nanoseconds since the epoch; `None` for years not fully within the range.
fn date_ns(text: &[u8; 10]) -> Option<i64> {
    let digits = |range: Range<usize>| {
        text[range].iter().try_fold(0_i64, |number, byte| {
            byte.is_ascii_digit().then(|| number * 10 + i64::from(byte - b'0'))
        })
    };
    let (year, month, day) = (digits(0..4)?, digits(5..7)?, digits(8..10)?);
    if text[4] != b'-' || text[7] != b'-' || !(1970..=2261).contains(&year) {
        return None;
    }
    if !(1..=12).contains(&month) || !(1..=days_in_month(year, month)).contains(&day) {
        return None;
    }
    Some(days_from_civil(year, month, day) * 86_400_000_000_000)
}

/// Seconds since midnight of `HH:MM:SS`.
#[inline]
fn second_of_day(text: [u8; 8]) -> Option<i64> {
    let digits = u64::from_le_bytes(text) ^ u64::from_le_bytes(*b"00:00:00");
    // Now each byte is a digit's value, or zero in place of a colon.
    let too_large = digits.wrapping_add(u64::from_le_bytes([118, 118, 127, 118, 118, 127, 118, 118]));
    if (too_large | digits) & 0x8080_8080_8080_8080 != 0 {
        return None;
    }
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8);
    let (hour, minute, second) = (pairs & 0xff, (pairs >> 24) & 0xff, (pairs >> 48) & 0xff);
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    Some((hour * 3600 + minute * 60 + second) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measures(input: &str) -> Option<Vec<(i64, f64)>> {
        let mut out = Vec::new();
        match list(input.as_bytes(), 1000, &mut out) {
            Scan::Regular => Some(out.iter().map(|measure| (measure.timestamp.0, measure.value)).collect()),
            Scan::Irregular => None,
            Scan::TooMany => panic!("{input}"),
        }
    }

    #[test]
    fn reads_the_layouts_that_clients_send() {
        let expected = Some(vec![
            (1_420_113_600_000_000_000, 4.2),
            (1_420_113_601_000_000_000, -17.0),
            (1_420_200_002_500_000_000, 1e30),
        ]);
        for text in [
            r#"[{"timestamp": "2015-01-01T12:00:00", "value": 4.2}, {"timestamp": "2015-01-01T12:00:01", "value": -17}, {"timestamp": "2015-01-02T12:00:02.5", "value": 1e30}]"#,
            r#"[{"timestamp":"2015-01-01 12:00:00","value":4.2},{"timestamp":"2015-01-01 12:00:01Z","value":-17},{"timestamp":"2015-01-02 12:00:02.500000+00:00","value":1e30}]"#,
            r#"[{"value":4.2,"timestamp":"2015-01-01T12:00:00"},{"value":-17,"timestamp":"2015-01-01T12:00:01"},{"value":1e30,"timestamp":"2015-01-02T12:00:02.500"}]"#,
            r#"[{"value": 4.2, "timestamp": 1420113600}, {"timestamp": 1420113601.0, "value": -17}, {"value": 1e30, "timestamp": 1420200002.5}]"#,
            "\n[\n  {\n    \"timestamp\"\t: \"2015-01-01T12:00:00\" ,\r\n \"value\" : 4.2 }\n,\n {\"timestamp\":\"2015-01-01T12:00:01\",\"value\":-17}  , {\"timestamp\":\"2015-01-02T12:00:02.5\", \"value\":1e30}]\n",
        ] {
            assert_eq!(measures(text), expected, "{text}");
        }
        assert_eq!(measures("[]"), Some(vec![]));
        assert_eq!(measures(" [ ] "), Some(vec![]));
    }

    #[test]
    fn hands_over_what_is_irregular() {
        for text in [
            "",
            "[",
            "{}",
            "[] x",
            "[{}]",
            r#"[{"timestamp": 1}]"#,
            r#"[{"timestamp": 1, "timestamp": 2}]"#,
            r#"[{"timestamp": 1, "value": 2, "unit": 3}]"#,
            r#"[{"timestamp": 1, "value": 2},]"#,
            r#"[{"timestamp": 1, "value": 2} {"timestamp": 1, "value": 2}]"#,
            r#"[{"timestamp": 1, "value": 2}{"timestamp": 1, "value": 2}{"timestamp": 1, "value": 2}]"#,
            r#"[{"timestamp": 1, "value": 2}, {"timestamp": "2015-01-01T12:00:00", "value": 2}]"#,
            r#"[{"timestamp": "1", "value": 2}]"#,
            r#"[{"timestamp": -1, "value": 2}]"#,
            r#"[{"timestamp": 1e10, "value": 2}]"#,
            r#"[{"timestamp": 1, "value": "2"}]"#,
            r#"[{"timestamp": 1, "value": NaN}]"#,
            r#"[{"timestamp": 1, "value": null}]"#,
            r#"[{"timest\u0061mp": 1, "value": 1}]"#,
            r#"[{"timestamp": "2015-01-01", "value": 2}]"#,
            r#"[{"timestamp": "2015-02-29T12:00:00", "value": 2}]"#,
            r#"[{"timestamp": "2015-01-01T24:00:00", "value": 2}]"#,
            r#"[{"timestamp": "2015-01-01T12:60:00", "value": 2}]"#,
            r#"[{"timestamp": "2015-01-01T12:00:60", "value": 2}]"#,
            r#"[{"timestamp": "2015-01-01T12:00:00.", "value": 2}]"#,
            r#"[{"timestamp": "2015-01-01T12:00:00.1234567890", "value": 2}]"#,
            r#"[{"timestamp": "2015-01-01T12:00:00+01:00", "value": 2}]"#,
            r#"[{"timestamp": "2015/01/01T12:00:00", "value": 2}]"#,
            r#"[{"timestamp": "2015-01-01T12-00-00", "value": 2}]"#,
            r#"[{"timestamp": "1969-12-31T12:00:00", "value": 2}]"#,
            r#"[{"timestamp": "2262-01-01T12:00:00", "value": 2}]"#,
            r#"[{"timestamp": "2015-01-01T12:00:00, "value": 2}]"#,
        ] {
            assert_eq!(measures(text), None, "{text}");
            // With bytes after it, whole words are compared up to its end.
            assert_eq!(measures(&format!("{text:200}")), None, "{text}");
        }
    }

    #[test]
    fn stops_at_the_limit() {
        let body = format!("[{}]", [r#"{"timestamp": 1, "value": 2}"#; 11].join(", "));
        assert_eq!(list(body.as_bytes(), 10, &mut Vec::new()), Scan::TooMany);
        assert_eq!(list(body.as_bytes(), 11, &mut Vec::new()), Scan::Regular);
    }

    #[test]
    fn reads_batches() {
        let body = br#"{"5dfe182a-51d2-4122-b90b-df0f215b736e": [{"timestamp": 1, "value": 2}, {"timestamp": 2, "value": 2}],
            "5DFE182A-51D2-4122-B90B-DF0F215B736F": [], "00000000-0000-0000-0000-000000000001":[{"value":0.5,"timestamp":"1970-01-01T00:00:00"}]}"#;
        let (mut metrics, mut out) = (Vec::new(), Vec::new());
        assert_eq!(batch(body, 3, &mut metrics, &mut out), Scan::Regular);
        let ranges: Vec<_> =
            metrics.iter().map(|part| (part.metric.to_string(), part.range.clone())).collect();
        assert_eq!(
            ranges,
            [
                ("5dfe182a-51d2-4122-b90b-df0f215b736e".to_owned(), 0..2),
                ("5dfe182a-51d2-4122-b90b-df0f215b736f".to_owned(), 2..2),
                ("00000000-0000-0000-0000-000000000001".to_owned(), 2..3),
            ]
        );
        assert_eq!(out[2], Measure { timestamp: Timestamp(0), value: 0.5 });
        assert_eq!(batch(body, 2, &mut Vec::new(), &mut Vec::new()), Scan::TooMany);
        for body in [
            "[]",
            r#"{"foo": []}"#,
            r#"{"5dfe182a51d24122b90bdf0f215b736e":[]}"#,
            "{} x",
            r#"{"5dfe182a-51d2-4122-b90b-df0f215b736e": 1}"#,
        ] {
            assert_eq!(
                batch(body.as_bytes(), 2, &mut Vec::new(), &mut Vec::new()),
                Scan::Irregular,
                "{body}"
            );
        }
    }
}

//! Writes points as `[["2013-01-01T12:00:00+00:00", 60.0, 4.2], ...]`, byte for byte as Gnocchi does.
//!
//! A row is built from a template with the date and the granularity: from one point to the next only the
//! digits of the time change, and the value is appended.

use std::sync::Arc;

use bytes::Bytes;
use gnudi_app::json::float;
use gnudi_engine::{Measures, Resample};
use gnudi_model::Timestamp;
use parking_lot::Mutex;

/// The size of a piece.
const PIECE_BYTES: usize = 64 << 10;

/// The longest row without its value: the granularity is a float, or a quoted letter.
const TEMPLATE_BYTES: usize = 72;

/// The longest row, with its value and bracket.
pub(super) const ROW_BYTES_MAX: usize = TEMPLATE_BYTES + float::ROOM_BYTES;

/// The points of one aggregation, oldest first, with the text of the granularity column.
#[derive(Clone, Debug)]
pub struct Column {
    /// As JSON: `60.0`, or `"W"` for calendar weeks.
    pub granularity: String,
    pub timestamps: Arc<Vec<Timestamp>>,
    pub values: Vec<f64>,
    /// Decimals of the seconds.
    fraction_digits: usize,
}

impl Column {
    /// For aggregates: times are truncated to seconds, as in Gnocchi.
    pub fn new(granularity: Resample, timestamps: Arc<Vec<Timestamp>>, values: Vec<f64>) -> Self {
        Column { granularity: self::granularity(granularity), timestamps, values, fraction_digits: 0 }
    }

    /// For aggregates as they were read, and perhaps resampled.
    pub fn of(measures: Measures, resample: Option<Resample>) -> Self {
        let granularity = resample.unwrap_or(Resample::Span(measures.granularity));
        Column::new(granularity, Arc::new(measures.timestamps), measures.values)
    }

    /// For raw points: times are written in full.
    pub fn of_raw_points(points: Measures) -> Self {
        let fraction_digits = fraction_digits(&points.timestamps);
        Column { fraction_digits, ..Column::of(points, None) }
    }
}

/// The number of decimals that represents all times exactly: 0, 3, 6 or 9.
fn fraction_digits(timestamps: &[Timestamp]) -> usize {
    const UNITS: [(i64, usize); 3] = [(1_000_000_000, 0), (1_000_000, 3), (1_000, 6)];
    let fits = |unit: i64| timestamps.iter().all(|time| time.0 % unit == 0);
    UNITS.into_iter().find(|(unit, _)| fits(*unit)).map_or(9, |(_, digits)| digits)
}

/// The granularity column, as JSON.
pub fn granularity(granularity: Resample) -> String {
    let span = match granularity {
        Resample::Calendar(calendar) => return format!("\"{}\"", calendar.letter()),
        Resample::Span(span) => span,
    };
    let mut text = Vec::new();
    float::write(span.as_secs_f64(), &mut text);
    String::from_utf8(text).expect("floats are ASCII")
}

/// The points of all columns, concatenated to one JSON list, written in pieces.
pub struct Rows {
    columns: Vec<Column>,
    column: usize,
    row: usize,
    progress: Progress,
}

/// The progress of writing the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Before,
    /// The opening bracket is written, but no row.
    Opened,
    InRows,
    Closed,
}

impl Rows {
    pub fn new(columns: Vec<Column>) -> Self {
        Rows { columns, column: 0, row: 0, progress: Progress::Before }
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.columns.iter().map(|column| column.timestamps.len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends rows until `out` holds about `bytes`, at least one if any are left; returns whether there are
    /// more.
    pub fn write(&mut self, bytes: usize, out: &mut Vec<u8>) -> bool {
        let mut end = out.len();
        let more = self.put(bytes, out, &mut end);
        out.truncate(end);
        more
    }

    /// [`Rows::write`] at offset `end`, overwriting what `out` has there.
    fn put(&mut self, bytes: usize, out: &mut Vec<u8>, end: &mut usize) -> bool {
        if self.progress == Progress::Before {
            put_byte(b'[', out, end);
            self.progress = Progress::Opened;
        }
        let mut wrote = false;
        while let Some(column) = self.columns.get(self.column) {
            let timestamps = &column.timestamps[self.row..];
            let values = &column.values[self.row..];
            if !timestamps.is_empty() {
                if wrote && *end >= bytes {
                    return true;
                }
                wrote = true;
                let first = self.progress == Progress::Opened;
                let form = (&*column.granularity, column.fraction_digits);
                self.row += put_rows(timestamps, values, form, first, bytes, out, end);
                self.progress = Progress::InRows;
                if self.row < column.timestamps.len() {
                    return true;
                }
            }
            self.column += 1;
            self.row = 0;
        }
        self.progress = Progress::Closed;
        put_byte(b']', out, end);
        false
    }
}

fn put_byte(byte: u8, out: &mut Vec<u8>, end: &mut usize) {
    match out.get_mut(*end) {
        Some(place) => *place = byte,
        None => out.push(byte),
    }
    *end += 1;
}

impl Iterator for Rows {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.progress == Progress::Closed {
            return None;
        }
        let mut piece = Piece::take();
        let mut end = 0;
        self.put(PIECE_BYTES, &mut piece.bytes, &mut end);
        piece.length = end;
        Some(Bytes::from_owner(piece))
    }
}

/// A pool of buffers of sent pieces: they are zeroed once, not for each piece.
static PIECES: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// How many buffers the pool keeps: 4 MiB.
const PIECES_KEPT_MAX: usize = 64;

/// A piece of a response; its buffer returns to the pool on drop.
struct Piece {
    bytes: Vec<u8>,
    length: usize,
}

impl Piece {
    fn take() -> Self {
        let kept = PIECES.lock().pop();
        // Allocated at full length, so that it never grows.
        let bytes = kept.unwrap_or_else(|| vec![0; PIECE_BYTES + 2 * ROW_BYTES_MAX]);
        Piece { bytes, length: 0 }
    }
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let mut kept = PIECES.lock();
        if kept.len() < PIECES_KEPT_MAX {
            kept.push(std::mem::take(&mut self.bytes));
        }
    }
}

/// Offsets in the template: the date, the time, and the fraction's dot.
const DATE_AT: usize = 4;
const TIME_AT: usize = 15;
const FRACTION_AT: usize = 23;

/// A row without its value: `, ["1970-01-01T00:00:00+00:00", 60.0, `.
struct Template {
    text: [u8; TEMPLATE_BYTES],
    length: usize,
    /// The second at which the template's day begins.
    day: i64,
    /// Decimals of the seconds: 0, 3, 6 or 9.
    fraction_digits: usize,
}

impl Template {
    fn new(granularity: &str, fraction_digits: usize) -> Self {
        let fraction = &".000000000"[..if fraction_digits > 0 { 1 + fraction_digits } else { 0 }];
        let row = format!(", [\"1970-01-01T00:00:00{fraction}+00:00\", {granularity}, ");
        let mut text = [0; TEMPLATE_BYTES];
        text[..row.len()].copy_from_slice(row.as_bytes());
        Template { text, length: row.len(), day: 0, fraction_digits }
    }

    /// Writes the row of a time to the start of `row`, without its value.
    #[inline]
    fn put(&mut self, timestamp: Timestamp, row: &mut [u8; ROW_BYTES_MAX]) {
        let second = timestamp.secs();
        let mut second_of_day = second - self.day;
        if !(0..86_400).contains(&second_of_day) {
            second_of_day = second.rem_euclid(86_400);
            self.day = second - second_of_day;
            self.set_date(timestamp);
        }
        let second_of_day = second_of_day as u32;
        let (hour, minute, second) = (second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60);
        let [hour_tens, hour_ones] = DIGITS[hour as usize];
        let [minute_tens, minute_ones] = DIGITS[minute as usize];
        let [second_tens, second_ones] = DIGITS[second as usize];
        // Write the time to the row, not to the template: reading back bytes just written at another width
        // stalls the CPU's store forwarding.
        row[..TEMPLATE_BYTES].copy_from_slice(&self.text);
        row[TIME_AT..TIME_AT + 8].copy_from_slice(&[
            hour_tens,
            hour_ones,
            b':',
            minute_tens,
            minute_ones,
            b':',
            second_tens,
            second_ones,
        ]);
        if self.fraction_digits > 0 {
            let unit = 10u32.pow(9 - self.fraction_digits as u32);
            let mut fraction = timestamp.0.rem_euclid(1_000_000_000) as u32 / unit;
            for digit in row[FRACTION_AT + 1..=FRACTION_AT + self.fraction_digits].iter_mut().rev() {
                *digit = b'0' + (fraction % 10) as u8;
                fraction /= 10;
            }
        }
    }

    #[cold]
    fn set_date(&mut self, timestamp: Timestamp) {
        let mut text = Vec::with_capacity(25);
        timestamp.write_iso(&mut text);
        self.text[DATE_AT..DATE_AT + 10].copy_from_slice(&text[..10]);
    }
}

/// Writes rows to `out` at offset `up_to`, until it holds `bytes`, at least one; returns the number of rows.
fn put_rows(
    timestamps: &[Timestamp],
    values: &[f64],
    (granularity, fraction_digits): (&str, usize),
    first: bool,
    bytes: usize,
    out: &mut Vec<u8>,
    up_to: &mut usize,
) -> usize {
    let mut template = Template::new(granularity, fraction_digits);
    let mut printer = float::Printer::default();
    let (start, mut end) = (*up_to, *up_to);
    let mut written = 0;
    for (timestamp, value) in timestamps.iter().zip(values) {
        if end >= bytes && written > 0 {
            break;
        }
        // Rows are copied at full, constant length; the next one begins at the end of the text.
        if out.len() < end + ROW_BYTES_MAX {
            let room = bytes.min(PIECE_BYTES).max(end - start);
            out.resize(end + room + 2 * ROW_BYTES_MAX, 0);
        }
        let row = out[end..].first_chunk_mut().expect("there is room for a row");
        template.put(*timestamp, row);
        let rest = &mut row[template.length..];
        let length = printer.put(*value, rest.first_chunk_mut().expect("a row has room for a float"));
        rest[length] = b']';
        end += template.length + length + 1;
        written += 1;
    }
    if first {
        // The list's first row has no comma before it.
        out.copy_within(start + 2..end, start);
        end -= 2;
    }
    *up_to = end;
    written
}

/// "00" to "59".
const DIGITS: [[u8; 2]; 60] = {
    let mut digits = [[0; 2]; 60];
    let mut number = 0;
    while number < 60 {
        digits[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    digits
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(columns: &[Column]) -> String {
        let mut out = Vec::new();
        assert!(!Rows::new(columns.to_vec()).write(usize::MAX, &mut out));
        String::from_utf8(out).unwrap()
    }

    fn column(granularity: &str, points: &[(i64, f64)]) -> Column {
        let (timestamps, values) = points.iter().map(|(time, value)| (Timestamp(*time), *value)).unzip();
        let granularity = granularity.to_owned();
        Column { granularity, timestamps: Arc::new(timestamps), values, fraction_digits: 0 }
    }

    #[test]
    fn raw_points_show_their_whole_times() {
        let second = 1_356_998_400_000_000_000;
        for (nanoseconds, shown) in [(0, ""), (20_000_000, ".020"), (1_000, ".000001"), (10, ".000000010")] {
            let timestamps = vec![Timestamp(second), Timestamp(second + nanoseconds)];
            let points = Measures { timestamps, values: vec![1.0, 2.0], ..Measures::default() };
            let raw = Column::of_raw_points(points);
            let expected = format!("[\"2013-01-01T00:00:00{shown}+00:00\", 0.0, 2.0]]");
            assert!(text(&[raw]).ends_with(&expected));
        }
    }

    #[test]
    fn rows_look_as_gnocchi_prints_them() {
        let day = 1_356_998_400_000_000_000;
        assert_eq!(text(&[]), "[]");
        assert_eq!(text(&[column("60.0", &[])]), "[]");
        assert_eq!(
            text(&[
                column("3600.0", &[]),
                column("60.0", &[(day, 4.2), (day + 86_399_999_999_999, -0.0)]),
                column("\"W\"", &[(day + 86_400_000_000_000, f64::NAN)]),
            ]),
            r#"[["2013-01-01T00:00:00+00:00", 60.0, 4.2], ["2013-01-01T23:59:59+00:00", 60.0, -0.0], ["2013-01-02T00:00:00+00:00", "W", NaN]]"#
        );
    }

    proptest! {
        #[test]
        fn pieces_join_to_the_whole(
            points in prop::collection::vec((0..i64::MAX, any::<f64>()), 0..50),
            cut in 0..50_usize,
            bytes in 1..400_usize,
        ) {
            let (left, right) = points.split_at(cut.min(points.len()));
            let columns = vec![column("60.0", left), column("0.5", right)];
            let mut rows = Rows::new(columns.clone());
            let mut joined = Vec::new();
            loop {
                let mut piece = Vec::new();
                let more = rows.write(bytes, &mut piece);
                prop_assert!(piece.len() < bytes + ROW_BYTES_MAX);
                joined.extend_from_slice(&piece);
                if !more {
                    break;
                }
            }
            let expected: Vec<String> = columns
                .iter()
                .flat_map(|column| {
                    column.timestamps.iter().zip(&column.values).map(|(time, value)| {
                        let mut number = Vec::new();
                        float::write(*value, &mut number);
                        let number = String::from_utf8(number).unwrap();
                        format!("[\"{}\", {}, {number}]", time.to_iso(), column.granularity)
                    })
                })
                .collect();
            prop_assert_eq!(String::from_utf8(joined).unwrap(), format!("[{}]", expected.join(", ")));
        }
    }
}

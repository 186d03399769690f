//! The line protocol: `measurement,tag=value field=1.5,other=2i 1510581804179554816`.
//!
//! Names follow Gnocchi's rules (a quoted name is the content of its quotes), everything else InfluxDB's. An
//! invalid part makes the whole line an error.

use std::borrow::Cow;

use gnudi_app::ByKey;

/// The maximum length of a line's measurement and tags: InfluxDB's own limit.
pub const SERIES_BYTES_MAX: usize = 65_535;

/// Why a line is refused; the caller adds the line's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineError {
    Unreadable,
    /// It has more fields than the caller allows.
    Fields,
    /// Its measurement and tags exceed [`SERIES_BYTES_MAX`].
    Series,
    /// It ends within the text whose opening quote is at this byte.
    OpenText(usize),
}

/// One line. Texts are unescaped, and borrowed if they contain no escapes.
#[derive(Clone, Debug, PartialEq)]
pub struct Line<'a> {
    pub measurement: Cow<'a, str>,
    /// Sorted by key; the last value of a duplicate key wins.
    pub tags: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    /// In order of first appearance; the last value of a duplicate name wins.
    pub fields: Vec<(Cow<'a, str>, FieldValue)>,
    /// In units of the request's precision; `None` if absent.
    pub timestamp: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FieldValue {
    /// A float, an integer, or true (1) or false (0).
    Number(f64),
    /// Ignored: not a number.
    Text,
}

/// The unit of a request's timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Precision {
    nanoseconds: u64,
}

impl Precision {
    pub const NANOSECONDS: Precision = Precision { nanoseconds: 1 };

    /// Parses the argument `precision`.
    pub fn parse(text: &str) -> Option<Self> {
        let nanoseconds = match text {
            "" | "n" | "ns" => 1,
            "u" | "us" | "µ" | "µs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        Some(Precision { nanoseconds })
    }

    /// Nanoseconds since the epoch; `None` if out of range.
    pub fn to_nanoseconds(self, timestamp: u64) -> Option<i64> {
        timestamp.checked_mul(self.nanoseconds).and_then(|nanoseconds| i64::try_from(nanoseconds).ok())
    }
}

impl<'a> Line<'a> {
    /// The total bytes of its metrics' names: each field's, with the measurement and all tags.
    pub fn name_bytes(&self) -> usize {
        let tags: usize = self.tags.iter().map(|(key, value)| key.len() + value.len() + ",=".len()).sum();
        let fields: usize = self.fields.iter().map(|(field, _)| field.len() + ".".len()).sum();
        fields + self.fields.len() * (self.measurement.len() + tags)
    }

    /// Parses the first line of an input, which may have newlines in its texts, as in InfluxDB. Returns it with
    /// the input after its newline.
    pub fn first(input: &'a [u8], fields_max: usize) -> Result<(Option<Self>, &'a [u8]), LineError> {
        let read = |end: usize| {
            let text = std::str::from_utf8(&input[..end]).map_err(|_| LineError::Unreadable)?;
            Line::parse(text, fields_max)
        };
        let newline = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
        let (line, end) = match read(newline) {
            Err(LineError::OpenText(at)) => {
                let end = end_after_texts(input, at).ok_or(LineError::Unreadable)?;
                (read(end)?, end)
            }
            line => (line?, newline),
        };
        Ok((line, input.get(end + 1..).unwrap_or_default()))
    }

    /// Parses one line without its newline; `None` for a comment or blank line. Fails beyond `fields_max`
    /// fields.
    pub fn parse(line: &'a str, fields_max: usize) -> Result<Option<Self>, LineError> {
        let blanks = [' ', '\t', '\r'];
        let text = line.trim_matches(blanks);
        if text.is_empty() || text.starts_with('#') {
            return Ok(None);
        }
        let mut rest = Rest(text);
        let measurement = rest.name(", ")?;
        let mut tags = ByKey::default();
        while rest.take(',') {
            let key = rest.name(" ,=")?;
            rest.expect('=')?;
            tags.put(key, rest.name(" ,=")?);
            if text.len() - rest.0.len() > SERIES_BYTES_MAX {
                return Err(LineError::Series);
            }
        }
        if text.len() - rest.0.len() > SERIES_BYTES_MAX {
            return Err(LineError::Series);
        }
        let mut tags = tags.into_entries();
        tags.sort_by(|a, b| a.0.cmp(&b.0));
        rest.space()?;
        let mut fields = ByKey::default();
        loop {
            let key = rest.name(" ,=")?;
            rest.expect('=')?;
            let value = rest.field_value().ok_or_else(|| {
                let indent = line.len() - line.trim_start_matches(blanks).len();
                let is_open = rest.0.starts_with('"') && quoted(rest.0).is_none();
                let at = indent + text.len() - rest.0.len();
                if is_open { LineError::OpenText(at) } else { LineError::Unreadable }
            })?;
            fields.put(key, value);
            if fields.len() > fields_max {
                return Err(LineError::Fields);
            }
            if !rest.take(',') {
                break;
            }
        }
        let timestamp = if rest.0.is_empty() {
            None
        } else {
            rest.space()?;
            // Digits only: no sign, no fraction.
            let digits = rest.0.bytes().all(|byte| byte.is_ascii_digit());
            Some(rest.0.parse().ok().filter(|_| digits).ok_or(LineError::Unreadable)?)
        };
        Ok(Some(Line { measurement, tags, fields: fields.into_entries(), timestamp }))
    }
}

/// The unparsed rest of a line.
struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    fn take(&mut self, character: char) -> bool {
        self.0.strip_prefix(character).map(|rest| self.0 = rest).is_some()
    }

    fn expect(&mut self, character: char) -> Result<(), LineError> {
        self.take(character).then_some(()).ok_or(LineError::Unreadable)
    }

    /// One or more spaces.
    fn space(&mut self) -> Result<(), LineError> {
        self.expect(' ')?;
        self.0 = self.0.trim_start_matches(' ');
        Ok(())
    }

    /// A name up to one of `ends` or the line's end: quoted, or with those characters escaped by a backslash.
    fn name(&mut self, ends: &str) -> Result<Cow<'a, str>, LineError> {
        // Quotes within a name are ordinary characters.
        if let Some((name, rest)) = quoted(self.0)
            && (rest.is_empty() || rest.starts_with(|next| ends.contains(next)))
        {
            self.0 = rest;
            return storable(name);
        }
        let text = self.0;
        let bytes = text.as_bytes();
        let mut name: Cow<'a, str> = Cow::Borrowed("");
        let (mut start, mut at) = (0, 0);
        while let Some(&byte) = bytes.get(at) {
            if byte == b'\\' && bytes.get(at + 1).is_some_and(|next| b" ,=".contains(next)) {
                append(&mut name, &text[start..at]);
                start = at + 1;
                at += 2;
            } else if ends.as_bytes().contains(&byte) {
                break;
            } else {
                at += 1;
            }
        }
        append(&mut name, &text[start..at]);
        self.0 = &text[at..];
        storable(name)
    }

    /// A field's value; `None` if there is none here, and nothing is taken.
    fn field_value(&mut self) -> Option<FieldValue> {
        if let Some((_, rest)) = quoted(self.0) {
            self.0 = rest;
            return Some(FieldValue::Text);
        }
        let end = self.0.find([',', ' ']).unwrap_or(self.0.len());
        let (text, rest) = self.0.split_at(end);
        let value = number(text)?;
        self.0 = rest;
        Some(FieldValue::Number(value))
    }
}

/// Where a line ends that has a text with its opening quote at `at`: at the first newline outside of its texts, each
/// of which follows a `=`. `None` if a text does not end.
fn end_after_texts(input: &[u8], at: usize) -> Option<usize> {
    let (mut at, mut before, mut is_text) = (at + 1, b'"', true);
    while let Some(&byte) = input.get(at) {
        match byte {
            // The next character is escaped.
            b'\\' => at += 1,
            b'"' if is_text || before == b'=' => is_text = !is_text,
            b'\n' if !is_text => return Some(at),
            _ => {}
        }
        before = byte;
        at += 1;
    }
    (!is_text).then_some(input.len())
}

/// Databases cannot store NUL in texts.
fn storable(name: Cow<'_, str>) -> Result<Cow<'_, str>, LineError> {
    if name.is_empty() || name.contains('\0') { Err(LineError::Unreadable) } else { Ok(name) }
}

fn append<'a>(name: &mut Cow<'a, str>, piece: &'a str) {
    if name.is_empty() {
        *name = Cow::Borrowed(piece);
    } else if !piece.is_empty() {
        name.to_mut().push_str(piece);
    }
}

/// A leading quoted text and the rest; `None` if there is no pair of quotes.
pub(super) fn quoted(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let inner = text.strip_prefix('"')?;
    let mut out: Option<String> = None;
    let mut characters = inner.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => {
                let name = out.map_or(Cow::Borrowed(&inner[..at]), Cow::Owned);
                return Some((name, &inner[at + 1..]));
            }
            '\\' => {
                let escaped = match characters.next()?.1 {
                    't' => '\t',
                    'n' => '\n',
                    'f' => '\u{c}',
                    'r' => '\r',
                    other => other,
                };
                out.get_or_insert_with(|| inner[..at].to_owned()).push(escaped);
            }
            other => {
                if let Some(out) = &mut out {
                    out.push(other);
                }
            }
        }
    }
    None
}

/// A float, an integer (`5i`, `5u`), or a boolean as 1 or 0.
fn number(text: &str) -> Option<f64> {
    match text {
        "t" | "T" | "true" | "True" | "TRUE" => return Some(1.0),
        "f" | "F" | "false" | "False" | "FALSE" => return Some(0.0),
        _ => {}
    }
    if let Some(integer) = text.strip_suffix('i').or_else(|| text.strip_suffix('u')) {
        let digits = integer.strip_prefix(['-', '+']).unwrap_or(integer);
        let is_integer = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        return is_integer.then(|| integer.strip_prefix('+').unwrap_or(integer).parse().ok()).flatten();
    }
    // Refuses `inf` and `nan`.
    let first = text.bytes().find(|byte| !b"+-".contains(byte))?;
    if !(first.is_ascii_digit() || first == b'.') {
        return None;
    }
    fast_float2::parse(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<Line<'_>> {
        Line::parse(text, usize::MAX).expect("it is a line")
    }

    type Read = (String, Vec<(String, String)>, Vec<(String, Option<f64>)>, Option<u64>);

    fn read(text: &str) -> Read {
        let line = parse(text).expect("it is no comment");
        let tags = line.tags.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        let fields = line.fields.iter().map(|(key, value)| {
            let value = match value {
                FieldValue::Number(number) => Some(*number),
                FieldValue::Text => None,
            };
            (key.to_string(), value)
        });
        (line.measurement.to_string(), tags, fields.collect(), line.timestamp)
    }

    fn line(
        measurement: &str,
        tags: &[(&str, &str)],
        fields: &[(&str, Option<f64>)],
        timestamp: Option<u64>,
    ) -> Read {
        (
            measurement.to_owned(),
            tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            fields.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect(),
            timestamp,
        )
    }

    #[test]
    fn lines_are_read() {
        assert_eq!(
            read("mymetric,host=foobar,mytag=myvalue field=123 1510581804179554816"),
            line(
                "mymetric",
                &[("host", "foobar"), ("mytag", "myvalue")],
                &[("field", Some(123.0))],
                Some(1_510_581_804_179_554_816)
            )
        );
        assert_eq!(
            read("cpu,z=1,a=2,z=3 i=-5i,u=7u,f=1.5e3,s=\"a b,c=\\\" d\",t=T,n=false"),
            line(
                "cpu",
                &[("a", "2"), ("z", "3")],
                &[
                    ("i", Some(-5.0)),
                    ("u", Some(7.0)),
                    ("f", Some(1500.0)),
                    ("s", None),
                    ("t", Some(1.0)),
                    ("n", Some(0.0))
                ],
                None
            )
        );
        assert_eq!(read("m f=1,f=2 0\r"), line("m", &[], &[("f", Some(2.0))], Some(0)));
        assert_eq!(read("m  f=.5  7 "), line("m", &[], &[("f", Some(0.5))], Some(7)));
        for nothing in ["", " ", "\r", "# m f=1", "  #"] {
            assert_eq!(parse(nothing), None, "{nothing:?}");
        }
    }

    #[test]
    fn names_are_unescaped() {
        let names = |text| {
            let (measurement, tags, fields, _) = read(text);
            (measurement, tags[0].0.clone(), tags[0].1.clone(), fields[0].0.clone())
        };
        let expected =
            |a: &str, b: &str, c: &str, d: &str| (a.to_owned(), b.to_owned(), c.to_owned(), d.to_owned());
        assert_eq!(names(r"a\ b\,c,d\=e=f\ g h\,i=1"), expected("a b,c", "d=e", "f g", "h,i"));
        assert_eq!(names(r"C:\x\\y,k=\\server\n f=1"), expected(r"C:\x\\y", "k", r"\\server\n", "f"));
        assert_eq!(names("a=b,\"k 1\"=\"v,=\\t\\\"\" \"f\"=1"), expected("a=b", "k 1", "v,=\t\"", "f"));
        // An unclosed quote is an ordinary character, and so are quotes around a part of a name.
        assert_eq!(names("\"a,k=v f=1"), expected("\"a", "k", "v", "f"));
        assert_eq!(names(r#""a"b,k="C:"\ x f=1"#), expected("\"a\"b", "k", "\"C:\" x", "f"));
        assert_eq!(names("é,ü=ö ä=1"), expected("é", "ü", "ö", "ä"));
    }

    #[test]
    fn what_is_no_line_is_refused() {
        for text in [
            "m",
            "m ",
            "m f",
            "m f=",
            "m =1",
            ",k=v f=1",
            "m, f=1",
            "m,k f=1",
            "m,k= f=1",
            "m,=v f=1",
            "m,k=v",
            "m,k=v=w f=1",
            "m f=1 x",
            "m f=1 -5",
            "m f=1 1.5",
            "m f=1 1 1",
            "m f=1x",
            "m f=x",
            "m f=1,",
            "m f=1,g",
            "m f=nan",
            "m f=inf",
            "m f=-inf",
            "m f=i",
            "m f=1.5i",
            "m f=--1",
            "m f=\"x\"y",
            "\"\" f=1",
            "m f=1 99999999999999999999",
            "m f=1\tg=2",
            "m\0 f=1",
            "\"m\0\" f=1",
            "m,k=\"v\0\" f=1",
            "m,\"k\0\"=v f=1",
            "m \"f\0\"=1",
            "m f=tRUE",
            "m\\ f=1",
            "m f=0x10",
        ] {
            assert_eq!(Line::parse(text, usize::MAX), Err(LineError::Unreadable), "{text:?}");
        }
    }

    #[test]
    fn texts_may_have_newlines() {
        let all = |mut input: &'static str| {
            let mut lines = Vec::new();
            while !input.is_empty() {
                let (line, rest) = Line::first(input.as_bytes(), usize::MAX)?;
                lines.extend(line.map(|line| {
                    let fields: Vec<String> = line.fields.iter().map(|(name, _)| name.to_string()).collect();
                    (line.measurement.to_string(), fields, line.timestamp)
                }));
                input = &input[input.len() - rest.len()..];
            }
            Ok::<_, LineError>(lines)
        };
        let line = |name: &str, fields: &[&str], timestamp: Option<u64>| {
            let fields: Vec<String> = fields.iter().map(|field| (*field).to_owned()).collect();
            (name.to_owned(), fields, timestamp)
        };
        assert_eq!(
            all("a x=1 1\r\n\n# c=\"\nb y=2"),
            Ok(vec![line("a", &["x"], Some(1)), line("b", &["y"], None)])
        );
        assert_eq!(
            all(" a x=\"1\n\n, \\\"=\",y=2,z=\"\n\" 1\nb y=\"2\" 2\n"),
            Ok(vec![line("a", &["x", "y", "z"], Some(1)), line("b", &["y"], Some(2))])
        );
        for open in ["a x=\"1", "a x=\"1\nb y=2\n", "a x=\"1\n\"b y=2", "a x=\"\n\",y\\=\"\nb z=\"1\" 2"] {
            assert_eq!(all(open), Err(LineError::Unreadable), "{open:?}");
        }
        assert_eq!(Line::parse("\tm f=1,g=\"x", usize::MAX), Err(LineError::OpenText(9)));
    }

    #[test]
    fn a_line_is_no_longer_than_the_caller_takes() {
        assert!(Line::parse("m a=1,b=2", 2).is_ok());
        assert_eq!(Line::parse("m a=1,b=2,c=", 1), Err(LineError::Fields));
        let tagged = |bytes: usize| format!("m,t={} f=1", "x".repeat(bytes - "m,t=".len()));
        assert!(Line::parse(&tagged(SERIES_BYTES_MAX), 1).is_ok());
        assert_eq!(Line::parse(&tagged(SERIES_BYTES_MAX + 1), 1), Err(LineError::Series));
        let measurement = format!("{} f=1", "m".repeat(SERIES_BYTES_MAX + 1));
        assert_eq!(Line::parse(&measurement, 1), Err(LineError::Series));
    }

    #[test]
    fn precision_scales_times() {
        let at = |precision: &str, time| Precision::parse(precision).unwrap().to_nanoseconds(time);
        assert_eq!(at("", 5), Some(5));
        assert_eq!(at("us", 5), Some(5_000));
        assert_eq!(at("ms", 5), Some(5_000_000));
        assert_eq!(at("s", 5), Some(5_000_000_000));
        assert_eq!(at("m", 1), Some(60_000_000_000));
        assert_eq!(at("h", 1), Some(3_600_000_000_000));
        assert_eq!(at("h", 1 << 62), None);
        assert_eq!(at("n", u64::MAX), None);
        assert_eq!(Precision::parse("d"), None);
    }
}

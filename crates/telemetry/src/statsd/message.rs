//! Parses a line of a datagram: `name:value|type|@rate`; several values of one name are separated by colons.

use gnudi_model::python;

/// Maximum characters of a metric's name, type included.
const NAME_CHARACTERS_MAX: usize = 255;

/// Why a line or a value is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MalformedLine {
    #[error("a name that is too long, or holds | or NUL")]
    Name,
    #[error("not of the form name:value|type")]
    Form,
    #[error("not a number")]
    Number,
    #[error("no rate above 0")]
    Rate,
    #[error("an unknown type")]
    Type,
}

/// A value, by its type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StatsdValue<'a> {
    /// `ms`: a duration. Its sampling rate is ignored: it does not change the statistics of durations.
    Time(f64),
    /// `g`: a level; with a sign, a relative change.
    Level(f64),
    Change(f64),
    /// `c`: an increment, divided by the sampling rate.
    Count(f64),
    /// `s`: a member of a set; the measure is the set's size.
    Member(&'a str),
}

/// One value of one name. Its metric is `name|type`, slashes replaced by `_`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StatsdMessage<'a> {
    pub name: &'a str,
    pub value: StatsdValue<'a>,
}

impl StatsdMessage<'_> {
    /// The name of the metric.
    pub fn metric(&self) -> String {
        let kind = match self.value {
            StatsdValue::Time(_) => "ms",
            StatsdValue::Level(_) | StatsdValue::Change(_) => "g",
            StatsdValue::Count(_) => "c",
            StatsdValue::Member(_) => "s",
        };
        format!("{}|{kind}", self.name).replace('/', "_")
    }
}

/// The values of a line, each valid or malformed.
pub fn read(line: &str) -> impl Iterator<Item = Result<StatsdMessage<'_>, MalformedLine>> {
    let (name, values) = line.split_once(':').unwrap_or((line, ""));
    let characters_max = NAME_CHARACTERS_MAX - "|ms".len();
    // As in Gnocchi, a name may be empty.
    let is_name = !name.contains(['|', '\0'])
        && (name.len() <= characters_max || name.chars().count() <= characters_max);
    values.split(':').map(move |value| {
        let name = Some(name).filter(|_| is_name).ok_or(MalformedLine::Name)?;
        Ok(StatsdMessage { name, value: read_value(value)? })
    })
}

fn read_value(text: &str) -> Result<StatsdValue<'_>, MalformedLine> {
    let mut parts = text.split('|');
    let (value, kind, rate) =
        (parts.next().unwrap_or_default(), parts.next().ok_or(MalformedLine::Form)?, parts.next());
    if parts.next().is_some() {
        return Err(MalformedLine::Form);
    }
    let rate = rate.map_or(Ok(1.0), read_rate)?;
    match kind {
        "ms" => number(value).map(StatsdValue::Time),
        "g" if value.starts_with(['+', '-']) => number(value).map(StatsdValue::Change),
        "g" => number(value).map(StatsdValue::Level),
        "c" => Some(number(value)? * (1.0 / rate))
            .filter(|count| count.is_finite())
            .map(StatsdValue::Count)
            .ok_or(MalformedLine::Number),
        "s" if value.is_empty() => Err(MalformedLine::Form),
        "s" => Ok(StatsdValue::Member(value)),
        _ => Err(MalformedLine::Type),
    }
}

fn read_rate(text: &str) -> Result<f64, MalformedLine> {
    let rate = text.strip_prefix('@').and_then(|rate| number(rate).ok());
    rate.filter(|rate| *rate > 0.0).ok_or(MalformedLine::Rate)
}

fn number(text: &str) -> Result<f64, MalformedLine> {
    python::float_of_text(text).filter(|number| number.is_finite()).ok_or(MalformedLine::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(line: &str) -> Result<(String, StatsdValue<'_>), MalformedLine> {
        let all: Vec<_> = read(line).collect();
        assert_eq!(all.len(), 1, "{line}");
        all[0].map(|message| (message.metric(), message.value))
    }

    #[test]
    fn values_are_read_by_type() {
        for (line, metric, value) in [
            ("a.b:320|ms", "a.b|ms", StatsdValue::Time(320.0)),
            ("a:320|ms|@0.1", "a|ms", StatsdValue::Time(320.0)),
            ("a:1|c", "a|c", StatsdValue::Count(1.0)),
            ("a:3|c|@0.1", "a|c", StatsdValue::Count(30.0)),
            ("a:-2|c", "a|c", StatsdValue::Count(-2.0)),
            ("a:3|c|@2", "a|c", StatsdValue::Count(1.5)),
            ("a: 1_0 |c|@ 0.5 ", "a|c", StatsdValue::Count(20.0)),
            (":1|c", "|c", StatsdValue::Count(1.0)),
            ("a:333|g|@0.1", "a|g", StatsdValue::Level(333.0)),
            ("a:\u{663}|g", "a|g", StatsdValue::Level(3.0)),
            ("a:333|g", "a|g", StatsdValue::Level(333.0)),
            ("a:-3.5|g", "a|g", StatsdValue::Change(-3.5)),
            ("a:+3e2|g", "a|g", StatsdValue::Change(300.0)),
            ("a:x y|s", "a|s", StatsdValue::Member("x y")),
            ("/a/b é:1|c", "_a_b é|c", StatsdValue::Count(1.0)),
        ] {
            assert_eq!(one(line), Ok((metric.to_owned(), value)), "{line}");
        }
        let several: Vec<_> = read("a:1|c:2|ms:x|g").collect();
        assert_eq!(several[1], Ok(StatsdMessage { name: "a", value: StatsdValue::Time(2.0) }));
        assert_eq!((several.len(), several[2]), (3, Err(MalformedLine::Number)));
    }

    #[test]
    fn what_means_nothing_is_told() {
        for (line, error) in [
            ("", MalformedLine::Form),
            ("|c", MalformedLine::Name),
            ("a|b:1|c", MalformedLine::Name),
            ("a", MalformedLine::Form),
            ("a:", MalformedLine::Form),
            ("a:1", MalformedLine::Form),
            ("a:1|c|@1|#x", MalformedLine::Form),
            ("a:1|x", MalformedLine::Type),
            ("a:1|", MalformedLine::Type),
            ("a:|c", MalformedLine::Number),
            ("a:x|ms", MalformedLine::Number),
            ("a:nan|g", MalformedLine::Number),
            ("a:inf|c", MalformedLine::Number),
            ("a:1e308|c|@0.0001", MalformedLine::Number),
            ("a:--1|g", MalformedLine::Number),
            ("a:1__0|c", MalformedLine::Number),
            ("a:1|c|@0", MalformedLine::Rate),
            ("a:1|c|@-2", MalformedLine::Rate),
            ("a:1|c|@inf", MalformedLine::Rate),
            ("a:1|c|0.1", MalformedLine::Rate),
            ("a:1|c|@", MalformedLine::Rate),
            ("a:|s", MalformedLine::Form),
        ] {
            assert_eq!(one(line), Err(error), "{line}");
        }
        assert!(one(&format!("{}:1|c", "é".repeat(252))).is_ok());
        assert_eq!(one(&format!("{}:1|c", "x".repeat(253))), Err(MalformedLine::Name));
    }
}

//! Parses a line of a datagram: `name:value|type|@rate`; several values of one name are separated by colons.

/// Maximum characters of a metric's name, type included.
const NAME_CHARACTERS_MAX: usize = 255;

/// Why a line or a value is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("no name, or one that is too long")]
    Name,
    #[error("not of the form name:value|type")]
    Form,
    #[error("not a number")]
    Number,
    #[error("no rate above 0 up to 1")]
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
    /// `c`: an increment, scaled up by the sampling rate.
    Count(f64),
    /// `s`: a member of a set; the measure is the set's size.
    Member(&'a str),
}

/// One value of one name. Its metric is `name|type`, slashes replaced by `_`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Message<'a> {
    pub name: &'a str,
    pub value: StatsdValue<'a>,
}

impl Message<'_> {
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
pub fn read(line: &str) -> impl Iterator<Item = Result<Message<'_>, Malformed>> {
    let (name, values) = line.split_once(':').unwrap_or((line, ""));
    let characters_max = NAME_CHARACTERS_MAX - "|ms".len();
    let is_name = !name.is_empty()
        && !name.contains(['|', '\0'])
        && (name.len() <= characters_max || name.chars().count() <= characters_max);
    values.split(':').map(move |value| {
        let name = Some(name).filter(|_| is_name).ok_or(Malformed::Name)?;
        Ok(Message { name, value: read_value(value)? })
    })
}

fn read_value(text: &str) -> Result<StatsdValue<'_>, Malformed> {
    let mut parts = text.split('|');
    let (value, kind, rate) =
        (parts.next().unwrap_or_default(), parts.next().ok_or(Malformed::Form)?, parts.next());
    if parts.next().is_some() {
        return Err(Malformed::Form);
    }
    let rate = rate.map_or(Ok(1.0), read_rate)?;
    match kind {
        "ms" => number(value).map(StatsdValue::Time),
        "g" if value.starts_with(['+', '-']) => number(value).map(StatsdValue::Change),
        "g" => number(value).map(StatsdValue::Level),
        "c" => Some(number(value)? * (1.0 / rate))
            .filter(|count| count.is_finite())
            .map(StatsdValue::Count)
            .ok_or(Malformed::Number),
        "s" if value.is_empty() => Err(Malformed::Form),
        "s" => Ok(StatsdValue::Member(value)),
        _ => Err(Malformed::Type),
    }
}

fn read_rate(text: &str) -> Result<f64, Malformed> {
    let rate = text.strip_prefix('@').and_then(|rate| number(rate).ok());
    rate.filter(|rate| *rate > 0.0 && *rate <= 1.0).ok_or(Malformed::Rate)
}

fn number(text: &str) -> Result<f64, Malformed> {
    text.trim().parse().ok().filter(|number: &f64| number.is_finite()).ok_or(Malformed::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(line: &str) -> Result<(String, StatsdValue<'_>), Malformed> {
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
            ("a:333|g", "a|g", StatsdValue::Level(333.0)),
            ("a:-3.5|g", "a|g", StatsdValue::Change(-3.5)),
            ("a:+3e2|g", "a|g", StatsdValue::Change(300.0)),
            ("a:x y|s", "a|s", StatsdValue::Member("x y")),
            ("/a/b é:1|c", "_a_b é|c", StatsdValue::Count(1.0)),
        ] {
            assert_eq!(one(line), Ok((metric.to_owned(), value)), "{line}");
        }
        let several: Vec<_> = read("a:1|c:2|ms:x|g").collect();
        assert_eq!(several[1], Ok(Message { name: "a", value: StatsdValue::Time(2.0) }));
        assert_eq!((several.len(), several[2]), (3, Err(Malformed::Number)));
    }

    #[test]
    fn what_means_nothing_is_told() {
        for (line, error) in [
            ("", Malformed::Name),
            (":1|c", Malformed::Name),
            ("a|b:1|c", Malformed::Name),
            ("a", Malformed::Form),
            ("a:", Malformed::Form),
            ("a:1", Malformed::Form),
            ("a:1|c|@1|#x", Malformed::Form),
            ("a:1|x", Malformed::Type),
            ("a:1|", Malformed::Type),
            ("a:|c", Malformed::Number),
            ("a:x|ms", Malformed::Number),
            ("a:nan|g", Malformed::Number),
            ("a:inf|c", Malformed::Number),
            ("a:1e308|c|@0.0001", Malformed::Number),
            ("a:--1|g", Malformed::Number),
            ("a:1|c|@0", Malformed::Rate),
            ("a:1|c|@2", Malformed::Rate),
            ("a:1|c|0.1", Malformed::Rate),
            ("a:1|c|@", Malformed::Rate),
            ("a:|s", Malformed::Form),
        ] {
            assert_eq!(one(line), Err(error), "{line}");
        }
        assert!(one(&format!("{}:1|c", "é".repeat(252))).is_ok());
        assert_eq!(one(&format!("{}:1|c", "x".repeat(253))), Err(Malformed::Name));
    }
}

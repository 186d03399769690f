//! The parameters of Prometheus' API, from the query string and a form, with Prometheus' formats and errors.

use std::num::{IntErrorKind, ParseIntError};

use gnudi_app::{ApiError, query::Query, request};
use gnudi_engine::Engine;
use gnudi_prometheus::times::{parse_duration, parse_time};
use gnudi_promql::{Limits, Matcher, RegexStates, parse_selector, quoted};
use gnudi_server::RequestBody;
use hyper::Method;

use crate::{api::Call, failure::Failure, long_work, multipart};

/// The parameters of a request. A form's come before those of the query string; those of a form in parts, behind them.
#[derive(Debug)]
pub struct Arguments {
    first: Query,
    last: Query,
    /// Why some were left out.
    fault: Option<String>,
}

impl Arguments {
    pub async fn read(call: &Call<'_>, body: &mut RequestBody<'_>) -> Result<Self, Failure> {
        let (address, fault) = readable(call.parts.uri.query().unwrap_or_default());
        let boundary = multipart::boundary(&call.parts.headers);
        let has_form = request::is_form(call.parts) || boundary.is_some();
        if call.parts.method == Method::GET || !has_form {
            return Ok(Arguments { first: address, last: Query::default(), fault });
        }
        let form = body.read_small().await.map_err(ApiError::from)?;
        let form = std::str::from_utf8(&form)
            .map_err(|_| Failure::bad_data("error parsing form values: it is not UTF-8"))?;
        let fields = boundary.map(|boundary| multipart::fields(form, &boundary));
        let separators = || form.bytes().filter(|byte| *byte == b'&').count();
        let count = fields.as_ref().map_or_else(|| separators() + 1, Vec::len);
        let arguments_max = call.app.options().limits.query_arguments_max;
        if count > arguments_max {
            let text = format!("error parsing form values: there are more than {arguments_max}");
            return Err(Failure::bad_data(text));
        }
        if let Some(fields) = fields {
            return Ok(Arguments { first: address, last: fields.into_iter().collect(), fault });
        }
        let (form, fault_of_form) = readable(form);
        Ok(Arguments { first: form, last: address, fault: fault_of_form.or(fault) })
    }

    /// Refuses a request of which parameters were left out, where Prometheus does.
    pub fn require_readable(&self) -> Result<(), Failure> {
        match &self.fault {
            Some(fault) => Err(Failure::bad_data(format!("error parsing form values: {fault}"))),
            None => Ok(()),
        }
    }

    /// The first value of a parameter; "" if absent.
    pub fn get(&self, name: &str) -> &str {
        let mut values = self.first.values(name).chain(self.last.values(name));
        values.next().unwrap_or("")
    }

    /// A time in milliseconds; `None` if absent.
    pub fn time(&self, name: &str) -> Result<Option<i64>, Failure> {
        let parse = |text: &str| {
            parse_time(text).map_err(|reason| format!("invalid time value for '{name}': {reason}"))
        };
        self.parsed(name, parse)
    }

    /// A required time in milliseconds.
    pub fn required_time(&self, name: &str) -> Result<i64, Failure> {
        parse_time(self.get(name)).map_err(|reason| Failure::parameter(name, reason))
    }

    /// A duration in nanoseconds; `None` if absent.
    pub fn duration(&self, name: &str) -> Result<Option<i64>, Failure> {
        self.parsed(name, parse_duration)
    }

    /// `lookback_delta` in nanoseconds.
    pub fn lookback(&self) -> Result<Option<i64>, Failure> {
        match self.get("lookback_delta") {
            "" => Ok(None),
            text => parse_duration(text).map(Some).map_err(|reason| {
                Failure::bad_data(format!("error parsing lookback delta duration: {reason}"))
            }),
        }
    }

    fn parsed<T>(&self, name: &str, parse: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, Failure> {
        match self.get(name) {
            "" => Ok(None),
            text => parse(text).map(Some).map_err(|reason| Failure::parameter(name, reason)),
        }
    }

    /// The limit on the response's items; `None` for all.
    pub fn limit(&self) -> Result<Option<usize>, Failure> {
        let limit = self.number("limit")?.filter(|limit| *limit != 0);
        let negative = |_| Failure::parameter("limit", "limit must be non-negative");
        limit.map(usize::try_from).transpose().map_err(negative)
    }

    /// An integer.
    pub fn number(&self, name: &str) -> Result<Option<i64>, Failure> {
        self.parsed(name, |text| {
            text.parse::<i64>().map_err(|error: ParseIntError| {
                format!("strconv.Atoi: parsing {}: {}", quoted(text), integer_fault(&error))
            })
        })
    }

    /// The matcher sets of `match[]`.
    pub async fn matchers(&self, engine: &Engine) -> Result<Vec<Vec<Matcher>>, Failure> {
        self.parsed_matchers(engine).await.map_err(Failure::bad_data)
    }

    async fn parsed_matchers(&self, engine: &Engine) -> Result<Vec<Vec<Matcher>>, String> {
        let texts = self.first.values("match[]").chain(self.last.values("match[]"));
        let texts: Vec<String> = texts.map(str::to_owned).collect();
        let has_expressions = texts.iter().any(|text| long_work::may_have_expressions(text));
        long_work::on_expressions(engine, has_expressions, move || matchers(&texts)).await
    }

    /// Refuses a request without `match[]`.
    pub fn require_matchers(&self) -> Result<(), Failure> {
        let mut texts = self.first.values("match[]").chain(self.last.values("match[]"));
        texts.next().map(|_| ()).ok_or_else(|| Failure::bad_data("no match[] parameter provided"))
    }

    /// The matcher sets of `match[]`, at least one.
    pub async fn required_matchers(&self, engine: &Engine) -> Result<Vec<Vec<Matcher>>, Failure> {
        self.require_matchers()?;
        self.parsed_matchers(engine).await.map_err(|text| Failure::parameter("match[]", text))
    }

    /// `start` and `end` in milliseconds.
    pub fn times(&self) -> Result<(Option<i64>, Option<i64>), Failure> {
        Ok((self.time("start")?, self.time("end")?))
    }
}

/// Go's reason why a text is no integer.
pub fn integer_fault(error: &ParseIntError) -> &'static str {
    match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
        _ => "invalid syntax",
    }
}

/// The parameters that Go's parser takes, and its error about the others.
fn readable(text: &str) -> (Query, Option<String>) {
    // A semicolon, which separates Gnocchi's arguments, is refused.
    let (mut taken, mut fault) = (Vec::new(), None);
    for pair in text.split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if pair.contains(';') {
            fault = Some("invalid semicolon separator in query".to_owned());
        } else if let Some(escape) = invalid_escape(name).or_else(|| invalid_escape(value)) {
            fault.get_or_insert_with(|| format!("invalid URL escape {}", quoted(&escape)));
        } else {
            taken.push(pair);
        }
    }
    (Query::parse(Some(&taken.join("&"))), fault)
}

/// The first percent sign without two hexadecimal digits behind it, and what stands there.
fn invalid_escape(text: &str) -> Option<String> {
    let digits = |at: usize| text.as_bytes().get(at + 1..at + 3);
    let is_valid = |at: usize| digits(at).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    let (at, _) = text.match_indices('%').find(|(at, _)| !is_valid(*at))?;
    Some(text[at..].chars().take(3).collect())
}

/// Parses selectors, each with a matcher that an absent label does not match.
fn matchers(texts: &[String]) -> Result<Vec<Vec<Matcher>>, String> {
    let limits = Limits::default();
    let mut regexes = RegexStates::default();
    let parse = |text: &String| {
        let matchers = parse_selector(text, &limits).map_err(|error| error.text)?;
        matchers.iter().try_for_each(|matcher| regexes.add(matcher)).map_err(|error| error.text)?;
        if matchers.iter().all(|matcher| matcher.matches("")) {
            return Err("match[] must contain at least one non-empty matcher".to_owned());
        }
        Ok(matchers)
    };
    texts.iter().map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_as_by_go() {
        for (text, value, fault) in [
            ("a=1&b=2", "1", None),
            ("b;a=1&a=2", "2", Some("invalid semicolon separator in query")),
            ("a=%zz&a=2", "2", Some(r#"invalid URL escape "%zz""#)),
            ("%=1&a=2", "2", Some(r#"invalid URL escape "%""#)),
            ("a=1%4&a=2", "2", Some(r#"invalid URL escape "%4""#)),
            ("a=%25;&a=%&a=%41%2b+", "A+ ", Some("invalid semicolon separator in query")),
            ("", "", None),
        ] {
            let (query, found) = readable(text);
            let arguments = Arguments { first: query, last: Query::default(), fault: found };
            assert_eq!((arguments.get("a"), arguments.fault.as_deref()), (value, fault), "{text}");
        }
    }
}

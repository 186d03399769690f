//! The parameters of Prometheus' API, from the query string and a form, with Prometheus' formats and errors.

use std::num::{IntErrorKind, ParseIntError};

use gnudi_app::{ApiError, query::Query, request};
use gnudi_engine::Engine;
use gnudi_prometheus::times::{parse_duration, parse_time};
use gnudi_promql::{Limits, Matcher, RegexStates, parse_selector, quoted};
use gnudi_server::RequestBody;
use hyper::Method;

use crate::{api::Call, failure::Failure, long_work};

/// The parameters of a request. A form's come before those of the query string.
#[derive(Debug)]
pub struct Arguments {
    form: Query,
    address: Query,
}

impl Arguments {
    pub async fn read(call: &Call<'_>, body: &mut RequestBody<'_>) -> Result<Self, Failure> {
        // A semicolon, which separates Gnocchi's arguments, does not separate Prometheus'.
        let address = Query::parse(call.parts.uri.query());
        if call.parts.method == Method::GET || !request::is_form(call.parts) {
            return Ok(Arguments { form: Query::default(), address });
        }
        let form = body.read_small().await.map_err(ApiError::from)?;
        let form = std::str::from_utf8(&form)
            .map_err(|_| Failure::bad_data("error parsing form values: it is not UTF-8"))?;
        let arguments_max = call.app.options().limits.query_arguments_max;
        if form.bytes().filter(|byte| *byte == b'&').count() >= arguments_max {
            let text = format!("error parsing form values: there are more than {arguments_max}");
            return Err(Failure::bad_data(text));
        }
        Ok(Arguments { form: Query::parse(Some(form)), address })
    }

    /// The first value of a parameter; "" if absent.
    pub fn get(&self, name: &str) -> &str {
        let mut values = self.form.values(name).chain(self.address.values(name));
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
                let reason = match error.kind() {
                    IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
                    _ => "invalid syntax",
                };
                format!("strconv.Atoi: parsing {}: {reason}", quoted(text))
            })
        })
    }

    /// The matcher sets of `match[]`.
    pub async fn matchers(&self, engine: &Engine) -> Result<Vec<Vec<Matcher>>, Failure> {
        self.parsed_matchers(engine).await.map_err(Failure::bad_data)
    }

    async fn parsed_matchers(&self, engine: &Engine) -> Result<Vec<Vec<Matcher>>, String> {
        let texts = self.form.values("match[]").chain(self.address.values("match[]"));
        let texts: Vec<String> = texts.map(str::to_owned).collect();
        let has_expressions = texts.iter().any(|text| long_work::may_have_expressions(text));
        long_work::on_expressions(engine, has_expressions, move || matchers(&texts)).await
    }

    /// Refuses a request without `match[]`.
    pub fn require_matchers(&self) -> Result<(), Failure> {
        let mut texts = self.form.values("match[]").chain(self.address.values("match[]"));
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

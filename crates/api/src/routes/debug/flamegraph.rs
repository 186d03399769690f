//! `GET /debug/flamegraph`

use std::time::Duration;

use gnudi_app::query::Query;
use hyper::{StatusCode, header::HeaderValue};

use crate::{
    profile::{
        self, FREQUENCY_HZ_DEFAULT, FREQUENCY_HZ_MAX, ProfileError, ProfileOptions, SECONDS_DEFAULT,
        SECONDS_MAX,
    },
    routes::prelude::*,
};

/// A flame graph of the next seconds.
pub async fn flamegraph(call: &Call<'_>, _: &mut RequestBody<'_>) -> Answer {
    let asked = options(&call.query())?;
    let own = call.app.options();
    let svg = profile::take(asked, own.symbols_program.clone(), own.release_memory).await?;
    let content_type = HeaderValue::from_static("image/svg+xml");
    Ok(reply::with_body(StatusCode::OK, content_type, svg.into_bytes()))
}

fn options(query: &Query) -> Result<ProfileOptions> {
    if let Some(name) = query.names().into_iter().find(|name| !["seconds", "frequency"].contains(name)) {
        return Err(ApiError::argument(name, "There are `seconds' and `frequency' only"));
    }
    let seconds = whole(query, "seconds", SECONDS_MAX)?.unwrap_or(SECONDS_DEFAULT);
    Ok(ProfileOptions {
        duration: Duration::from_secs(u64::from(seconds)),
        frequency_hz: whole(query, "frequency", FREQUENCY_HZ_MAX)?.unwrap_or(FREQUENCY_HZ_DEFAULT),
    })
}

/// An optional integer argument from 1 to `max`.
fn whole(query: &Query, name: &str, max: u16) -> Result<Option<u16>> {
    let wrong = || ApiError::argument(name, &format!("Must be a whole number from 1 to {max}"));
    let Some(text) = query.single(name, wrong)? else { return Ok(None) };
    let number = text.parse().ok().filter(|number| (1..=max).contains(number));
    number.map(Some).ok_or_else(wrong)
}

impl From<ProfileError> for ApiError {
    fn from(error: ProfileError) -> Self {
        match &error {
            ProfileError::Busy => ApiError::new(StatusCode::CONFLICT, error.to_string()),
            ProfileError::Failed(_) => {
                tracing::error!(%error, "no profile");
                ApiError::unavailable(error.to_string())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Option<(u64, u16)> {
        let options = options(&Query::parse(Some(query))).ok()?;
        Some((options.duration.as_secs(), options.frequency_hz))
    }

    #[test]
    fn arguments_have_defaults_and_bounds() {
        assert_eq!(read(""), Some((10, 99)));
        assert_eq!(read("seconds=1&frequency=1"), Some((1, 1)));
        assert_eq!(read("frequency=1000&seconds=60"), Some((60, 1000)));
        for wrong in [
            "seconds=0",
            "seconds=61",
            "seconds=-1",
            "seconds=1.5",
            "seconds=",
            "seconds=ten",
            "seconds=1&seconds=1",
            "seconds=99999999999999999999",
            "frequency=0",
            "frequency=1001",
            "frequency=x",
            "second=3",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_refusal_names_the_argument_and_its_bounds() {
        let error = options(&Query::parse(Some("seconds=61"))).unwrap_err();
        assert_eq!(error, ApiError::argument("seconds", "Must be a whole number from 1 to 60"));
        assert_eq!(error.status, StatusCode::BAD_REQUEST);
        assert_eq!(ApiError::from(ProfileError::Busy).status, StatusCode::CONFLICT);
    }
}

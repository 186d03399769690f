//! `/v1/resource`

mod listing;
mod shown;

pub(crate) use listing::Listing;
pub(crate) use shown::{shown, shown_in_metric};

use gnudi_model::Timestamp;

use crate::router::Call;

/// Now, as resources know times: whole microseconds.
pub(crate) fn now(call: &Call<'_>) -> Timestamp {
    let now = call.app.now();
    Timestamp(now.0 - now.0.rem_euclid(1_000))
}

//! `/v1/aggregates`: operations on the series of many metrics, referred to by id, or by name within the
//! resources that a search finds.

mod answer;
mod arguments;
mod body;
mod by_id;
mod by_resource;
mod by_time;
mod fetch;
mod groups;
mod history;
mod references;
mod table;

pub use fetch::fetch;

pub(crate) use answer::aggregated;
pub(crate) use arguments::{Arguments, groupby};
pub(crate) use by_resource::Wanted;
pub(crate) use groups::Fields;
pub(crate) use references::{Policies, check_count};

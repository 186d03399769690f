//! `/v1/search`

mod metric;
mod resource;

pub use metric::metric;
pub use resource::resource;

pub(crate) use resource::filter_of;

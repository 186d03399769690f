//! The common ground of the APIs: routing, and what all handlers need.
//!
//! [`App`] answers requests by the routes it is given; each API's routes are in a crate of its own. `router`
//! finds a request's route and checks its guard, [`Call`] is the request as its handler gets it, [`ApiError`]
//! the error type, `json` and `python` parse and format texts, `provision` creates metrics and resources with
//! their first measure. Storage is [`gnudi_engine::Engine`]'s.

mod answer_budget;
mod app;
mod buffers;
mod by_key;
mod call;
mod document;
mod error;
mod figures;
pub mod http_date;
pub mod json;
mod limits;
mod links;
mod options;
pub mod provision;
pub mod python;
pub mod query;
pub mod request;
pub mod resource_id;
mod router;
pub mod schema;
mod shortened;

pub use answer_budget::{AnswerBudget, Share};
pub use app::App;
pub use by_key::ByKey;
pub use call::{Call, may_be_made};
pub use error::{Answer, ApiError, Result};
pub use figures::Figures;
pub use limits::Limits;
pub use options::ApiOptions;
pub use router::{Endpoint, Guard, Handled, Handler, HandlerFn, JSON, Lookup, Route, RouteMatch, Router};
pub use shortened::shortened;

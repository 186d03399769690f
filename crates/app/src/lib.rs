//! The ground on which APIs stand side by side: a request's way from its route to a handler, and what all handlers need.
//!
//! [`App`] answers requests by the routes that it is made with; a crate of its own has those of each API. `router` finds the
//! route of a request and asks its guard, [`Call`] is the request as its handler gets it, [`ApiError`] the error of all, `json` and
//! `python` the texts of requests and answers, `provision` makes what comes into being with its first measure. This crate decides
//! nothing about storage: it calls [`gnudi_engine::Engine`].

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
pub use call::Call;
pub use error::{Answer, ApiError};
pub use figures::Figures;
pub use limits::Limits;
pub use options::ApiOptions;
pub use router::{Endpoint, Guard, Handled, Handler, HandlerFn, JSON, Lookup, Route, RouteMatch, Router};
pub use shortened::shortened;

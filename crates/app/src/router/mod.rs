//! Routes: paths with their methods, who may use them and what serves them. Each API has a table of its own, made by [`routes!`].
//!
//! `find` looks a path up in the tables, `dispatch` finds what the path names, asks the guard and calls the handler.
//!
//! [`routes!`]: crate::routes!

mod dispatch;
mod find;

use std::pin::Pin;

use gnudi_access::Rule;
use gnudi_server::RequestBody;
use hyper::Method;

use crate::{call::Call, error::Answer};
pub use dispatch::dispatch;
pub(crate) use find::is_version_1;
pub use find::{RouteMatch, Router};

/// What a path names, which is looked up before anything else is looked at, the method included, as Gnocchi does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    Nothing,
    /// By `:name`.
    ArchivePolicyRule,
    /// By `:id`.
    Metric,
    /// By `:type`.
    ResourceType,
    /// A resource type by `:type`, and what id `:id` means for the caller; the resource itself is the handler's to find.
    ResourceId,
    /// As [`Lookup::ResourceId`], and the resource's metric by `:name`.
    NamedMetric,
}

/// What stands before a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// Nothing: anybody may ask.
    Open,
    /// A caller who passes the rule.
    Caller(Rule),
    /// Any caller; the handler asks one of the rules for each item, or the answer shows only what its caller may see. Debug builds
    /// assert that an answer comes of a handler that has asked.
    Items(&'static [Rule]),
    /// Anybody, until there is something to do: then the handler finds out who calls, and asks the rule.
    Deferred(Rule),
    /// A caller who passes the rule for the metric that was looked up.
    Metric(Rule),
}

/// An answer that is being made.
pub type Handled<'a> = Pin<Box<dyn Future<Output = Answer> + Send + 'a>>;

/// What serves the requests of an endpoint.
pub trait Handler: Send + Sync {
    fn handle<'a>(&'a self, call: &'a Call<'a>, body: &'a mut RequestBody<'_>) -> Handled<'a>;
}

/// A handler that keeps nothing between requests.
pub type HandlerFn = for<'a, 'b> fn(&'a Call<'a>, &'a mut RequestBody<'b>) -> Handled<'a>;

impl Handler for HandlerFn {
    fn handle<'a>(&'a self, call: &'a Call<'a>, body: &'a mut RequestBody<'_>) -> Handled<'a> {
        self(call, body)
    }
}

/// One method of a route.
pub struct Endpoint {
    method: Method,
    guard: Guard,
    /// What it may answer, the usual first; a client that takes none of it is refused (406). Empty: that is not looked at.
    offers: &'static [&'static str],
    handler: Box<dyn Handler>,
}

impl Endpoint {
    /// `method` is a token of HTTP's, or [`ANY_METHOD`].
    pub fn new(
        method: &str,
        guard: Guard,
        offers: &'static [&'static str],
        handler: Box<dyn Handler>,
    ) -> Self {
        let method = Method::from_bytes(method.as_bytes()).expect("a token");
        Endpoint { method, guard, offers, handler }
    }
}

/// A path, what it names, and its methods. A route's name in `/metrics` is its path.
pub struct Route {
    pub path: &'static str,
    pub lookup: Lookup,
    pub endpoints: Vec<Endpoint>,
    /// A second path's beginning: the route is also found below it. It is one route all the same, with the same guards.
    pub also_below: Option<&'static str>,
}

/// The method of what answers whatever the method is, as pecan's index pages do.
const ANY_METHOD: &str = "*";

/// What most endpoints offer.
pub const JSON: [&str; 1] = ["application/json"];

/// A table of [`Route`](crate::Route)s: a path, what it names, and its endpoints. `by` names the macro that makes a boxed
/// [`Handler`](crate::Handler) of a handler's path.
#[macro_export]
macro_rules! routes {
    (by $by:ident; $($path:literal $lookup:ident $([$($endpoint:tt)*])*;)*) => {
        vec![$($crate::Route {
            path: $path,
            lookup: $crate::Lookup::$lookup,
            endpoints: vec![$($crate::endpoint!($by $($endpoint)*)),*],
            also_below: None,
        }),*]
    };
}

/// An endpoint of the table that [`routes!`](crate::routes!) makes.
#[macro_export]
macro_rules! endpoint {
    ($by:ident ANY $guard:expr, $handler:path) => {
        $crate::Endpoint::new("*", $guard, &[], $by!($handler))
    };
    // Skips content negotiation: these clients send wrong Accept headers.
    ($by:ident BARE $method:ident $guard:expr, $handler:path) => {
        $crate::Endpoint::new(stringify!($method), $guard, &[], $by!($handler))
    };
    // Offers these media types.
    ($by:ident OFFERS($offers:path) $method:ident $guard:expr, $handler:path) => {
        $crate::Endpoint::new(stringify!($method), $guard, &$offers, $by!($handler))
    };
    ($by:ident $method:ident $guard:expr, $handler:path) => {
        $crate::Endpoint::new(stringify!($method), $guard, &$crate::JSON, $by!($handler))
    };
}

/// A boxed [`Handler`](crate::Handler) of a function of a call and its body.
#[macro_export]
macro_rules! handler {
    ($handler:path) => {{
        let serve: $crate::HandlerFn = |call, body| Box::pin($handler(call, body));
        Box::new(serve)
    }};
}

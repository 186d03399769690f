//! Routes: paths with their methods, guards and handlers. Each API has a table of its own, made by
//! [`routes!`].
//!
//! `find` matches a path against the tables; `dispatch` looks up what the path refers to, checks the guard
//! and calls the handler.
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

/// What a path refers to. As in Gnocchi, it is looked up first, even before the method is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    Nothing,
    /// By `:name`.
    ArchivePolicyRule,
    /// By `:id`.
    Metric,
    /// By `:type`.
    ResourceType,
    /// A resource type by `:type`, and the caller's resource id of `:id`. The handler looks the resource
    /// itself up.
    ResourceId,
    /// As [`Lookup::ResourceId`], and the resource's metric by `:name`.
    NamedMetric,
}

/// The access check before a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// None: anybody may call.
    Open,
    /// The rule must allow the caller.
    Caller(Rule),
    /// Any caller. The handler checks one of the rules for each item, or restricts its response to what the
    /// caller may see. Debug builds assert that a successful handler has checked one.
    Items(&'static [Rule]),
    /// Anybody; before it changes anything, the handler authenticates the caller and checks the rule.
    Deferred(Rule),
    /// The rule must allow the caller on the metric in the path.
    Metric(Rule),
}

/// A handler's future.
pub type Handled<'a> = Pin<Box<dyn Future<Output = Answer> + Send + 'a>>;

/// What serves the requests of an endpoint.
pub trait Handler: Send + Sync {
    fn handle<'a>(&'a self, call: &'a Call<'a>, body: &'a mut RequestBody<'_>) -> Handled<'a>;
}

/// A stateless handler.
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
    /// The offered media types, the default first; others are refused (406). Empty: skip content negotiation.
    offers: &'static [&'static str],
    handler: Box<dyn Handler>,
}

impl Endpoint {
    /// `method` is an HTTP method, or `*` for any.
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

/// A path, its lookup and its endpoints. The path is the route's label in `/metrics`.
pub struct Route {
    pub path: &'static str,
    pub lookup: Lookup,
    pub endpoints: Vec<Endpoint>,
    /// A second prefix under which the route is also found, with the same guards.
    pub also_below: Option<&'static str>,
}

/// Matches every method, as pecan's index pages do.
const ANY_METHOD: &str = "*";

/// The offers of most endpoints.
pub const JSON: [&str; 1] = ["application/json"];

/// A table of [`Route`](crate::Route)s: path, lookup and endpoints. `by` names the macro that turns a
/// handler's path into a boxed [`Handler`](crate::Handler).
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

/// An endpoint in a table of [`routes!`](crate::routes!).
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

/// A boxed [`Handler`](crate::Handler) from a function of a call and its body.
#[macro_export]
macro_rules! handler {
    ($handler:path) => {{
        let serve: $crate::HandlerFn = |call, body| Box::pin($handler(call, body));
        Box::new(serve)
    }};
}

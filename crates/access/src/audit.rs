//! Logs each refused request: caller, peer, request line, rule and reason. Never potential secrets: no
//! headers, no arguments, no bodies.
//!
//! Rate-limited: beyond [`LINES_PER_SECOND`], lines are suppressed and counted, and the next written line has
//! the count.

use std::net::IpAddr;

use gnudi_model::Timestamp;
use hyper::{Method, StatusCode, header::ACCESS_CONTROL_REQUEST_METHOD, http::request::Parts};
use parking_lot::Mutex;
use prometheus_client::{metrics::counter::Counter, registry::Registry};

use crate::policy::{Caller, Rule};

/// The sustained rate of lines, after a burst of [`LINES_AT_ONCE_MAX`].
pub const LINES_PER_SECOND: f64 = 10.0;
/// The burst size in lines.
pub const LINES_AT_ONCE_MAX: f64 = 100.0;
/// The maximum length of a logged path or name.
const TEXT_CHARACTERS_MAX: usize = 256;

/// A refused request.
#[derive(Debug)]
pub struct RefusedRequest<'a> {
    pub status: StatusCode,
    pub parts: &'a Parts,
    /// The path of its route; empty without a route.
    pub route: &'a str,
    /// The address at the other end of the connection.
    pub peer: Option<IpAddr>,
    /// The caller, if authenticated.
    pub caller: Option<&'a Caller>,
    /// The rule that denied the request, if one did.
    pub rule: Option<Rule>,
    /// The error text in the response, if any.
    pub reason: Option<&'a str>,
}

/// Writes the lines, with the target `audit`.
#[derive(Debug)]
pub struct Audit {
    allowance: Mutex<Allowance>,
    suppressed: Counter,
}

#[derive(Debug)]
struct Allowance {
    lines: f64,
    at: Timestamp,
    suppressed: u64,
}

impl Audit {
    /// Registers the counter of suppressed lines in `registry`.
    pub fn new(registry: &mut Registry) -> Self {
        let suppressed = Counter::default();
        registry.sub_registry_with_prefix("gnudi_api").register(
            "audit_suppressed",
            "Refused requests without a line in the log, because of its rate limit",
            suppressed.clone(),
        );
        let allowance = Allowance { lines: LINES_AT_ONCE_MAX, at: Timestamp::EPOCH, suppressed: 0 };
        Audit { allowance: Mutex::new(allowance), suppressed }
    }

    /// Logs the request if its status is 401, 403 or 429.
    pub fn note(&self, refused: &RefusedRequest<'_>, now: Timestamp) {
        let RefusedRequest { status, parts, route, peer, caller, rule, reason } = refused;
        let is_refusal = matches!(
            *status,
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS
        );
        // A CORS preflight carries no credentials, so its refusal means nothing.
        let is_preflight =
            parts.method == Method::OPTIONS && parts.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        if !is_refusal || is_preflight {
            return;
        }
        let Some(suppressed) = self.allow(now) else { return };
        let user = caller.map_or("-", |who| who.user_id.as_deref().unwrap_or(&who.user));
        let project = caller.and_then(|who| who.project_id.as_deref()).unwrap_or("-");
        tracing::warn!(
            target: "audit",
            status = status.as_u16(),
            method = %parts.method,
            path = shortened(parts.uri.path()),
            route,
            user = shortened(user),
            project = shortened(project),
            from = %peer.map_or_else(|| "-".to_owned(), |peer| peer.to_string()),
            rule = rule.map_or("-", Rule::name),
            reason = shortened(reason.unwrap_or("the rule denies it")),
            suppressed,
            "refused"
        );
    }

    /// The number of lines suppressed before this one; `None` if this one is suppressed too.
    fn allow(&self, now: Timestamp) -> Option<u64> {
        let mut allowance = self.allowance.lock();
        let elapsed = now.0.saturating_sub(allowance.at.0).max(0) as f64 / 1e9;
        allowance.lines = (allowance.lines + elapsed * LINES_PER_SECOND).min(LINES_AT_ONCE_MAX);
        allowance.at = now;
        if allowance.lines < 1.0 {
            allowance.suppressed += 1;
            self.suppressed.inc();
            return None;
        }
        allowance.lines -= 1.0;
        Some(std::mem::take(&mut allowance.suppressed))
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(TEXT_CHARACTERS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_counted_and_reported_later() {
        let mut registry = Registry::default();
        let audit = Audit::new(&mut registry);
        let at = |ms: i64| Timestamp(1_700_000_000_000_000_000 + ms * 1_000_000);
        let written: Vec<u64> = (0..500).filter_map(|_| audit.allow(at(0))).collect();
        assert_eq!(written, vec![0; 100]);
        assert_eq!(audit.allow(at(50)), None);
        assert_eq!(audit.allow(at(100)), Some(401));
        assert_eq!(audit.allow(at(100)), None);
        // Setting the clock back changes nothing.
        assert_eq!(audit.allow(at(-5000)), None);
        assert_eq!(audit.suppressed.get(), 403);
        let later: Vec<u64> = (0..200).filter_map(|_| audit.allow(at(60_000))).collect();
        assert_eq!((later.len(), later[0]), (100, 2));
    }
}

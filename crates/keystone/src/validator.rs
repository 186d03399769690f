//! Validates callers' tokens.
//!
//! Results are cached by the token's hash, so that tokens are not kept in memory; a clock that is set back does not
//! prolong them. Concurrent validations of a token share one request. Each client has at most half of the requests at a
//! time, so that made-up tokens of one do not delay those of others. While Keystone is not available, cached results
//! stay valid until they expire. An invalid response to one token does not count as unavailability.

use std::{
    collections::{BTreeSet, HashMap},
    hash::Hash,
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use gnudi_http::StatusCode;
use parking_lot::{Mutex, RwLock};
use sha2::{Digest as _, Sha256};
use tokio::sync::{OnceCell, Semaphore, SemaphorePermit};

use crate::{
    Identity, KeystoneError, Result, Session,
    cache::{Cache, Moment, TokenHash},
    login::{FAILED_PAUSE, may_again, v3_url},
    session::SUBJECT_TOKEN,
    token_document,
};

/// A longer token is rejected without a request. Fernet tokens have some 200 bytes, signed ones (JWS) some 1,000, and
/// each federated group adds some 40. uWSGI closes the connection if the headers of a request exceed 4,096 bytes, which
/// would look like an outage.
pub const TOKEN_BYTES_MAX: usize = 3072;

/// Cache lifetime of invalid tokens. A token seconds old may be unknown yet if several Keystones share a replicated
/// database, so this is short.
const INVALID_SECONDS: i64 = 10;

/// Maximum number of cached invalid tokens. They have their own cache, so that made-up tokens cannot evict valid ones.
const INVALID_TOKENS_MAX: usize = 10_000;

/// Concurrent requests to Keystone; further ones wait.
const REQUESTS_MAX: usize = 64;

/// Of these, those of one client. It may be a proxy for many.
const REQUESTS_OF_PEER_MAX: usize = REQUESTS_MAX / 2;

/// Minimum time between log lines about invalid responses: any caller can provoke them.
const INVALID_LOG_PAUSE: Duration = Duration::from_mins(1);

/// Maximum causes logged per outage: a response text may be different each time.
const CAUSES_MAX: usize = 16;

/// Tells Keystone that access rules are enforced here; without it, Keystone rejects tokens with such rules.
const ACCESS_RULES: (&str, &str) = ("openstack-identity-access-rules", "1");

#[derive(Clone, Debug)]
pub struct ValidatorOptions {
    /// Maximum cache lifetime: a revoked token may be accepted for this long.
    pub cache_time: Duration,
    pub tokens_max: usize,
}

impl Default for ValidatorOptions {
    fn default() -> Self {
        ValidatorOptions { cache_time: Duration::from_mins(5), tokens_max: 100_000 }
    }
}

type Outcome = Result<Option<Arc<Identity>>>;

/// A request in progress, or just completed.
type Flight = OnceCell<Outcome>;

/// Validates tokens through Keystone, with a cache.
#[derive(Debug)]
pub struct Validator {
    session: Session,
    options: ValidatorOptions,
    valid: RwLock<Cache<Arc<Identity>>>,
    invalid: RwLock<Cache<()>>,
    flights: Mutex<HashMap<TokenHash, Arc<Flight>>>,
    permits: Semaphore,
    /// The permits of each client that has requests in progress.
    permits_of_peers: Mutex<HashMap<IpAddr, Arc<Semaphore>>>,
    failed: Mutex<Option<(Instant, KeystoneError)>>,
    /// Causes logged since Keystone last responded: each is logged once, not with each request.
    causes_logged: Mutex<BTreeSet<String>>,
    /// When an invalid response was last logged.
    invalid_logged: Mutex<Option<Instant>>,
}

/// Which tokens are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpiryRule {
    /// Those that are valid now.
    Strict,
    /// Also those that have expired recently, within Keystone's `allow_expired_window`: a token that a service forwards
    /// may have expired during a long operation.
    Lenient,
}

impl Validator {
    pub fn new(session: Session, options: ValidatorOptions) -> Self {
        Validator {
            valid: RwLock::new(Cache::new(options.tokens_max)),
            invalid: RwLock::new(Cache::new(INVALID_TOKENS_MAX.min(options.tokens_max))),
            session,
            options,
            flights: Mutex::default(),
            permits: Semaphore::new(REQUESTS_MAX),
            permits_of_peers: Mutex::default(),
            failed: Mutex::default(),
            causes_logged: Mutex::default(),
            invalid_logged: Mutex::default(),
        }
    }

    /// The identity of a token that a client sends; `Ok(None)` if it is invalid. `now` is in seconds since the epoch.
    pub async fn validate(
        &self,
        token: &str,
        ends: ExpiryRule,
        peer: Option<IpAddr>,
        now: i64,
    ) -> Result<Option<Arc<Identity>>> {
        let is_plausible = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_plausible || token.len() > TOKEN_BYTES_MAX {
            return Ok(None);
        }
        let hash = hash(token, ends);
        let now = Moment { seconds: now, instant: Instant::now() };
        if let Some(known) = self.cached(&hash, now) {
            return known;
        }
        let flight = SharedEntry::new(&self.flights, hash, Flight::new);
        let ask = || async {
            // Another caller may have cached it meanwhile.
            if let Some(known) = self.cached(&hash, now) {
                return known;
            }
            let permits = peer.map(|peer| {
                let new = || Semaphore::new(REQUESTS_OF_PEER_MAX);
                SharedEntry::new(&self.permits_of_peers, peer, new)
            });
            let _permit_of_peer = match &permits {
                Some(permits) => Some(acquire(permits.value()).await),
                None => None,
            };
            self.request_and_cache(token, &hash, ends, now).await
        };
        flight.value().get_or_init(ask).await.clone()
    }

    /// The cached result.
    fn cached(&self, hash: &TokenHash, now: Moment) -> Option<Outcome> {
        if let Some(identity) = self.valid.read().get(hash, now) {
            return Some(Ok(Some(identity.clone())));
        }
        self.invalid.read().get(hash, now).map(|()| Ok(None))
    }

    async fn request_and_cache(
        &self,
        token: &str,
        hash: &TokenHash,
        ends: ExpiryRule,
        now: Moment,
    ) -> Outcome {
        let _permit = acquire(&self.permits).await;
        if let Some((at, error)) = &*self.failed.lock()
            && !may_again(Some(*at), FAILED_PAUSE, Instant::now())
        {
            return Err(error.clone());
        }
        let outcome = self.ask(token, ends).await;
        match &outcome {
            Err(KeystoneError::InvalidResponse(why)) => self.log_invalid_response(why),
            outcome => self.track_outage(outcome.as_ref().err()),
        }
        match &outcome {
            Ok(Some(identity)) => {
                let cache_seconds = i64::try_from(self.options.cache_time.as_secs()).unwrap_or(i64::MAX);
                let until = now.seconds.saturating_add(cache_seconds);
                let until = if ends == ExpiryRule::Strict { until.min(identity.expires_at) } else { until };
                self.valid.write().put(*hash, identity.clone(), until, now);
                // Keystone's clock may be behind ours.
                if ends == ExpiryRule::Strict && identity.expires_at <= now.seconds {
                    return Ok(None);
                }
            }
            Ok(None) => self.invalid.write().put(*hash, (), now.seconds + INVALID_SECONDS, now),
            Err(_) => {}
        }
        outcome
    }

    /// Tracks whether Keystone responds. Logs each cause of an outage once; a different cause is logged, too.
    fn track_outage(&self, error: Option<&KeystoneError>) {
        *self.failed.lock() = error.map(|error| (Instant::now(), error.clone()));
        let mut causes = self.causes_logged.lock();
        match error {
            Some(error) if causes.len() < CAUSES_MAX && causes.insert(error.to_string()) => {
                tracing::error!(%error, "tokens cannot be validated");
            }
            None if !causes.is_empty() => {
                causes.clear();
                tracing::info!("tokens can be validated again");
            }
            _ => {}
        }
    }

    fn log_invalid_response(&self, why: &str) {
        let mut told = self.invalid_logged.lock();
        let now = Instant::now();
        if may_again(*told, INVALID_LOG_PAUSE, now) {
            *told = Some(now);
            tracing::warn!(why, "unexpected response of Keystone to a token");
        }
    }

    /// Sends the request to Keystone's URL in the catalogue, or to its configured URL if the catalogue has none. After
    /// a failure, retries once if the catalogue has changed.
    async fn ask(&self, token: &str, ends: ExpiryRule) -> Outcome {
        let address = self.address().await?;
        let outcome = self.ask_at(&address, token, ends).await;
        let Err(KeystoneError::Unavailable(_) | KeystoneError::InvalidResponse(_)) = outcome else {
            return outcome;
        };
        self.session.forget_endpoints();
        match self.address().await {
            Ok(other) if other != address => self.ask_at(&other, token, ends).await,
            _ => outcome,
        }
    }

    async fn address(&self) -> Result<String> {
        let found = self.session.endpoint("identity").await?;
        Ok(found.map_or_else(|| self.session.url().to_owned(), |url| v3_url(&url)))
    }

    async fn ask_at(&self, address: &str, token: &str, ends: ExpiryRule) -> Outcome {
        // Omit the catalogue, the larger part of the response.
        let url = match ends {
            ExpiryRule::Strict => format!("{address}/auth/tokens?nocatalog"),
            ExpiryRule::Lenient => format!("{address}/auth/tokens?nocatalog&allow_expired=1"),
        };
        let headers = [(SUBJECT_TOKEN, token), ACCESS_RULES];
        let own = self.session.token().await?;
        let mut answer = self.session.ask(&url, &own, &headers).await?;
        if answer.status == StatusCode::UNAUTHORIZED {
            self.session.forget_token(&own);
            let own = self.session.token().await?;
            answer = self.session.ask(&url, &own, &headers).await?;
        }
        match answer.status {
            StatusCode::OK => match token_document::identity(&answer.body) {
                Ok(identity) => Ok(Some(Arc::new(identity))),
                Err(why) => {
                    Err(KeystoneError::InvalidResponse(format!("{address}: validating a token: {why}")))
                }
            },
            StatusCode::NOT_FOUND if token_document::is_error(&answer.body, 404) => Ok(None),
            StatusCode::UNAUTHORIZED => {
                Err(KeystoneError::Refused(format!("{address} refuses gnudi's own token: 401")))
            }
            StatusCode::FORBIDDEN => Err(KeystoneError::Refused(format!(
                "{address} forbids gnudi's user to validate tokens (403): it needs the role admin or service"
            ))),
            // These mean retry later, whatever the token.
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => {
                Err(self.session.unwell(answer.status))
            }
            // A 404 that is not Keystone's is of a proxy without a Keystone behind it.
            status if status.is_client_error() && status != StatusCode::NOT_FOUND => {
                self.log_invalid_response(&format!(
                    "{address}: answered {status}, so that the token is void"
                ));
                Ok(None)
            }
            status => Err(KeystoneError::InvalidResponse(format!(
                "{address}: validating a token: answered {status}"
            ))),
        }
    }
}

/// Tokens with different expiry rules have different cache keys.
fn hash(token: &str, ends: ExpiryRule) -> TokenHash {
    let mut digest = Sha256::new();
    if ends == ExpiryRule::Lenient {
        // Tokens contain no spaces.
        digest.update(b"passed on: ");
    }
    digest.update(token.as_bytes());
    digest.finalize().into()
}

async fn acquire(permits: &Semaphore) -> SemaphorePermit<'_> {
    permits.acquire().await.expect("the semaphore is never closed")
}

/// An entry that several callers share. The last one to leave removes it, also if all are cancelled.
struct SharedEntry<'a, K: Copy + Eq + Hash, V> {
    entries: &'a Mutex<HashMap<K, Arc<V>>>,
    key: K,
    value: Option<Arc<V>>,
}

impl<'a, K: Copy + Eq + Hash, V> SharedEntry<'a, K, V> {
    fn new(entries: &'a Mutex<HashMap<K, Arc<V>>>, key: K, new: impl FnOnce() -> V) -> Self {
        let value = entries.lock().entry(key).or_insert_with(|| Arc::new(new())).clone();
        SharedEntry { entries, key, value: Some(value) }
    }

    fn value(&self) -> &V {
        self.value.as_ref().expect("only dropping takes it")
    }
}

impl<K: Copy + Eq + Hash, V> Drop for SharedEntry<'_, K, V> {
    fn drop(&mut self) {
        let mut entries = self.entries.lock();
        self.value = None;
        if entries.get(&self.key).is_some_and(|value| Arc::strong_count(value) == 1) {
            entries.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{Reply, Script, token_body, within};

    const NOW: i64 = 1_795_300_000;
    const LATER: &str = "2026-11-21T23:53:03Z";

    impl Validator {
        async fn strict(&self, token: &str, now: i64) -> Outcome {
            self.validate(token, ExpiryRule::Strict, None, now).await
        }
    }

    fn validator(script: &Script) -> Validator {
        Validator::new(script.session(), ValidatorOptions::default())
    }

    #[tokio::test]
    async fn a_thousand_requests_make_one_validation() {
        let script = Script::start(|request| match request.subject.as_deref() {
            Some("good") => Reply::ok(token_body("u1", LATER)).after_ms(50),
            _ => Reply::status(404),
        })
        .await;
        let validator = Arc::new(validator(&script));
        let asks: Vec<_> = (0..1000)
            .map(|_| {
                let validator = validator.clone();
                tokio::spawn(async move { validator.strict("good", NOW).await.unwrap().unwrap() })
            })
            .collect();
        for ask in asks {
            assert_eq!(ask.await.unwrap().user_id, "u1");
        }
        assert_eq!((script.count("validate"), script.count("login")), (1, 1));
        assert!(validator.flights.lock().is_empty());
        for _ in 0..3 {
            assert!(validator.strict("bad", NOW).await.unwrap().is_none());
        }
        assert_eq!(script.count("validate"), 2);
        assert!(validator.strict("bad", NOW + INVALID_SECONDS).await.unwrap().is_none());
        assert_eq!(script.count("validate"), 3);
    }

    #[tokio::test]
    async fn an_answer_is_cached_for_its_time_and_to_the_tokens_end() {
        let script = Script::start(|request| match request.subject.as_deref() {
            Some("ends") => Reply::ok(token_body("u1", "2026-11-21T22:28:00Z")),
            _ => Reply::ok(token_body("u1", LATER)),
        })
        .await;
        let validator = validator(&script);
        let ask = async |token, now| validator.strict(token, now).await.unwrap().is_some();
        assert!(ask("lasts", NOW).await && ask("lasts", NOW + 299).await);
        assert_eq!(script.count("validate"), 1);
        assert!(ask("lasts", NOW + 300).await);
        assert_eq!(script.count("validate"), 2, "a revocation is noticed now");
        let end = crate::instant::seconds_since_epoch("2026-11-21T22:28:00Z").unwrap();
        assert!(ask("ends", end - 1).await);
        assert!(!ask("ends", end).await, "whatever Keystone's clock says");
        let passed_on = validator.validate("ends", ExpiryRule::Lenient, None, end + 100).await.unwrap();
        assert!(passed_on.is_some());
        assert!(script.requests().last().unwrap().target.contains("allow_expired=1"));
    }

    #[tokio::test]
    async fn the_own_token_is_renewed_once_when_it_is_refused() {
        let script = Script::start(|request| match request.token.as_deref() {
            Some("own-1") => Reply::status(401),
            _ => Reply::ok(token_body("u1", LATER)),
        })
        .await;
        let validator = validator(&script);
        assert!(validator.strict("good", NOW).await.unwrap().is_some());
        assert_eq!((script.count("login"), script.count("validate")), (2, 2));
        let never = Script::start(|_| Reply::status(401)).await;
        let refused = super::Validator::new(never.session(), ValidatorOptions::default());
        assert!(matches!(refused.strict("good", NOW).await, Err(KeystoneError::Refused(_))));
        assert_eq!((never.count("login"), never.count("validate")), (2, 2));
        let forbidden = Script::start(|_| Reply::status(403)).await;
        let validator = super::Validator::new(forbidden.session(), ValidatorOptions::default());
        let error = validator.strict("good", NOW).await.unwrap_err().to_string();
        assert!(error.contains("admin or service"), "{error}");
    }

    #[tokio::test]
    async fn what_is_known_goes_on_while_keystone_is_away() {
        let (script, validator, asked, newer) = within(FAILED_PAUSE, async || {
            let script = Script::start(|_| Reply::ok(token_body("u1", LATER))).await;
            let validator = validator(&script);
            assert!(validator.strict("good", NOW).await.unwrap().is_some());
            script.answer_all_with(503);
            let began = Instant::now();
            assert!(matches!(validator.strict("new", NOW).await, Err(KeystoneError::Unavailable(_))));
            assert!(validator.strict("good", NOW + 1).await.unwrap().is_some());
            let asked = script.count("validate");
            let newer = validator.strict("newer", NOW).await;
            (began, (script, validator, asked, newer))
        })
        .await;
        assert!(newer.is_err());
        assert_eq!(script.count("validate"), asked, "others share the answer");
        script.answer_as_before();
        // Only the pause itself must pass.
        let answered = async {
            while validator.strict("new", NOW).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), answered).await.unwrap();
    }

    #[tokio::test]
    async fn an_odd_answer_to_one_token_keeps_no_other_waiting() {
        let script = Script::start(|request| match request.subject.as_deref() {
            Some("good" | "other") => Reply::ok(token_body("u1", LATER)),
            Some("unreadable") => Reply::ok("<html>".to_owned()),
            Some("nowhere") => Reply::of(404, "default backend - 404".to_owned()),
            Some(status) => Reply::status(status.parse().unwrap()),
            None => Reply::status(500),
        })
        .await;
        let tokens =
            ["400", "404", "405", "410", "413", "431", "500", "502", "504", "302", "unreadable", "nowhere"];
        for token in tokens {
            let validator = validator(&script);
            let odd = validator.strict(token, NOW).await;
            if token.starts_with('4') {
                assert_eq!(odd, Ok(None), "{token}");
                let asked = script.count("validate");
                assert_eq!(validator.strict(token, NOW).await, Ok(None));
                assert_eq!(script.count("validate"), asked, "{token} is remembered as invalid");
            } else {
                assert!(matches!(odd, Err(KeystoneError::InvalidResponse(_))), "{token}: {odd:?}");
            }
            assert!(validator.strict("good", NOW).await.unwrap().is_some(), "after {token}");
        }
        for token in ["503", "429", "408"] {
            let answers = within(FAILED_PAUSE, async || {
                let (validator, began) = (validator(&script), Instant::now());
                (began, [validator.strict(token, NOW).await, validator.strict("other", NOW).await])
            })
            .await;
            for away in answers {
                assert!(matches!(away, Err(KeystoneError::Unavailable(_))), "{token}: {away:?}");
            }
        }
    }

    #[tokio::test]
    async fn each_cause_of_an_outage_is_logged_once() {
        let script = Script::start(|_| Reply::status(404)).await;
        let validator = validator(&script);
        let logged = || validator.causes_logged.lock().len();
        let refused = KeystoneError::Unavailable("connection refused".to_owned());
        let unwell = KeystoneError::Unavailable("answered 503".to_owned());
        for (error, expected) in [(&refused, 1), (&refused, 1), (&unwell, 2), (&refused, 2)] {
            validator.track_outage(Some(error));
            assert_eq!(logged(), expected);
        }
        validator.track_outage(None);
        assert_eq!(logged(), 0, "the next outage is told again");
        for number in 0..100 {
            validator.track_outage(Some(&KeystoneError::Unavailable(format!("request {number} failed"))));
        }
        assert_eq!(logged(), CAUSES_MAX);
    }

    #[tokio::test]
    async fn what_cannot_be_a_token_is_void_without_asking() {
        let script = Script::start(|_| Reply::ok(token_body("u1", LATER))).await;
        let validator = validator(&script);
        for token in ["", "a b", "a\r\nX-Auth-Token: x", "é", &"x".repeat(TOKEN_BYTES_MAX + 1)] {
            assert_eq!(validator.strict(token, NOW).await, Ok(None));
        }
        assert!(script.requests().is_empty());
    }

    #[tokio::test]
    async fn a_flight_that_all_have_left_is_forgotten() {
        let script = Script::start(|_| Reply::ok(token_body("u1", LATER)).after_ms(60_000)).await;
        let validator = validator(&script);
        let ask = validator.strict("slow", NOW);
        assert!(tokio::time::timeout(Duration::from_millis(50), ask).await.is_err());
        assert!(validator.flights.lock().is_empty());
    }

    #[tokio::test]
    async fn made_up_tokens_of_one_client_do_not_delay_another() {
        let script = Script::start(|request| match request.subject.as_deref() {
            Some("good") => Reply::ok(token_body("u1", LATER)),
            _ => Reply::status(404).after_ms(60_000),
        })
        .await;
        let validator = Arc::new(validator(&script));
        let [one, other] = [1_u8, 2].map(|last| Some(IpAddr::from([192, 0, 2, last])));
        for number in 0..2 * REQUESTS_MAX {
            let validator = validator.clone();
            tokio::spawn(async move {
                validator.validate(&number.to_string(), ExpiryRule::Strict, one, NOW).await
            });
        }
        while script.count("validate") < REQUESTS_OF_PEER_MAX {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let asked = validator.validate("good", ExpiryRule::Strict, other, NOW);
        let asked = tokio::time::timeout(Duration::from_secs(30), asked);
        assert!(asked.await.unwrap().unwrap().is_some());
        assert_eq!(script.count("validate"), REQUESTS_OF_PEER_MAX + 1);
        let peers: Vec<_> = validator.permits_of_peers.lock().keys().copied().map(Some).collect();
        assert_eq!(peers, [one]);
    }

    #[tokio::test]
    async fn tokens_show_nowhere() {
        let script = Script::start(|_| Reply::status(500)).await;
        let validator = validator(&script);
        let error = validator.strict("hunter2", NOW).await.unwrap_err();
        let shown = format!("{error} {error:?} {validator:?} {:?}", script.session());
        for secret in ["hunter2", "own-1", "the password"] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }
}

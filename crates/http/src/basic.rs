//! Who asks, as HTTP's basic authentication has it (RFC 7617).

use base64::{Engine as _, prelude::BASE64_STANDARD};
use hyper::header::HeaderValue;

/// The value of an `Authorization` header, which no debug output shows. A colon in `user` would begin the password.
pub fn basic_authorization(user: &str, password: &str) -> HeaderValue {
    let text = format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")));
    let mut value = HeaderValue::try_from(text).expect("base64 is ASCII");
    value.set_sensitive(true);
    value
}

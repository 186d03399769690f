//! Basic authentication as in Gnocchi: only the user's name counts, unless there is a password file. `admin`
//! is the administrator.

use std::net::IpAddr;

use base64::{
    Engine as _, alphabet,
    engine::{GeneralPurpose, general_purpose::PAD},
};
use gnudi_model::is_storable;
use hyper::{HeaderMap, header::AUTHORIZATION};

use super::{Passwords, named, passwords::Busy};
use crate::{
    error::{AccessError, Challenge},
    policy::Caller,
};

/// The error for a request without valid credentials.
const NOBODY: &str = "Authentication is required: send a name and a password by HTTP's basic scheme";
/// Does not say which of the two is wrong, so that nobody can probe for names.
const WRONG: &str = "The name or the password is wrong";

/// `peer`: the client's address, if known.
pub(super) async fn caller(
    headers: &HeaderMap,
    passwords: Option<&Passwords>,
    peer: Option<IpAddr>,
) -> Result<Caller, AccessError> {
    let (user, password) = credentials(headers).ok_or_else(|| refuse(NOBODY))?;
    if let Some(passwords) = passwords {
        let busy = |Busy| AccessError::Unavailable("Too many passwords are being checked");
        if !passwords.accept(&user, &password, peer).await.map_err(busy)? {
            return Err(refuse(WRONG));
        }
    }
    Ok(named(user))
}

fn refuse(detail: &'static str) -> AccessError {
    AccessError::Unknown { detail, challenge: Some(Challenge::Basic) }
}

/// The name and password in the headers; `None` also for a name that cannot be stored.
pub(super) fn credentials(headers: &HeaderMap) -> Option<(String, Vec<u8>)> {
    let found = headers.get(AUTHORIZATION).and_then(|header| header.to_str().ok()).and_then(parse);
    found.filter(|(user, _)| is_storable(user))
}

/// Parses `Basic base64(name:password)`.
fn parse(header: &str) -> Option<(String, Vec<u8>)> {
    let (scheme, credentials) = header.trim().split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let mut decoded = BASE64.decode(credentials.trim()).ok()?;
    let password = match decoded.iter().position(|byte| *byte == b':') {
        Some(colon) => {
            let password = decoded.split_off(colon + 1);
            decoded.truncate(colon);
            password
        }
        None => Vec::new(),
    };
    Some((String::from_utf8(decoded).ok()?, password))
}

/// RFC 4648 with padding; like Python, ignores trailing bits of the last character.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&alphabet::STANDARD, PAD.with_decode_allow_trailing_bits(true));

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use hyper::header::HeaderValue;

    use super::*;

    fn who(header: &str) -> Option<(String, bool)> {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, HeaderValue::from_str(header).unwrap());
        let caller = caller(&headers, None, None).now_or_never().expect("nothing is waited for");
        caller.ok().map(|caller| {
            let is_admin = caller.has_role("admin");
            (caller.user, is_admin)
        })
    }

    #[test]
    fn the_name_in_front_of_the_colon_is_the_user() {
        assert_eq!(who("basic Zm9vYmFyOg=="), Some(("foobar".to_owned(), false)));
        assert_eq!(who("Basic YWRtaW46"), Some(("admin".to_owned(), true)));
        assert_eq!(who("BASIC YWRtaW46c2VjcmV0OjE="), Some(("admin".to_owned(), true)));
        assert_eq!(who("basic amQ="), Some(("jd".to_owned(), false)));
    }

    #[test]
    fn a_name_is_one_that_every_index_can_store() {
        // 255 and 256 times `a`.
        let longest = "YWFh".repeat(85);
        assert_eq!(who(&format!("basic {longest}")), Some(("a".repeat(255), false)));
        assert_eq!(who(&format!("basic {longest}YQ==")), None);
        // a, NUL, b.
        assert_eq!(who("basic YQBi"), None);
    }

    #[test]
    fn other_headers_name_nobody() {
        for header in
            ["", "basic", "basic !!", "basic YWRtaW4", "bearer YWRtaW46", "basic /w==", "basic =A=="]
        {
            assert_eq!(who(header), None, "{header}");
        }
        assert!(caller(&HeaderMap::new(), None, None).now_or_never().unwrap().is_err());
    }
}

//! Content negotiation: matches the `Accept` header against offered media types (RFC 7231, 5.3.2).

use hyper::{
    HeaderMap,
    header::{ACCEPT, HeaderValue},
};

/// Joins several `Accept` headers to one: together they are one list (RFC 9110, 5.3).
pub fn join_accept(headers: &mut HeaderMap) {
    if headers.get_all(ACCEPT).iter().nth(1).is_none() {
        return;
    }
    let values: Vec<&[u8]> = headers.get_all(ACCEPT).iter().map(HeaderValue::as_bytes).collect();
    let joined = HeaderValue::from_bytes(&values.join(&b", "[..])).expect("values and a comma");
    headers.insert(ACCEPT, joined);
}

/// The offers that the header accepts, by descending quality, then in their given order. A malformed header
/// accepts everything, an empty one nothing.
pub fn acceptable<'o>(header: &str, offers: &[&'o str]) -> Vec<&'o str> {
    let Some(ranges) = parse(header) else {
        return offers.to_vec();
    };
    let mut rated: Vec<(u32, &str)> = offers
        .iter()
        .filter_map(|offer| {
            let best =
                ranges.iter().filter(|range| range.matches(offer)).max_by_key(|range| range.precision())?;
            (best.quality > 0).then_some((best.quality, *offer))
        })
        .collect();
    rated.sort_by_key(|(quality, _)| std::cmp::Reverse(*quality));
    rated.into_iter().map(|(_, offer)| offer).collect()
}

struct Range {
    media: String,
    has_parameters: bool,
    /// In thousandths.
    quality: u32,
}

impl Range {
    fn matches(&self, offer: &str) -> bool {
        if self.has_parameters {
            return false;
        }
        match self.media.strip_suffix("/*") {
            Some("*") => true,
            Some(kind) => offer.split('/').next() == Some(kind),
            None => self.media == offer,
        }
    }

    fn precision(&self) -> u8 {
        if self.media == "*/*" {
            0
        } else if self.media.ends_with("/*") {
            1
        } else {
            2
        }
    }
}

/// `None` if the header is malformed.
fn parse(header: &str) -> Option<Vec<Range>> {
    header.split(',').map(str::trim).filter(|item| !item.is_empty()).map(range).collect()
}

fn range(item: &str) -> Option<Range> {
    let mut parts = item.split(';').map(str::trim);
    let media = parts.next()?.to_ascii_lowercase();
    let (kind, subtype) = media.split_once('/')?;
    if !is_token(kind) || !is_token(subtype) || (kind == "*" && subtype != "*") {
        return None;
    }
    let mut range = Range { media, has_parameters: false, quality: 1000 };
    for parameter in parts {
        let (name, value) = parameter.split_once('=')?;
        if name.eq_ignore_ascii_case("q") {
            let quality: f64 = value.parse().ok().filter(|quality| (0.0..=1.0).contains(quality))?;
            range.quality = (quality * 1000.0) as u32;
            // The remaining parameters are extensions of Accept, not parameters of the media type.
            break;
        }
        range.has_parameters = true;
    }
    Some(range)
}

fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_headers_are_one_list() {
        let mut headers = HeaderMap::new();
        join_accept(&mut headers);
        assert!(headers.is_empty());
        for value in ["text/html", "application/json;q=0.5"] {
            headers.append(ACCEPT, HeaderValue::from_static(value));
        }
        join_accept(&mut headers);
        assert_eq!(headers.len(), 1);
        assert_eq!(headers[ACCEPT], "text/html, application/json;q=0.5");
    }

    #[test]
    fn the_best_quality_comes_first_then_the_order_of_offers() {
        let offers = ["text/plain", "text/html", "application/json"];
        for (header, expected) in [
            ("*/*", &offers[..]),
            ("application/json", &["application/json"]),
            ("Application/JSON ; q=0.5, text/*;q=0.7", &["text/plain", "text/html", "application/json"]),
            ("text/html,application/json", &["text/html", "application/json"]),
            ("application/json;q=0.1, text/html", &["text/html", "application/json"]),
            ("text/*, text/plain;q=0", &["text/html"]),
            ("application/*", &["application/json"]),
            ("application/json;charset=utf-8", &[]),
            ("foo/bar", &[]),
            ("", &[]),
            ("nonsense", &offers[..]),
            ("text/html;q=2", &offers[..]),
        ] {
            assert_eq!(acceptable(header, &offers), expected, "{header}");
        }
    }
}

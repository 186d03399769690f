//! Points in time as Keystone writes them: ISO 8601 in UTC.

use gnudi_model::timestamp::days_from_civil;

/// Seconds since the epoch of `2026-11-21T23:53:03.000000Z`; `None` if invalid. Drops the fraction. Without a zone the
/// time is in UTC. Days up to 31 are valid in every month.
pub fn seconds_since_epoch(text: &str) -> Option<i64> {
    let text = text.strip_suffix('Z').or_else(|| text.strip_suffix("+00:00")).unwrap_or(text);
    let (date, time) = text.split_once(['T', ' '])?;
    let time = match time.split_once('.') {
        Some((time, fraction)) if !fraction.is_empty() && all_digits(fraction) => time,
        Some(_) => return None,
        None => time,
    };
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let [hour, minute, second] = numbers(time, ':', [2, 2, 2])?;
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    Some(days_from_civil(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
}

/// Three numbers with these numbers of digits.
fn numbers(text: &str, separator: char, digits: [usize; 3]) -> Option<[i64; 3]> {
    let mut parts = text.split(separator);
    let mut found = [0; 3];
    for (number, digits) in found.iter_mut().zip(digits) {
        let part = parts.next().filter(|part| part.len() == digits && all_digits(part))?;
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(found)
}

fn all_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_in_time_are_read() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00.000000Z", 0),
            ("1970-01-01T00:00:01Z", 1),
            ("2000-02-29T12:00:00.5Z", 951_825_600),
            ("2000-03-01T00:00:00Z", 951_868_800),
            ("2026-11-21T23:53:03.000000Z", 1_795_305_183),
            ("2100-03-01 00:00:00+00:00", 4_107_542_400),
            ("1969-12-31T23:59:59Z", -1),
        ] {
            assert_eq!(seconds_since_epoch(text), Some(seconds), "{text}");
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        for text in [
            "",
            "2026-11-21",
            "2026-13-21T00:00:00Z",
            "2026-11-00T00:00:00Z",
            "2026-11-21T24:00:00Z",
            "2026-11-21T00:00:00.Z",
            "2026-11-21T00:00:00.xZ",
            "26-11-21T00:00:00Z",
            "2026-11-21T00:00Z",
            "2026-11-21T00:00:00:00Z",
            "2026-11-21T00:00:00+01:00",
            "٢٠٢٦-11-21T00:00:00Z",
        ] {
            assert_eq!(seconds_since_epoch(text), None, "{text}");
        }
    }
}

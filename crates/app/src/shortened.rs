//! Shortens external names that exceed the maximum length of a name.

use uuid::Uuid;

use gnudi_model::STORED_CHARACTERS_MAX;

/// Keeps shortened names distinct. Never change it: names derived from it are stored.
const NAMESPACE: Uuid = Uuid::from_u128(0x6f3d_2c08_51b7_4b8e_9a04_d0a4_5f1e_7c93);

/// Characters of a UUID in hyphenated form.
const UUID_CHARACTERS: usize = 36;

/// The text, if it can be stored as a name; otherwise its beginning, a tilde and a UUID hashed from the
/// whole.
pub fn shortened(text: String) -> String {
    if text.len() <= STORED_CHARACTERS_MAX || text.chars().count() <= STORED_CHARACTERS_MAX {
        return text;
    }
    let id = Uuid::new_v5(&NAMESPACE, text.as_bytes());
    let kept: String = text.chars().take(STORED_CHARACTERS_MAX - UUID_CHARACTERS - 1).collect();
    format!("{kept}~{id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_stays() {
        for text in ["", "x", &"é".repeat(255)] {
            assert_eq!(shortened(text.to_owned()), text);
        }
        let (long, other) = (shortened("é".repeat(256)), shortened("é".repeat(257)));
        assert_eq!((long.chars().count(), other.chars().count()), (255, 255));
        assert_ne!(long, other);
        assert!(long.starts_with(&"é".repeat(218)));
    }
}

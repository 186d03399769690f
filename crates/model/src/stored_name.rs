//! Texts that every database of the index can store as a name.

/// The longest name that Gnocchi's database holds.
pub const STORED_CHARACTERS_MAX: usize = 255;

/// Whether a text can be stored as a name: it is not too long, and holds no NUL.
pub fn is_storable(text: &str) -> bool {
    text.chars().count() <= STORED_CHARACTERS_MAX && !text.contains('\0')
}

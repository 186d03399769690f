//! Answers that hold points among other things, made piece by piece while the client reads them.

use std::collections::VecDeque;

use bytes::Bytes;

use super::write::{Column, ROW_BYTES_MAX, Rows};
use crate::{json::Value, reply::ReplyBody};

/// How large a piece of an answer gets.
const PIECE_BYTES: usize = 64 << 10;

/// Answers up to this many rows are one piece, with their length.
const WHOLE_ROWS_MAX: usize = 4_000;

/// A JSON document: texts, and lists of points.
#[derive(Default)]
pub struct Document {
    parts: VecDeque<Part>,
    rows: usize,
}

enum Part {
    Text(Vec<u8>),
    Rows(Rows),
}

impl Document {
    /// Appends JSON.
    pub fn text(&mut self, text: &str) {
        self.last_text().extend_from_slice(text.as_bytes());
    }

    /// Appends a value.
    pub fn value(&mut self, value: &Value) {
        value.write_json(self.last_text());
    }

    /// Appends what `write` does.
    pub fn write(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(self.last_text());
    }

    /// Appends a list of the points of all columns.
    pub fn rows(&mut self, columns: Vec<Column>) {
        let rows = Rows::new(columns);
        self.rows += rows.len();
        if rows.is_empty() {
            self.text("[]");
        } else {
            self.parts.push_back(Part::Rows(rows));
        }
    }

    fn last_text(&mut self) -> &mut Vec<u8> {
        if !matches!(self.parts.back(), Some(Part::Text(_))) {
            self.parts.push_back(Part::Text(Vec::new()));
        }
        match self.parts.back_mut() {
            Some(Part::Text(text)) => text,
            _ => unreachable!("a text was pushed"),
        }
    }

    pub fn into_body(mut self) -> ReplyBody {
        if self.rows > WHOLE_ROWS_MAX {
            return ReplyBody::Pieces(Box::new(self));
        }
        self.piece(usize::MAX).into()
    }

    /// About so many bytes more; none at the end.
    fn piece(&mut self, bytes: usize) -> Vec<u8> {
        let mut piece = Vec::with_capacity(bytes.min(PIECE_BYTES) + ROW_BYTES_MAX);
        while piece.len() < bytes {
            let more = match self.parts.front_mut() {
                None => break,
                Some(Part::Text(text)) => {
                    piece.append(text);
                    false
                }
                Some(Part::Rows(rows)) => rows.write(bytes, &mut piece),
            };
            if !more {
                self.parts.pop_front();
            }
        }
        piece
    }
}

impl Iterator for Document {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let piece = self.piece(PIECE_BYTES);
        (!piece.is_empty()).then(|| piece.into())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gnudi_model::Timestamp;

    use super::*;

    fn document(rows: &[usize]) -> Document {
        let mut document = Document::default();
        document.text("{");
        for (index, &count) in rows.iter().enumerate() {
            document.text(if index > 0 { ", " } else { "" });
            document.value(&index.to_string().into());
            document.text(": ");
            let timestamps = Arc::new((0..count as i64).map(Timestamp::from_secs).collect());
            document.rows(vec![Column {
                granularity: "1.0".to_owned(),
                timestamps,
                values: vec![0.5; count],
            }]);
        }
        document.text("}");
        document
    }

    #[test]
    fn pieces_are_the_whole() {
        for rows in [&[][..], &[0], &[1, 0, 2], &[5000, 0, 1, 3000]] {
            let whole = document(rows).piece(usize::MAX);
            let pieces: Vec<Bytes> = document(rows).collect();
            assert!(pieces.iter().all(|piece| piece.len() < PIECE_BYTES + ROW_BYTES_MAX));
            assert_eq!(pieces.concat(), whole);
            let row =
                |second: usize| format!("[\"{}\", 1.0, 0.5]", Timestamp::from_secs(second as i64).to_iso());
            let list = |count: &usize| (0..*count).map(row).collect::<Vec<_>>().join(", ");
            let lists: Vec<String> = rows
                .iter()
                .enumerate()
                .map(|(index, count)| format!("\"{index}\": [{}]", list(count)))
                .collect();
            assert_eq!(String::from_utf8(whole).unwrap(), format!("{{{}}}", lists.join(", ")));
        }
        assert!(matches!(document(&[4001]).into_body(), ReplyBody::Pieces(_)));
        assert!(matches!(document(&[4000]).into_body(), ReplyBody::Whole(Some(_))));
    }
}

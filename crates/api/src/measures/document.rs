//! Answers that hold points among other things, made piece by piece while the client reads them.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use gnudi_engine::{CrossMeasuresError, cross::POINTS_MAX};
use gnudi_model::Timestamp;

use super::write::{Column, ROW_BYTES_MAX, Rows};
use crate::{error::ApiError, json::Value, reply::ReplyBody};

/// How large a piece of an answer gets.
const PIECE_BYTES: usize = 64 << 10;

/// Answers up to this many rows are one piece, with their length.
const WHOLE_ROWS_MAX: usize = 4_000;

/// What a row takes in memory as long as it is not written.
const ROW_MEMORY_BYTES: usize = size_of::<Timestamp>() + size_of::<f64>();

/// How many bytes the rows of all answers take that their clients have not read yet.
#[derive(Debug)]
pub struct AnswerBudget {
    held: AtomicUsize,
    bytes_max: usize,
}

impl AnswerBudget {
    pub fn new(bytes_max: usize) -> Self {
        AnswerBudget { held: AtomicUsize::new(0), bytes_max }
    }
}

/// A JSON document: texts, and lists of points.
pub struct Document {
    parts: VecDeque<DocumentPart>,
    rows: usize,
    budget: Arc<AnswerBudget>,
    /// Its part of the budget.
    held: usize,
}

impl Drop for Document {
    fn drop(&mut self) {
        self.give_back(self.held);
    }
}

enum DocumentPart {
    Text(Vec<u8>),
    Rows(Rows),
}

impl Document {
    pub fn new(budget: &Arc<AnswerBudget>) -> Self {
        Document { parts: VecDeque::new(), rows: 0, budget: budget.clone(), held: 0 }
    }

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
    ///
    /// # Errors
    /// 413 where the document comes to hold more than [`POINTS_MAX`] of them, 503 where the answers of all requests hold too
    /// much.
    pub fn rows(&mut self, columns: Vec<Column>) -> Result<(), ApiError> {
        let rows = Rows::new(columns);
        self.rows += rows.len();
        if self.rows > POINTS_MAX {
            return Err(CrossMeasuresError::TooManyPoints.into());
        }
        if rows.is_empty() {
            self.text("[]");
            return Ok(());
        }
        let bytes = rows.len() * ROW_MEMORY_BYTES;
        self.held += bytes;
        if self.budget.held.fetch_add(bytes, Ordering::Relaxed) + bytes > self.budget.bytes_max {
            return Err(ApiError::unavailable("Too many large answers are being read"));
        }
        self.parts.push_back(DocumentPart::Rows(rows));
        Ok(())
    }

    fn give_back(&mut self, bytes: usize) {
        self.held -= bytes;
        self.budget.held.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn last_text(&mut self) -> &mut Vec<u8> {
        if !matches!(self.parts.back(), Some(DocumentPart::Text(_))) {
            self.parts.push_back(DocumentPart::Text(Vec::new()));
        }
        match self.parts.back_mut() {
            Some(DocumentPart::Text(text)) => text,
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
                Some(DocumentPart::Text(text)) => {
                    piece.append(text);
                    false
                }
                Some(DocumentPart::Rows(rows)) => rows.write(bytes, &mut piece),
            };
            if !more && let Some(DocumentPart::Rows(rows)) = self.parts.pop_front() {
                self.give_back(rows.len() * ROW_MEMORY_BYTES);
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
    use super::*;

    fn column(timestamps: Arc<Vec<Timestamp>>) -> Column {
        Column { granularity: "1.0".to_owned(), values: vec![0.5; timestamps.len()], timestamps }
    }

    fn document(rows: &[usize]) -> Document {
        let mut document = Document::new(&Arc::new(AnswerBudget::new(usize::MAX)));
        document.text("{");
        for (index, &count) in rows.iter().enumerate() {
            document.text(if index > 0 { ", " } else { "" });
            document.value(&index.to_string().into());
            document.text(": ");
            let timestamps = Arc::new((0..count as i64).map(Timestamp::from_secs).collect());
            document.rows(vec![column(timestamps)]).unwrap();
        }
        document.text("}");
        document
    }

    #[test]
    fn what_is_not_read_is_bounded() {
        let budget = Arc::new(AnswerBudget::new(10_000 * ROW_MEMORY_BYTES));
        let rows = |count: usize| vec![column(Arc::new(vec![Timestamp::EPOCH; count]))];
        let mut first = Document::new(&budget);
        first.rows(rows(5_000)).unwrap();
        first.rows(rows(1_000)).unwrap();
        let mut second = Document::new(&budget);
        assert_eq!(second.rows(rows(6_000)).unwrap_err().status.as_u16(), 503);
        drop(second);
        // The first list has been read when the second one begins.
        while first.parts.len() > 1 {
            assert!(first.next().is_some());
        }
        let mut third = Document::new(&budget);
        third.rows(rows(9_000)).unwrap();
        drop((first, third));
        assert_eq!(budget.held.load(Ordering::Relaxed), 0);
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

//! JSON responses with points, written piece by piece while the client reads.

use std::collections::VecDeque;

use bytes::Bytes;
use gnudi_app::{AnswerBudget, Result, json::Value};
use gnudi_engine::{CrossMeasuresError, cross::POINTS_MAX};
use gnudi_server::ReplyBody;

use super::{
    POINT_BYTES,
    write::{Column, ROW_BYTES_MAX, Rows},
};

/// The size of a piece.
const PIECE_BYTES: usize = 64 << 10;

/// Up to this many rows a response is one piece, with Content-Length.
pub const WHOLE_ROWS_MAX: usize = 4_000;

/// The same for the bytes reserved.
const WHOLE_BYTES_MAX: usize = 1 << 20;

/// A JSON document: texts, and lists of points.
pub struct Document {
    parts: VecDeque<DocumentPart>,
    rows: usize,
    budget: AnswerBudget,
    /// The bytes reserved in the budget.
    held: usize,
    /// The part of the reservation for rows that are not appended yet.
    room: usize,
    /// The response has begun, so errors cannot be reported any more.
    is_late: bool,
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
    pub fn new(budget: &AnswerBudget) -> Self {
        let budget = budget.clone();
        Document { parts: VecDeque::new(), rows: 0, budget, held: 0, room: 0, is_late: false }
    }

    /// Waits for a reservation of `bytes` for its rows. It may exceed the budget later without an error.
    pub(super) async fn with_room(budget: &AnswerBudget, bytes: usize) -> Self {
        budget.take_when_free(bytes).await;
        let mut document = Document::new(budget);
        (document.held, document.room, document.is_late) = (bytes, bytes, true);
        document
    }

    /// Releases the reservation for rows that never came.
    pub(super) fn fill_room(&mut self) {
        let room = std::mem::take(&mut self.room);
        self.give_back(room);
    }

    /// Reserves bytes, from the room first.
    ///
    /// # Errors
    /// 503 if the budget is exhausted and the response has not begun.
    pub(super) fn hold(&mut self, bytes: usize) -> Result<()> {
        let in_room = bytes.min(self.room);
        self.room -= in_room;
        let more = bytes - in_room;
        if more == 0 {
            return Ok(());
        }
        self.held += more;
        let held = self.budget.hold(more);
        if self.is_late { Ok(()) } else { held }
    }

    /// The bytes reserved in the budget.
    pub(super) fn bytes_of_budget(&self) -> usize {
        self.held
    }

    /// The number of rows appended, including those of appended documents.
    pub(super) fn row_count(&self) -> usize {
        self.rows
    }

    /// The bytes of memory in use.
    pub(super) fn bytes(&self) -> usize {
        let text = |part: &DocumentPart| match part {
            DocumentPart::Text(text) => text.len(),
            DocumentPart::Rows(rows) => rows.len() * POINT_BYTES,
        };
        self.parts.iter().map(text).sum()
    }

    /// Appends another document of the same budget.
    pub(super) fn append(&mut self, mut other: Document) {
        self.parts.append(&mut other.parts);
        self.rows += other.rows;
        self.held += std::mem::take(&mut other.held);
        self.room += std::mem::take(&mut other.room);
    }

    /// Appends JSON.
    pub fn text(&mut self, text: &str) {
        self.last_text().extend_from_slice(text.as_bytes());
    }

    /// Appends a value.
    pub fn value(&mut self, value: &Value) {
        value.write_json(self.last_text());
    }

    /// Appends the output of `write`, which may be long: its bytes are reserved.
    ///
    /// # Errors
    /// 503 if the budget of all responses is exhausted.
    pub fn write(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        let text = self.last_text();
        let before = text.len();
        write(text);
        let bytes = text.len() - before;
        self.hold(bytes)
    }

    /// Appends a group of an aggregation; `measures` appends what it has.
    pub fn group(&mut self, key: &Value, measures: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.text("{\"group\": ");
        self.value(key);
        self.text(", \"measures\": ");
        measures(self)?;
        self.text("}");
        Ok(())
    }

    /// Appends a list of all columns' points.
    ///
    /// # Errors
    /// 413 if the document then has more than [`POINTS_MAX`] points, 503 if the budget of all responses is
    /// exhausted.
    pub fn rows(&mut self, columns: Vec<Column>) -> Result<()> {
        self.append_rows(Rows::new(columns))
    }

    /// [`Document::rows`] for prepared rows.
    pub fn append_rows(&mut self, rows: Rows) -> Result<()> {
        self.rows += rows.len();
        if self.rows > POINTS_MAX {
            return Err(CrossMeasuresError::TooManyPoints.into());
        }
        if rows.is_empty() {
            self.text("[]");
            return Ok(());
        }
        self.hold(rows.len() * POINT_BYTES)?;
        self.parts.push_back(DocumentPart::Rows(rows));
        Ok(())
    }

    fn give_back(&mut self, bytes: usize) {
        self.held -= bytes;
        self.budget.give_back(bytes);
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
        if self.rows > WHOLE_ROWS_MAX || self.held > WHOLE_BYTES_MAX {
            return ReplyBody::Pieces(Box::new(self));
        }
        self.piece(usize::MAX).into()
    }

    /// The next piece of about `bytes`; empty at the end.
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
                self.give_back(rows.len() * POINT_BYTES);
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

    use gnudi_engine::Resample;
    use gnudi_model::{Timespan, Timestamp};

    use super::*;

    fn column(timestamps: Arc<Vec<Timestamp>>) -> Column {
        let values = vec![0.5; timestamps.len()];
        Column::new(Resample::Span(Timespan::from_secs(1)), timestamps, values)
    }

    fn document(rows: &[usize]) -> Document {
        let mut document = Document::new(&AnswerBudget::new(usize::MAX));
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
        let budget = AnswerBudget::new(10_000 * POINT_BYTES);
        let rows = |count: usize| vec![column(Arc::new(vec![Timestamp::EPOCH; count]))];
        let mut texts = Document::new(&budget);
        texts.write(|out| out.resize(100_000, b'x')).unwrap();
        assert_eq!(texts.write(|out| out.resize(200_000, b'x')).unwrap_err().status.as_u16(), 503);
        drop(texts);
        let mut first = Document::new(&budget);
        first.rows(rows(5_000)).unwrap();
        first.rows(rows(1_000)).unwrap();
        let mut second = Document::new(&budget);
        assert_eq!(second.rows(rows(6_000)).unwrap_err().status.as_u16(), 503);
        drop(second);
        // The first list is fully read before the second one begins.
        while first.parts.len() > 1 {
            assert!(first.next().is_some());
        }
        let mut third = Document::new(&budget);
        third.rows(rows(9_000)).unwrap();
        drop((first, third));
        assert_eq!(budget.held(), 0);
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
        let mut long = document(&[1]);
        long.write(|out| out.resize(out.len() + WHOLE_BYTES_MAX, b' ')).unwrap();
        assert!(matches!(long.into_body(), ReplyBody::Pieces(_)));
    }
}

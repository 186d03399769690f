//! Decodes rows, in parallel if there are many.

use std::{num::NonZero, sync::Arc, thread::available_parallelism};

use tokio::task::spawn_blocking;

use crate::{IndexerError, Result, sql::Row};

/// Minimum rows per thread: some milliseconds of work.
const ROWS_MIN: usize = 4096;

/// Decodes rows, in order.
pub(super) async fn decode_all<T: Send + 'static>(
    rows: Vec<Row>,
    decode: impl Fn(&Row) -> Result<T> + Send + Sync + 'static,
) -> Result<Vec<T>> {
    if rows.len() < 2 * ROWS_MIN {
        return rows.iter().map(decode).collect();
    }
    let count = rows.len();
    let threads = available_parallelism().map_or(1, NonZero::get);
    let (part_rows, decode) = (count.div_ceil(threads).max(ROWS_MIN), Arc::new(decode));
    let (mut rows, mut parts) = (rows.into_iter(), Vec::new());
    while rows.len() > 0 {
        let (part, decode): (Vec<Row>, _) = (rows.by_ref().take(part_rows).collect(), decode.clone());
        parts.push(spawn_blocking(move || part.iter().map(&*decode).collect::<Result<Vec<T>>>()));
    }
    let mut decoded = Vec::with_capacity(count);
    for part in parts {
        decoded.append(&mut part.await.unwrap_or_else(|error| Err(IndexerError::stopping(error)))?);
    }
    Ok(decoded)
}

//! Requests and responses in Arrow: the variant `arrow` of rows that push and read.

use std::{io::Write as _, sync::Arc};

use anyhow::{Context as _, Result};
use arrow_array::{
    ArrayRef, DictionaryArray, Float64Array, RecordBatch, TimestampMillisecondArray, types::Int32Type,
};
use arrow_ipc::{reader::StreamReader, writer::StreamWriter};

use crate::{
    body::{Span, Values},
    load::Requests,
    peers::Server,
};

/// The name of the variant.
pub const VARIANT: &str = "arrow";

const MEDIA_TYPE: &str = "application/vnd.apache.arrow.stream";

/// Placeholder for a metric's id.
const ID: [u8; 36] = [b'x'; 36];

/// A stream of the span's measures of one metric, split at its id.
fn stream(span: Span, values: &mut Values) -> Result<[Vec<u8>; 2]> {
    let id = std::str::from_utf8(&ID)?;
    let ids: ArrayRef = Arc::new(std::iter::repeat_n(id, span.count).collect::<DictionaryArray<Int32Type>>());
    let times: ArrayRef = Arc::new(TimestampMillisecondArray::from_iter_values(span.times()));
    let values: ArrayRef = Arc::new(Float64Array::from_iter_values(
        (0..span.count).map(|_| values.next_hundredths() as f64 / 100.0),
    ));
    let batch = RecordBatch::try_from_iter([("metric_id", ids), ("timestamp", times), ("value", values)])?;
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema())?;
    writer.write(&batch)?;
    let stream = writer.into_inner()?;
    let at = stream.windows(ID.len()).position(|bytes| bytes == ID).context("the id's place")?;
    Ok([stream[..at].to_vec(), stream[at + ID.len()..].to_vec()])
}

/// A call for each span and each metric, whose ids are texts.
pub fn pushes(server: &Server, ids: Vec<Vec<u8>>, spans: impl Iterator<Item = Span>) -> Result<Requests> {
    let mut values = Values::new(1);
    let mut head = server.headers.open_head("POST", "/v1/batch/metrics/measures");
    write!(head, "Content-Type: {MEDIA_TYPE}\r\n")?;
    let bodies: Vec<_> = spans.map(|span| stream(span, &mut values)).collect::<Result<_>>()?;
    Ok(Requests::named(&head, ids, bodies))
}

/// A GET with a stream as response.
pub fn get(server: &Server, path: &str) -> Vec<u8> {
    let mut request = server.headers.open_head("GET", path);
    request.extend_from_slice(format!("Accept: {MEDIA_TYPE}\r\n\r\n").as_bytes());
    request
}

/// The rows of a stream.
pub fn rows(stream: &[u8]) -> Result<usize> {
    StreamReader::try_new(stream, None)?.map(|batch| Ok(batch?.num_rows())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Context;
    use crate::peers::Peer;

    #[test]
    fn a_stream_has_its_measures_wherever_it_is_cut() {
        let ids = vec![vec![b'a'; 36], vec![b'b'; 36]];
        let context = Context::of_tests();
        let server = Server::nowhere(Peer::Gnudi, &context);
        let requests =
            pushes(&server, ids, [Span::minutes(0, 10), Span::minutes(10, 10)].into_iter()).unwrap();
        assert_eq!(requests.distinct(), 4);
        for index in 0..4 {
            let request = requests.parts(index).concat();
            let end = request.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap() + 4;
            let length = format!("Content-Length: {}\r\n", request.len() - end);
            assert!(String::from_utf8_lossy(&request[..end]).contains(&length));
            assert_eq!(rows(&request[end..]).unwrap(), 10);
        }
    }
}

//! The messages of a stream: framing, and headers as verified flatbuffers. Bodies are not parsed here.

use arrow_ipc::{
    DictionaryBatch, Message as IpcMessage, MessageHeader, MetadataVersion, RecordBatch, Schema,
    root_as_message_with_opts,
};
use flatbuffers::VerifierOptions;

use super::{ReadError, Result};

const CONTINUATION: [u8; 4] = [0xff; 4];

/// The magic bytes of an Arrow file (not a stream).
const FILE_MAGIC: &[u8] = b"ARROW1";

/// The maximum nesting of tables in a header. A flat column has three.
const DEPTH_MAX: usize = 16;

/// The limit on a header's apparent size (shared objects counted at each reference), as a multiple of its
/// real size. Writers share a few bytes; an attack shares everything.
const APPARENT_FACTOR_MAX: usize = 8;

/// The minimum of that limit, for small headers.
const APPARENT_BYTES_MIN: usize = 4 << 10;

/// The type of a message.
pub enum Header<'s> {
    Dictionary(DictionaryBatch<'s>),
    Rows(RecordBatch<'s>),
}

/// A message after the schema.
pub struct Message<'s> {
    pub header: Header<'s>,
    pub body: &'s [u8],
}

/// An iterator over the messages of a stream.
pub struct Messages<'s> {
    stream: &'s [u8],
    at: usize,
}

fn truncated(at: usize, what: &str) -> ReadError {
    ReadError::Malformed(format!("The stream ends in {what} (byte {at}): it is cut short"))
}

impl<'s> Messages<'s> {
    pub fn new(stream: &'s [u8]) -> Self {
        Messages { stream, at: 0 }
    }

    /// Reads the schema, the first message.
    pub fn schema(&mut self) -> Result<Schema<'s>> {
        if self.stream.starts_with(FILE_MAGIC) {
            let text = "This is an Arrow file, not a stream: write it with `pyarrow.ipc.new_stream`, or as IPC stream";
            return Err(ReadError::malformed(text));
        }
        let schema = self.raw()?.and_then(|(message, _)| message.header_as_schema());
        schema.ok_or_else(|| ReadError::malformed("The stream does not begin with a schema"))
    }

    /// Reads the next message; `None` at the end of the stream.
    pub fn next(&mut self) -> Result<Option<Message<'s>>> {
        let at = self.at;
        let Some((message, body)) = self.raw()? else { return Ok(None) };
        let header = match message.header_type() {
            MessageHeader::DictionaryBatch => message.header_as_dictionary_batch().map(Header::Dictionary),
            MessageHeader::RecordBatch => message.header_as_record_batch().map(Header::Rows),
            _ => None,
        };
        let header = header.ok_or_else(|| {
            ReadError::Malformed(format!(
                "The message at byte {at} is neither a record batch nor a dictionary"
            ))
        })?;
        Ok(Some(Message { header, body }))
    }

    /// The next message of any type. The stream ends with its last byte, or with an end-of-stream marker.
    fn raw(&mut self) -> Result<Option<(IpcMessage<'s>, &'s [u8])>> {
        let at = self.at;
        if at == self.stream.len() {
            return Ok(None);
        }
        if self.take(4, "a message's length")? != CONTINUATION {
            return Err(ReadError::Malformed(format!(
                "No message begins at byte {at}: it must have the form of Arrow 0.15 or later"
            )));
        }
        let length = self.take(4, "a message's length")?;
        let length = i32::from_le_bytes(length.try_into().expect("four bytes"));
        if length == 0 {
            let rest = self.stream.len() - self.at;
            if rest > 0 {
                return Err(ReadError::Malformed(format!("{rest} bytes follow the end of the stream")));
            }
            return Ok(None);
        }
        let length = usize::try_from(length)
            .map_err(|_| ReadError::Malformed(format!("The message at byte {at} has a negative length")))?;
        let metadata = self.take(length, "a message's header")?;
        let options = VerifierOptions {
            max_depth: DEPTH_MAX,
            max_tables: length,
            max_apparent_size: length.saturating_mul(APPARENT_FACTOR_MAX).max(APPARENT_BYTES_MIN),
            ignore_missing_null_terminator: false,
        };
        let message = root_as_message_with_opts(&options, metadata).map_err(|error| {
            // The error has a trace of many lines.
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default().to_owned();
            ReadError::Malformed(format!("The header of the message at byte {at} is damaged: {first}"))
        })?;
        if !matches!(message.version(), MetadataVersion::V4 | MetadataVersion::V5) {
            return Err(ReadError::Malformed(format!(
                "The message at byte {at} has an unsupported version of Arrow's format: write V5"
            )));
        }
        let body_length = usize::try_from(message.bodyLength()).map_err(|_| {
            ReadError::Malformed(format!("The body of the message at byte {at} has a negative length"))
        })?;
        let body = self.take(body_length, "a message's body")?;
        Ok(Some((message, body)))
    }

    fn take(&mut self, length: usize, what: &str) -> Result<&'s [u8]> {
        let rest = &self.stream[self.at..];
        let taken = rest.get(..length).ok_or_else(|| truncated(self.stream.len(), what))?;
        self.at += length;
        Ok(taken)
    }
}

//! The messages of a stream: their frames, and their headers as verified flatbuffers. What is in a body is not looked at.

use arrow_ipc::{
    DictionaryBatch, Message as IpcMessage, MessageHeader, MetadataVersion, RecordBatch, Schema,
    root_as_message_with_opts,
};
use flatbuffers::VerifierOptions;

use super::{ReadError, Result};

const CONTINUATION: [u8; 4] = [0xff; 4];

/// How a file of Arrow's (not a stream) begins.
const FILE_MAGIC: &[u8] = b"ARROW1";

/// Tables within tables of a header. A flat column has three.
const DEPTH_MAX: usize = 16;

/// How large a header may be once what it refers to more than once is counted each time, in multiples of its size: writers
/// share a few bytes, and one who means harm everything.
const APPARENT_FACTOR_MAX: usize = 8;

/// The same, of small headers.
const APPARENT_BYTES_MIN: usize = 4 << 10;

/// What a message is.
pub enum Header<'s> {
    Dictionary(DictionaryBatch<'s>),
    Rows(RecordBatch<'s>),
}

/// A message behind the schema.
pub struct Message<'s> {
    pub header: Header<'s>,
    pub body: &'s [u8],
}

/// The messages of a stream, one after the other.
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

    /// The schema, which is the first message.
    pub fn schema(&mut self) -> Result<Schema<'s>> {
        if self.stream.starts_with(FILE_MAGIC) {
            let text = "This is an Arrow file, and a stream is wanted: write it with `pyarrow.ipc.new_stream`, or as IPC stream";
            return Err(ReadError::malformed(text));
        }
        let schema = self.raw()?.and_then(|(message, _)| message.header_as_schema());
        schema.ok_or_else(|| ReadError::malformed("The stream does not begin with a schema"))
    }

    /// The next message; `None` at the end of the stream.
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
            // Its trace goes over many lines.
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default().to_owned();
            ReadError::Malformed(format!("The header of the message at byte {at} is damaged: {first}"))
        })?;
        if !matches!(message.version(), MetadataVersion::V4 | MetadataVersion::V5) {
            return Err(ReadError::Malformed(format!(
                "The message at byte {at} has a version of Arrow's format that is not known: write V5"
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

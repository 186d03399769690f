//! Messages: schema, dictionaries and record batches. Buffers are written without a copy, unless they are
//! compressed.

use std::{collections::VecDeque, io::Write};

use arrow_ipc::{
    BodyCompression, BodyCompressionArgs, Buffer, DictionaryBatch, DictionaryBatchArgs, FieldNode, Message,
    MessageArgs, MessageHeader, MetadataVersion, RecordBatch, RecordBatchArgs, writer::StreamWriter,
};
use arrow_schema::Schema;
use bytes::Bytes;
use flatbuffers::{FlatBufferBuilder, UnionWIPOffset, WIPOffset};
use lz4_flex::frame::FrameEncoder;

use crate::Compression;

/// The alignment of buffers.
const ALIGNMENT: usize = 8;

const PADDING: [u8; ALIGNMENT] = [0; ALIGNMENT];

/// The end-of-stream marker.
const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

const CONTINUATION: [u8; 4] = [0xff; 4];

/// Stands in place of the uncompressed length before a buffer that is not compressed.
const STORED: i64 = -1;

const ZSTD_LEVEL: i32 = 1;

/// A column's buffers in a record batch.
#[derive(Clone, Debug)]
pub struct ColumnBuffers {
    pub nulls: usize,
    /// The first is the validity bitmap; it is empty without nulls.
    pub buffers: Vec<Bytes>,
}

impl ColumnBuffers {
    /// A column without nulls.
    pub fn full(data: Bytes) -> Self {
        ColumnBuffers { nulls: 0, buffers: vec![Bytes::new(), data] }
    }
}

/// The encoded messages, as pieces that are not taken yet.
#[derive(Debug, Default)]
pub struct Frames {
    compression: Compression,
    pieces: VecDeque<Bytes>,
    is_over: bool,
}

impl Frames {
    /// Begins a stream with its schema.
    pub fn new(schema: &Schema, compression: Compression) -> Self {
        let mut frames = Frames { compression, pieces: VecDeque::new(), is_over: false };
        frames.pieces.push_back(schema_message(schema).into());
        frames
    }

    pub fn pop(&mut self) -> Option<Bytes> {
        self.pieces.pop_front()
    }

    /// Whether all pieces so far are taken, and more are to come.
    pub fn is_wanting(&self) -> bool {
        self.pieces.is_empty() && !self.is_over
    }

    pub fn end(&mut self) {
        self.is_over = true;
        self.pieces.push_back(Bytes::from_static(&END));
    }

    /// Appends a record batch.
    pub fn batch(&mut self, rows: usize, columns: Vec<ColumnBuffers>) {
        self.message(rows, columns, |_, batch| (MessageHeader::RecordBatch, batch.as_union_value()));
    }

    /// Appends a dictionary of texts.
    pub fn dictionary<'t>(&mut self, id: i64, texts: impl ExactSizeIterator<Item = &'t str>) {
        let rows = texts.len();
        let mut offsets = Vec::with_capacity((rows + 1) * 4);
        let mut data = Vec::new();
        offsets.extend_from_slice(&0_i32.to_le_bytes());
        for text in texts {
            data.extend_from_slice(text.as_bytes());
            offsets.extend_from_slice(&(data.len() as i32).to_le_bytes());
        }
        let buffers = vec![Bytes::new(), offsets.into(), data.into()];
        self.message(rows, vec![ColumnBuffers { nulls: 0, buffers }], |builder, batch| {
            let arguments = DictionaryBatchArgs { id, data: Some(batch), isDelta: false };
            let header = DictionaryBatch::create(builder, &arguments).as_union_value();
            (MessageHeader::DictionaryBatch, header)
        });
    }

    /// Appends a message. `header` makes its header from a record batch of these columns.
    fn message<'f>(
        &mut self,
        rows: usize,
        columns: Vec<ColumnBuffers>,
        header: impl FnOnce(
            &mut FlatBufferBuilder<'f>,
            WIPOffset<RecordBatch<'f>>,
        ) -> (MessageHeader, WIPOffset<UnionWIPOffset>),
    ) {
        let mut nodes = Vec::with_capacity(columns.len());
        let mut places = Vec::with_capacity(columns.len() * 2);
        let mut body = Vec::with_capacity(columns.len() * 2);
        let mut at = 0;
        for column in columns {
            nodes.push(FieldNode::new(rows as i64, column.nulls as i64));
            for buffer in column.buffers {
                let length = append(self.compression, buffer, &mut body);
                places.push(Buffer::new(at as i64, length as i64));
                let padding = length.next_multiple_of(ALIGNMENT) - length;
                if padding > 0 {
                    body.push(Bytes::from_static(&PADDING[..padding]));
                }
                at += length + padding;
            }
        }
        let mut builder = FlatBufferBuilder::with_capacity(256 + nodes.len() * 16 + places.len() * 16);
        let compression = self.compression.codec().map(|codec| {
            let arguments = BodyCompressionArgs { codec, ..BodyCompressionArgs::default() };
            BodyCompression::create(&mut builder, &arguments)
        });
        let arguments = RecordBatchArgs {
            length: rows as i64,
            nodes: Some(builder.create_vector(&nodes)),
            buffers: Some(builder.create_vector(&places)),
            compression,
            variadicBufferCounts: None,
        };
        let batch = RecordBatch::create(&mut builder, &arguments);
        let (header_type, header) = header(&mut builder, batch);
        let arguments = MessageArgs {
            version: MetadataVersion::V5,
            header_type,
            header: Some(header),
            bodyLength: at as i64,
            custom_metadata: None,
        };
        let message = Message::create(&mut builder, &arguments);
        builder.finish(message, None);
        self.pieces.push_back(framed(builder.finished_data()).into());
        self.pieces.extend(body);
    }
}

/// A header with its length prefix, padded.
fn framed(header: &[u8]) -> Vec<u8> {
    let length = header.len().next_multiple_of(ALIGNMENT);
    let mut out = Vec::with_capacity(8 + length);
    out.extend_from_slice(&CONTINUATION);
    out.extend_from_slice(&(length as i32).to_le_bytes());
    out.extend_from_slice(header);
    out.resize(8 + length, 0);
    out
}

fn schema_message(schema: &Schema) -> Vec<u8> {
    let writer = StreamWriter::try_new(Vec::new(), schema).expect("writing to memory does not fail");
    writer.get_ref().clone()
}

/// Appends a buffer to a body, compressed if that makes it shorter; returns its length without padding.
fn append(compression: Compression, buffer: Bytes, body: &mut Vec<Bytes>) -> usize {
    if buffer.is_empty() {
        return 0;
    }
    if compression == Compression::None {
        let length = buffer.len();
        body.push(buffer);
        return length;
    }
    if let Some(packed) = compress(compression, &buffer) {
        let length = packed.len();
        body.push(packed.into());
        return length;
    }
    let length = 8 + buffer.len();
    body.push(Bytes::copy_from_slice(&STORED.to_le_bytes()));
    body.push(buffer);
    length
}

/// `None` if compression does not make it shorter.
fn compress(compression: Compression, buffer: &[u8]) -> Option<Vec<u8>> {
    let mut packed = (buffer.len() as i64).to_le_bytes().to_vec();
    match compression {
        Compression::Lz4 => {
            let mut encoder = FrameEncoder::new(&mut packed);
            encoder.write_all(buffer).ok()?;
            encoder.finish().ok()?;
        }
        _ => packed.extend(zstd::bulk::compress(buffer, ZSTD_LEVEL).ok()?),
    }
    (packed.len() < buffer.len()).then_some(packed)
}

//! Encodes parts of protobuf messages, and has the limits of the tests.

#![allow(dead_code, reason = "each test and example uses a part")]

use gnudi_prometheus::remote_write::Limits;

pub const LIMITS: Limits = Limits { samples_max: 1_000, labels_bytes_max: 100_000 };

pub fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number > 0x7f {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub fn field(number: u64, payload: &[u8], out: &mut Vec<u8>) {
    varint(number << 3 | 2, out);
    varint(payload.len() as u64, out);
    out.extend_from_slice(payload);
}

pub fn number(field: u64, value: u64, out: &mut Vec<u8>) {
    varint(field << 3, out);
    varint(value, out);
}

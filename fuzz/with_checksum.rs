//! Bytes closed by the checksum that they must have: no fuzzer guesses one.

/// CRC32C at the end, as `gnudi_series` has it.
pub fn of(bytes: &[u8]) -> Vec<u8> {
    let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32;
    [bytes, &sum.to_le_bytes()].concat()
}

//! Snappy's block format, with a bound on what comes out.

use crate::error::ApiError;

/// Inflates a body. Its declared length is checked before a byte of memory is taken for it.
///
/// # Errors
/// 413 where it declares more than `bytes_max`, 400 where it is not of the format.
pub fn inflate(body: &[u8], bytes_max: usize) -> Result<Vec<u8>, ApiError> {
    let malformed =
        |error: snap::Error| ApiError::bad_request(format!("Unable to inflate the body: {error}"));
    let length = snap::raw::decompress_len(body).map_err(malformed)?;
    if length > bytes_max {
        return Err(ApiError::too_large(format!("The inflated body is larger than {bytes_max} bytes")));
    }
    snap::raw::Decoder::new().decompress_vec(body).map_err(malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_believed_only_within_the_bound() {
        let body = snap::raw::Encoder::new().compress_vec(&[7; 1000]).unwrap();
        assert_eq!(inflate(&body, 1000).unwrap(), [7; 1000]);
        assert_eq!(inflate(&body, 999).unwrap_err().status.as_u16(), 413);
        // Four gigabytes declared, and nothing behind.
        assert_eq!(inflate(&[0xff, 0xff, 0xff, 0xff, 0x0f], 1000).unwrap_err().status.as_u16(), 413);
        for body in
            [&b""[..], &body[..body.len() - 1], b"\xff\xff\xff\xff\xff\xff", b"plain text", b"\x05\x00"]
        {
            assert_eq!(inflate(body, 1000).unwrap_err().status.as_u16(), 400, "{body:?}");
        }
    }
}

//! Snappy's block format, with a bound on what comes out.

use crate::error::ApiError;

/// How many bytes the body declares to hold: no more come out of [`inflate`].
///
/// # Errors
/// 413 where it declares more than `bytes_max`, 400 where it is not of the format.
pub fn inflated_bytes(body: &[u8], bytes_max: usize) -> Result<usize, ApiError> {
    let bytes = snap::raw::decompress_len(body).map_err(|error| malformed(&error))?;
    if bytes > bytes_max {
        return Err(ApiError::too_large(format!("The inflated body is larger than {bytes_max} bytes")));
    }
    Ok(bytes)
}

/// Inflates a body whose declared length has been checked.
///
/// # Errors
/// 400 where it is not of the format.
pub fn inflate(body: &[u8]) -> Result<Vec<u8>, ApiError> {
    snap::raw::Decoder::new().decompress_vec(body).map_err(|error| malformed(&error))
}

fn malformed(error: &snap::Error) -> ApiError {
    ApiError::bad_request(format!("Unable to inflate the body: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(body: &[u8], bytes_max: usize) -> Result<Vec<u8>, ApiError> {
        inflated_bytes(body, bytes_max)?;
        inflate(body)
    }

    #[test]
    fn a_length_is_believed_only_within_the_bound() {
        let body = snap::raw::Encoder::new().compress_vec(&[7; 1000]).unwrap();
        assert_eq!(checked(&body, 1000).unwrap(), [7; 1000]);
        assert_eq!(checked(&body, 999).unwrap_err().status.as_u16(), 413);
        // Four gigabytes declared, and nothing behind.
        assert_eq!(checked(&[0xff, 0xff, 0xff, 0xff, 0x0f], 1000).unwrap_err().status.as_u16(), 413);
        for body in
            [&b""[..], &body[..body.len() - 1], b"\xff\xff\xff\xff\xff\xff", b"plain text", b"\x05\x00"]
        {
            assert_eq!(checked(body, 1000).unwrap_err().status.as_u16(), 400, "{body:?}");
        }
    }
}

//! Decompresses Snappy's block format, with a limit on the decompressed size.

/// Why a body cannot be decompressed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InflateError {
    #[error("The inflated body is larger than {0} bytes")]
    TooLarge(usize),
    #[error("Unable to inflate the body: {0}")]
    Malformed(String),
}

/// The decompressed size that the body declares; [`inflate`] fails if it holds more or fewer bytes.
///
/// # Errors
/// The body declares more than `bytes_max`, or no valid size.
pub fn inflated_bytes(body: &[u8], bytes_max: usize) -> Result<usize, InflateError> {
    let bytes = snap::raw::decompress_len(body).map_err(|error| malformed(&error))?;
    if bytes > bytes_max {
        return Err(InflateError::TooLarge(bytes_max));
    }
    Ok(bytes)
}

/// Decompresses a body. Allocates the declared size at once: check it with [`inflated_bytes`] first.
///
/// # Errors
/// The body is not valid Snappy, or its size differs from the declared one.
pub fn inflate(body: &[u8]) -> Result<Vec<u8>, InflateError> {
    snap::raw::Decoder::new().decompress_vec(body).map_err(|error| malformed(&error))
}

fn malformed(error: &snap::Error) -> InflateError {
    InflateError::Malformed(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(body: &[u8], bytes_max: usize) -> Result<Vec<u8>, InflateError> {
        inflated_bytes(body, bytes_max)?;
        inflate(body)
    }

    #[test]
    fn the_declared_size_is_limited() {
        let body = snap::raw::Encoder::new().compress_vec(&[7; 1000]).unwrap();
        assert_eq!(checked(&body, 1000).unwrap(), [7; 1000]);
        assert_eq!(checked(&body, 999), Err(InflateError::TooLarge(999)));
        // Declares four gigabytes, but has no data.
        assert_eq!(checked(&[0xff, 0xff, 0xff, 0xff, 0x0f], 1000), Err(InflateError::TooLarge(1000)));
        for body in
            [&b""[..], &body[..body.len() - 1], b"\xff\xff\xff\xff\xff\xff", b"plain text", b"\x05\x00"]
        {
            assert!(matches!(checked(body, 1000), Err(InflateError::Malformed(_))), "{body:?}");
        }
    }
}

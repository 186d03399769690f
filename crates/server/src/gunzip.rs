//! Decompresses gzip bodies, with a limit on the size of the result.

use std::io::Read;

use flate2::bufread::MultiGzDecoder;

use crate::refusal::HttpRefusal;

/// Decompresses a body of one or more gzip members. Memory grows with the output, up to the limit.
///
/// # Errors
/// 413 if the output exceeds `bytes_max`, 400 if the input is not gzip.
pub fn gunzip(body: &[u8], bytes_max: usize) -> Result<Vec<u8>, HttpRefusal> {
    let mut inflated = Vec::new();
    let mut reader = MultiGzDecoder::new(body).take(bytes_max as u64 + 1);
    reader
        .read_to_end(&mut inflated)
        .map_err(|error| HttpRefusal::bad_request(format!("Unable to inflate the body: {error}")))?;
    if inflated.len() > bytes_max {
        return Err(HttpRefusal::too_large(format!("The inflated body is larger than {bytes_max} bytes")));
    }
    Ok(inflated)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn gzip(data: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn no_more_comes_out_than_the_bound() {
        let body = gzip(b"m,host=h f=1");
        assert_eq!(gunzip(&body, 12).unwrap(), b"m,host=h f=1");
        assert_eq!(gunzip(&body, 11).unwrap_err().status.as_u16(), 413);
        let two = [body.as_slice(), &gzip(b"\nn f=2")].concat();
        assert_eq!(gunzip(&two, 100).unwrap(), b"m,host=h f=1\nn f=2");
        assert_eq!(gunzip(&two, 17).unwrap_err().status.as_u16(), 413);
        assert_eq!(gunzip(&[body.as_slice(), b"rest"].concat(), 100).unwrap_err().status.as_u16(), 400);
        // A thousand to one.
        let bomb = gzip(&vec![0; 10 << 20]);
        assert!(bomb.len() < 20_000);
        assert_eq!(gunzip(&bomb, 1 << 20).unwrap_err().status.as_u16(), 413);
        for body in [&b""[..], b"m,host=h f=1", &body[..body.len() - 1], &body[..10], b"\x1f\x8b"] {
            assert_eq!(gunzip(body, 1000).unwrap_err().status.as_u16(), 400, "{body:?}");
        }
    }
}

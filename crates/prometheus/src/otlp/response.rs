//! Encodes the response: `ExportMetricsServiceResponse`, or `Status` if the request was rejected, in the encoding of
//! the request.

use serde_json::json;

use super::translate::Rejected;
use crate::protobuf::{put_bytes, put_message, put_signed};

/// `google.rpc.Code.INVALID_ARGUMENT`.
const INVALID_ARGUMENT: i64 = 3;

/// The encoding of a request and its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Protobuf,
    Json,
}

impl Encoding {
    pub fn content_type(self) -> &'static str {
        match self {
            Encoding::Protobuf => "application/x-protobuf",
            Encoding::Json => "application/json",
        }
    }
}

/// The response to an accepted request. Rejected data points are reported as partial success.
pub fn export_response(rejected: &Rejected, encoding: Encoding) -> Vec<u8> {
    let message = rejected.reasons.join("; ");
    let is_complete = rejected.data_points == 0 && message.is_empty();
    match encoding {
        Encoding::Protobuf if is_complete => Vec::new(),
        Encoding::Protobuf => {
            let mut out = Vec::new();
            put_message(1, &mut out, |out| {
                put_signed(1, rejected.data_points.cast_signed(), out);
                put_bytes(2, message.as_bytes(), out);
            });
            out
        }
        Encoding::Json if is_complete => b"{}".to_vec(),
        Encoding::Json => {
            let data_points = rejected.data_points.to_string();
            let success =
                json!({"partialSuccess": {"rejectedDataPoints": data_points, "errorMessage": message}});
            success.to_string().into_bytes()
        }
    }
}

/// The response to a rejected request, with the code `INVALID_ARGUMENT`.
pub fn status(message: &str, encoding: Encoding) -> Vec<u8> {
    match encoding {
        Encoding::Protobuf => {
            let mut out = Vec::new();
            put_signed(1, INVALID_ARGUMENT, &mut out);
            put_bytes(2, message.as_bytes(), &mut out);
            out
        }
        Encoding::Json => json!({"code": INVALID_ARGUMENT, "message": message}).to_string().into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejected_data_points_are_reported() {
        let none = Rejected::default();
        assert_eq!(export_response(&none, Encoding::Protobuf), b"");
        assert_eq!(export_response(&none, Encoding::Json), b"{}");
        let some = Rejected { data_points: 2, reasons: vec!["a".to_owned(), "b".to_owned()] };
        assert_eq!(export_response(&some, Encoding::Protobuf), b"\x0a\x08\x08\x02\x12\x04a; b");
        let json = r#"{"partialSuccess":{"rejectedDataPoints":"2","errorMessage":"a; b"}}"#;
        assert_eq!(export_response(&some, Encoding::Json), json.as_bytes());
        assert_eq!(status("no", Encoding::Protobuf), b"\x08\x03\x12\x02no");
        assert_eq!(status("no", Encoding::Json), br#"{"code":3,"message":"no"}"#);
    }
}

//! Writes long JSON lists piece by piece, while the client reads. A page of revisions, each with all metrics of its
//! resource, may be gigabytes long, and so may the metrics of one resource with their policies.

use bytes::Bytes;
use gnudi_server::ReplyBody;

/// Up to about this many bytes a list is one piece, with Content-Length.
const WHOLE_BYTES_MAX: usize = 1 << 20;

/// The approximate size of the pieces of a longer list.
const PIECE_BYTES: usize = 64 << 10;

struct JsonList<I, W> {
    items: I,
    write: W,
    separator: &'static [u8],
    is_ended: bool,
}

/// A list of items, each as `write` appends it.
pub fn json_list<I>(items: I, write: impl FnMut(I::Item, &mut Vec<u8>) + Send + Sync + 'static) -> ReplyBody
where
    I: IntoIterator,
    I::IntoIter: Send + Sync + 'static,
{
    let mut list = JsonList { items: items.into_iter(), write, separator: b"", is_ended: false };
    let mut first = vec![b'['];
    list.append(WHOLE_BYTES_MAX, &mut first);
    if list.is_ended {
        return first.into();
    }
    ReplyBody::Pieces(Box::new(std::iter::once(Bytes::from(first)).chain(list)))
}

impl<I: Iterator, W: FnMut(I::Item, &mut Vec<u8>)> JsonList<I, W> {
    /// Appends the next items, until `out` has about this many bytes.
    fn append(&mut self, bytes: usize, out: &mut Vec<u8>) {
        while out.len() < bytes && !self.is_ended {
            if let Some(item) = self.items.next() {
                out.extend_from_slice(self.separator);
                (self.write)(item, out);
                self.separator = b", ";
            } else {
                out.push(b']');
                self.is_ended = true;
            }
        }
    }
}

impl<I: Iterator, W: FnMut(I::Item, &mut Vec<u8>)> Iterator for JsonList<I, W> {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let mut piece = Vec::new();
        self.append(PIECE_BYTES, &mut piece);
        (!piece.is_empty()).then(|| piece.into())
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    async fn whole(body: ReplyBody) -> Bytes {
        body.collect().await.unwrap().to_bytes()
    }

    #[tokio::test]
    async fn a_long_list_comes_in_pieces() {
        let list = |count: usize| {
            json_list(vec!["x".repeat(1_000); count], |item: String, out| {
                out.extend_from_slice(item.as_bytes());
            })
        };
        assert_eq!(whole(list(0)).await, "[]");
        for (count, is_whole) in [(1, true), (1_000, true), (1_050, false), (5_000, false)] {
            let body = list(count);
            assert_eq!(matches!(body, ReplyBody::Whole(_)), is_whole, "{count}");
            let expected = format!("[{}]", vec!["x".repeat(1_000); count].join(", "));
            assert!(whole(body).await == expected, "{count}");
        }
        let mut body = list(5_000);
        let ReplyBody::Pieces(pieces) = &mut body else { panic!("it is long") };
        assert!(pieces.skip(1).all(|piece| piece.len() < PIECE_BYTES + 1_100));
    }
}

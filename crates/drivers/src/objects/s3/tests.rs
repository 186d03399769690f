//! Tests of names, listings and responses.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    sync::mpsc::{Receiver, channel},
};

use super::*;

#[test]
fn names_are_found_in_xml() {
    let text = "<R><IsTruncated>false</IsTruncated><Contents><Key>a/1</Key><Size>1</Size></Contents>\
                <Contents><Key>b&amp;c&#x41;&#66;&quot;&nonsense;d</Key></Contents><Key>cut";
    let names: Vec<String> = elements(text, "Key").map(unescaped).collect();
    assert_eq!(names, ["a/1", "b&cAB\"d"]);
    assert_eq!(elements(text, "IsTruncated").next(), Some("false"));
    assert_eq!(elements(text, "Code").next(), None);
}

fn answer(status: u16, code: &str) -> Answer {
    let body = format!("<Error><Code>{code}</Code><Message>words</Message></Error>").into();
    let status = StatusCode::from_u16(status).unwrap();
    Answer { status, headers: gnudi_http::HeaderMap::new(), body }
}

#[test]
fn answers_are_told_apart() {
    for (status, code, expected) in [
        (200, "", Verdict::Fine),
        (204, "", Verdict::Fine),
        (404, "NoSuchKey", Verdict::Missing),
        (404, "NoSuchBucket", Verdict::Refused),
        (412, "PreconditionFailed", Verdict::Exists),
        (416, "InvalidRange", Verdict::OutOfRange),
        (409, "ConditionalRequestConflict", Verdict::Again),
        (400, "RequestTimeout", Verdict::Again),
        (503, "SlowDown", Verdict::Again),
        (500, "InternalError", Verdict::Again),
        (429, "", Verdict::Again),
        (507, "XMinioStorageFull", Verdict::Refused),
        (403, "InvalidAccessKeyId", Verdict::Refused),
        (403, "QuotaExceeded", Verdict::Refused),
        (301, "PermanentRedirect", Verdict::Refused),
    ] {
        assert_eq!(verdict(&answer(status, code)), expected, "{status} {code}");
    }
}

fn bucket_at(endpoint: String) -> S3Objects {
    let options = S3Options {
        endpoint_url: Some(endpoint),
        access_key_id: Some("key".to_owned()),
        secret_access_key: Some(Secret::new("secret")),
        ..S3Options::default()
    };
    S3Objects::new(&options, "bucket".to_owned()).unwrap()
}

/// A bucket on a server with these answers (status and body), and the first lines of its requests.
fn bucket_with(
    answers: impl Iterator<Item = [&'static str; 2]> + Send + 'static,
) -> (S3Objects, Receiver<String>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let store = bucket_at(format!("http://{}", listener.local_addr().unwrap()));
    let (sender, requests) = channel();
    std::thread::spawn(move || {
        for [status, body] in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let lines = reader.by_ref().lines().map(Result::unwrap);
            let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
            sender.send(head[0].clone()).unwrap();
            let lower = head.iter().map(|line| line.to_lowercase());
            let mut length =
                lower.filter_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
            let body_bytes: usize = length.next_back().unwrap_or(0);
            reader.read_exact(&mut vec![0; body_bytes]).unwrap();
            let length = body.len();
            let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
            stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        }
    });
    (store, requests)
}

/// Lists from a server that has these pages; returns also the first lines of its requests.
async fn listed(pages: &'static [&'static str]) -> (Result<Vec<String>, ObjectError>, Vec<String>) {
    let (store, requests) = bucket_with(pages.iter().map(|page| ["200 OK", *page]));
    (store.list_any("").await, requests.try_iter().collect())
}

#[tokio::test]
async fn a_page_without_names_does_not_end_a_listing() {
    const EMPTY: &str =
        "<R><IsTruncated>true</IsTruncated><NextContinuationToken>t/1</NextContinuationToken></R>";
    const A: &str = "<R><IsTruncated>true</IsTruncated><Contents><Key>a</Key></Contents></R>";
    const B: &str = "<R><IsTruncated>false</IsTruncated><Contents><Key>b</Key></Contents></R>";
    const PAGES: [&str; 3] = [EMPTY, A, B];
    const STUCK: [&[&str]; 2] = [&[EMPTY, EMPTY], &["<R><IsTruncated>true</IsTruncated></R>"]];
    let (names, requests) = listed(&PAGES).await;
    assert_eq!(names.unwrap(), ["a", "b"]);
    assert!(requests[1].contains("continuation-token=t%2F1"), "{}", requests[1]);
    assert!(requests[2].contains("start-after=a"), "{}", requests[2]);
    for pages in STUCK {
        let (names, _) = listed(pages).await;
        assert!(matches!(names, Err(ObjectError::Unavailable(_))), "{names:?}");
    }
}

#[tokio::test]
async fn a_page_of_something_else_is_no_empty_listing() {
    const PAGES: [&[&str]; 2] = [&["<html>maintenance</html>"], &[""]];
    for pages in PAGES {
        let (names, _) = listed(pages).await;
        assert!(matches!(names, Err(ObjectError::Unavailable(_))), "{names:?}");
    }
    let (names, _) = listed(&["<R><IsTruncated>false</IsTruncated></R>"]).await;
    assert_eq!(names, Ok(Vec::new()));
}

/// A missing object of the log counts as lost, and is given up.
#[tokio::test]
async fn what_only_a_proxy_does_not_find_may_be_there() {
    const LOST: [&str; 2] = ["404 Not Found", "404 page not found"];
    const THERE: [&str; 2] = ["200 OK", "bytes"];
    const ABSENT: [&str; 2] = ["404 Not Found", "<Error><Code>NoSuchKey</Code></Error>"];
    let (store, _requests) = bucket_with([LOST, THERE, ABSENT].into_iter());
    assert_eq!(store.get_any("log/1").await, Ok(Some(Bytes::from_static(b"bytes"))));
    assert_eq!(store.get_any("log/1").await, Ok(None));
    let to_head = Answer { body: Bytes::new(), ..answer(404, "") };
    assert_eq!(verdict(&to_head), Verdict::Missing);
}

#[test]
fn a_refused_create_is_in_doubt_after_an_attempt_without_an_answer() {
    let store = bucket_at("http://127.0.0.1:1".to_owned());
    let call = Call::new(Method::Put, "log/1");
    let full = answer(507, "XMinioStorageFull");
    assert!(matches!(store.create_refusal(&call, &full, false), ObjectError::NoSpace(_)));
    assert!(matches!(store.create_refusal(&call, &full, true), ObjectError::Unavailable(_)));
    let denied = answer(403, "AccessDenied");
    assert!(matches!(store.create_refusal(&call, &denied, false), ObjectError::Refused(_)));
    assert!(matches!(store.create_refusal(&call, &denied, true), ObjectError::Unavailable(_)));
}

#[test]
fn a_full_bucket_has_no_space() {
    let store = bucket_at("http://127.0.0.1:1".to_owned());
    let call = Call::new(Method::Put, "log/1");
    for (status, code) in
        [(507, "XMinioStorageFull"), (403, "QuotaExceeded"), (400, "XMinioAdminBucketQuotaExceeded")]
    {
        let refusal = store.refusal(&call, &answer(status, code));
        assert!(matches!(refusal, ObjectError::NoSpace(_)), "{refusal}");
    }
}

/// Probes a server that answers with these statuses, each so many times; returns also its requests' first lines.
async fn probed(statuses: &'static [(&'static str, usize)]) -> (Result<(), ObjectError>, Vec<String>) {
    let statuses = statuses.iter().flat_map(|(status, times)| std::iter::repeat_n([*status, ""], *times));
    let (store, requests) = bucket_with(statuses);
    (store.check_exclusive().await, requests.try_iter().collect())
}

const CREATED: &str = "200 OK";
const EXISTS: &str = "412 Precondition Failed";
const DELETED: &str = "204 No Content";

/// The object of an earlier start is sufficient: no start leaves another one, wherever it is killed.
#[tokio::test]
async fn all_starts_probe_with_one_object() {
    const FIRST: &[(&str, usize)] = &[(CREATED, 1), (EXISTS, PROBES_AT_ONCE - 1)];
    const LATER: &[(&str, usize)] = &[(EXISTS, PROBES_AT_ONCE)];
    let (first, of_first) = probed(FIRST).await;
    let (later, of_later) = probed(LATER).await;
    assert_eq!((first, later), (Ok(()), Ok(())));
    assert_eq!([of_first.len(), of_later.len()], [PROBES_AT_ONCE; 2]);
    for line in [of_first, of_later].concat() {
        let object = line.split('?').next().unwrap();
        assert!(object == "PUT /bucket/probe~" || object == "PUT /bucket/probe%7E", "{line}");
    }
}

/// Its next start would otherwise find the object, and take the server for one that refuses it.
#[tokio::test]
async fn a_server_that_lets_two_creators_win_is_refused_at_each_start() {
    const IGNORED: &[(&str, usize)] = &[(CREATED, PROBES_AT_ONCE), (DELETED, 1)];
    const RACED: &[(&str, usize)] = &[(CREATED, 2), (EXISTS, PROBES_AT_ONCE - 2), (DELETED, 1)];
    for (statuses, lack) in [(IGNORED, "ignores If-None-Match"), (RACED, "at once")] {
        let (refused, requests) = probed(statuses).await;
        assert!(matches!(&refused, Err(ObjectError::Refused(text)) if text.contains(lack)), "{refused:?}");
        assert!(requests.last().unwrap().starts_with("DELETE /bucket/probe"), "{requests:?}");
    }
}

#[tokio::test]
async fn a_server_that_refuses_the_probe_is_not_taken_for_exclusive() {
    const DENIED: &[(&str, usize)] = &[("403 Forbidden", PROBES_AT_ONCE)];
    let (refused, _) = probed(DENIED).await;
    assert!(matches!(&refused, Err(ObjectError::Refused(text)) if text.contains("403")), "{refused:?}");
}

//! Every call against a server that records requests and responds from a script.

use std::{collections::BTreeMap, time::Duration};

use gnudi_client::{
    ArchivePolicySpec, Client, ClientError, ClientOptions, DefinitionSpec, MeasuresFilter, MetricFilter,
    MetricSpec,
};
use gnudi_model::{Measure, MetricId, Timestamp};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use uuid::Uuid;

const ID: &str = "0a7a15ff-aa13-4ac2-897c-9bdf30ce175b";

/// Answers the requests of one connection with `answers`, in order, and returns the requests' texts. An answer is the
/// status with further headers, then the body after the last line feed, if there is one.
async fn server(answers: Vec<&'static str>) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/gnocchi/", listener.local_addr().unwrap());
    let handle = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut requests = Vec::new();
        for answer in answers {
            requests.push(read_request(&mut stream).await);
            let (status, body) = answer.rsplit_once('\n').unwrap_or((answer, ""));
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", body.len());
            stream.write_all((head + body).as_bytes()).await.unwrap();
        }
        requests
    });
    (url, handle)
}

async fn read_request(stream: &mut TcpStream) -> String {
    let (mut text, mut buffer) = (String::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut buffer).await.unwrap();
        assert!(count > 0, "the client went away after {text}");
        text += std::str::from_utf8(&buffer[..count]).unwrap();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head
            .lines()
            .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ").map(str::to_owned))
            .map_or(0, |length| length.parse().unwrap());
        if body.len() == length {
            return text;
        }
    }
}

fn client(url: &str) -> Client {
    Client::new(url, &ClientOptions { timeout: Duration::from_mins(1), ..ClientOptions::default() }).unwrap()
}

fn metric_id() -> MetricId {
    MetricId(Uuid::parse_str(ID).unwrap())
}

#[tokio::test]
async fn calls_go_over_one_connection_with_prefix_and_user() {
    let (url, requests) = server(vec![
        "201 Created\n{\"id\": \"0a7a15ff-aa13-4ac2-897c-9bdf30ce175b\", \"archive_policy_name\": \"low\", \"name\": \"cpu\", \"creator\": \"admin\", \"unit\": null, \"resource_id\": null}",
        "202 Accepted",
        "200 OK\n[[\"2015-01-01T00:00:00+00:00\", 60.0, 1.5]]",
        "204 No Content",
    ])
    .await;
    let client = client(&url);
    let spec = MetricSpec { name: Some("cpu".to_owned()), ..MetricSpec::default() };
    let metric = client.create_metric(&spec).await.unwrap();
    assert_eq!(metric.id, metric_id());
    let measure = Measure { timestamp: Timestamp::EPOCH, value: 1.0 };
    client.post_batch(&BTreeMap::from([(metric.id, vec![measure])])).await.unwrap();
    let points = client.get_measures(metric.id, &MeasuresFilter::default()).await.unwrap();
    assert_eq!(points[0].value, 1.5);
    client.send_json("DELETE", format!("/v1/metric/{ID}"), None).await.unwrap();

    let requests = requests.await.unwrap();
    assert!(requests[0].starts_with("POST /gnocchi/v1/metric HTTP/1.1\r\n"), "{}", requests[0]);
    assert!(requests[0].contains("authorization: Basic YWRtaW46\r\n"), "{}", requests[0]);
    assert!(requests[0].contains("content-type: application/json\r\n"), "{}", requests[0]);
    assert!(requests[0].ends_with("\r\n\r\n{\"name\":\"cpu\"}"), "{}", requests[0]);
    assert!(requests[1].starts_with("POST /gnocchi/v1/batch/metrics/measures "), "{}", requests[1]);
    let measures = "[{\"timestamp\":\"1970-01-01T00:00:00.000000000\",\"value\":1.0}]";
    assert!(requests[1].ends_with(&format!("{{\"{ID}\":{measures}}}")), "{}", requests[1]);
    assert!(requests[2].starts_with(&format!("GET /gnocchi/v1/metric/{ID}/measures ")), "{}", requests[2]);
    assert!(requests[3].starts_with(&format!("DELETE /gnocchi/v1/metric/{ID} ")), "{}", requests[3]);
}

#[tokio::test]
async fn policies_and_status() {
    let policy = "{\"name\": \"a b\", \"back_window\": 0, \"aggregation_methods\": [\"mean\"], \"definition\": \
                  [{\"granularity\": \"0:01:00\", \"points\": 60, \"timespan\": \"1:00:00\"}]}";
    let created: &'static str = Box::leak(format!("201 Created\n{policy}").into_boxed_str());
    let (url, requests) = server(vec![
        created,
        "200 OK\n{\"storage\": {\"summary\": {\"metrics\": 3, \"measures\": 7}}, \"metricd\": {\"processors\": null}}",
    ])
    .await;
    let client = client(&url);
    let spec = ArchivePolicySpec {
        name: "a b".to_owned(),
        definition: vec![DefinitionSpec {
            granularity: Some("60".to_owned()),
            points: Some(60),
            ..DefinitionSpec::default()
        }],
        ..ArchivePolicySpec::default()
    };
    assert_eq!(client.create_archive_policy(&spec).await.unwrap().definition[0].points, Some(60));
    let status = client.status().await.unwrap();
    assert_eq!((status.backlog.metrics, status.backlog.measures), (3, 7));

    let requests = requests.await.unwrap();
    assert!(
        requests[0].ends_with("{\"name\":\"a b\",\"definition\":[{\"granularity\":\"60\",\"points\":60}]}"),
        "{}",
        requests[0]
    );
    assert!(requests[1].starts_with("GET /gnocchi/v1/status?details=false "), "{}", requests[1]);
}

#[tokio::test]
async fn a_listing_is_asked_for_by_its_filter() {
    let (url, requests) = server(vec![
        "200 OK\n[{\"id\": \"00000000-0000-0000-0000-000000000001\"}, {\"id\": \"0a7a15ff-aa13-4ac2-897c-9bdf30ce175b\"}]",
    ])
    .await;
    let filter = MetricFilter { creator: Some("u:p".to_owned()), limit: Some(2), ..MetricFilter::default() };
    assert_eq!(client(&url).list_metrics(&filter).await.unwrap().len(), 2);
    let request = &requests.await.unwrap()[0];
    assert!(request.starts_with("GET /gnocchi/v1/metric?creator=u%3Ap&limit=2 HTTP"), "{request}");
}

#[tokio::test]
async fn a_refusal_carries_status_message_and_wait() {
    let (url, _requests) = server(vec![
        "409 Conflict\n{\"code\": 409, \"title\": \"Conflict\", \"description\": \"Archive policy x already exists\"}",
        "429 Too Many Requests\r\nRetry-After: 7\nslow down",
        "301 Moved Permanently\r\nLocation: https://h/v1/metric\n<h1>301</h1>",
        "200 OK\n{}",
    ])
    .await;
    let client = client(&url);
    let error = client.create_archive_policy(&ArchivePolicySpec::default()).await.unwrap_err();
    assert_eq!(error.status(), Some(409));
    assert_eq!(error.to_string(), "POST /v1/archive_policy: 409 Archive policy x already exists");
    let error = client.post_batch(&BTreeMap::new()).await.unwrap_err();
    let refused = error.refused().unwrap();
    assert_eq!((refused.status, refused.message.as_str()), (429, "slow down"));
    assert_eq!(refused.retry_after, Some(Duration::from_secs(7)));
    let error = client.list_metrics(&MetricFilter::default()).await.unwrap_err();
    assert_eq!(error.to_string(), "GET /v1/metric: 301 redirected to https://h/v1/metric");
    let error = client.list_metrics(&MetricFilter::default()).await.unwrap_err();
    assert!(matches!(error, ClientError::UnexpectedAnswer { .. }), "{error}");
}

#[tokio::test]
async fn silence_and_a_closed_port_are_no_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let options = ClientOptions { timeout: Duration::from_millis(50), ..ClientOptions::default() };
    let impatient = Client::new(&url, &options).unwrap();
    let error = impatient.status().await.unwrap_err();
    assert!(matches!(error, ClientError::NoAnswer { .. }), "{error}");
    assert!(error.to_string().contains("50 ms"), "{error}");
    drop(listener);
    let error = client(&url).status().await.unwrap_err();
    assert!(error.to_string().contains("efused"), "{error}");
}

"""POST /api/v1/otlp/v1/metrics: metrics become Prometheus' series, and the response counts rejected data points."""

import gzip
import json

import pytest

from inputs.remote_write import field
from inputs.stored import metrics_of
from prometheus.messages import export, fixed64, number, number_point, otlp_metric
from support.gnudi import Gnudi

EXPORT = "/api/v1/otlp/v1/metrics"
PROTOBUF, JSON = {"Content-Type": "application/x-protobuf"}, {"Content-Type": "application/json"}
START = 1_700_000_000
NANOSECONDS = START * 10**9
TARGET = [("service.name", "shop"), ("service.namespace", "web"), ("service.instance.id", "a1"), ("host.name", "h1")]
RESOURCE = "web%5Cx2fshop@a1"


@pytest.fixture(scope="module")
def server(module_path):
    with Gnudi(module_path / "data") as server:
        yield server


def values(server, resource):
    """{name: [values]} of all raw points of a resource."""
    client, found = server.client(), {}
    for name, metric in metrics_of(client, "prometheus", resource).items():
        points = client.get(f"/v1/metric/{metric}/measures?refresh=true&aggregation=raw").expect(200).json()
        assert all(point[0].startswith("2023-11-14T22:13:2") for point in points)
        found[name] = [point[2] for point in points]
    return found


def text(key, value):
    return {"key": key, "value": {"stringValue": value}}


def document(job, *metrics):
    """A request in JSON with one resource."""
    resource = {"attributes": [text("service.name", job), {"key": "n", "value": {"intValue": "7"}}]}
    return {"resourceMetrics": [{"resource": resource, "scopeMetrics": [{"scope": {"name": "s"}, "metrics": list(metrics)}]}]}


def point(value, second=0, *attributes, **more):
    return {"timeUnixNano": str((START + second) * 10**9), "asDouble": value, "attributes": list(attributes), **more}


def post(server, body, headers=JSON):
    body = json.dumps(body).encode() if isinstance(body, dict) else body
    return server.client().post(EXPORT, body, headers=headers)


def test_protobuf_is_read_back(server):
    body = export(
        TARGET,
        otlp_metric("queue.length", 5, number_point(NANOSECONDS, 3.5, ("queue.name", "in"), ("0", "x"))),
        otlp_metric("io", 7, number_point(NANOSECONDS, 10.0) + number(2, 2) + number(3, 1), "By/s"),
    )
    for headers, sent in [(PROTOBUF, body), ({**PROTOBUF, "Content-Encoding": "gzip"}, gzip.compress(body))]:
        answer = post(server, sent, headers).expect(200)
        assert (answer.body, answer.headers["content-type"]) == (b"", "application/x-protobuf")
    assert values(server, RESOURCE) == {
        'queue_length{key_0="x",queue_name="in"}': [3.5], "io_bytes_per_second_total": [10.0],
        'target_info{host_name="h1"}': [1.0],
    }


def test_json_is_read_back(server):
    histogram = {"timeUnixNano": str(NANOSECONDS), "count": "6", "sum": 12.5, "bucketCounts": ["1", "2", 3], "explicitBounds": [0.1, 1]}
    summary = {"timeUnixNano": NANOSECONDS, "count": 4, "sum": 2,
               "quantileValues": [{"quantile": 0.5, "value": 1.5}, {"quantile": 1, "value": "NaN"}]}
    body = document(
        "json",
        {"name": "latency", "unit": "s", "histogram": {"dataPoints": [histogram], "aggregationTemporality": 2}},
        {"name": "sizes", "summary": {"dataPoints": [summary]}},
        {"name": "whole", "gauge": {"dataPoints": [{"timeUnixNano": str(NANOSECONDS), "asInt": "-5"}, point(2.0, 5), point(0, 6, flags=1)]}},
        {"name": "net", "unit": "1", "sum": {"dataPoints": [point(8.0)], "aggregationTemporality": "AGGREGATION_TEMPORALITY_CUMULATIVE"}},
        {"name": "load", "unit": "1", "gauge": {"dataPoints": [point(0.5, 0, text("a.b", "1"), text("a_b", "2"))]}},
        {"name": "empty", "gauge": {"dataPoints": []}}, {"name": "none"},
    )
    answer = post(server, body).expect(200)
    assert (answer.json(), answer.headers["content-type"]) == ({}, "application/json")
    stored = values(server, "json@none")
    [nan], whole = stored.pop('sizes{quantile="1"}'), stored.pop("whole")
    assert nan != nan and whole[:2] == [-5.0, 2.0] and len(whole) == 3 and whole[2] != whole[2]
    # At the first time and at the last.
    assert stored.pop('target_info{n="7"}') == [1.0, 1.0]
    assert stored == {
        "latency_seconds_sum": [12.5], "latency_seconds_count": [6.0], 'latency_seconds_bucket{le="0.1"}': [1.0],
        'latency_seconds_bucket{le="1"}': [3.0], 'latency_seconds_bucket{le="+Inf"}': [6.0],
        "sizes_sum": [2.0], "sizes_count": [4.0], 'sizes{quantile="0.5"}': [1.5],
        "net": [8.0], 'load_ratio{a_b="1;2"}': [0.5],
    }


def test_fields_may_have_their_names_in_protobuf(server):
    data_point = {"time_unix_nano": str(NANOSECONDS), "as_double": 4.5, "attributes": [{"key": "a", "value": {"string_value": "b"}}]}
    resource = {"attributes": [{"key": "service.name", "value": {"string_value": "snake"}}]}
    metric = {"name": "level", "gauge": {"data_points": [data_point]}}
    answer = post(server, {"resource_metrics": [{"resource": resource, "scope_metrics": [{"metrics": [metric]}]}]}).expect(200)
    assert answer.json() == {}
    assert values(server, "snake@none") == {'level{a="b"}': [4.5]}


def test_what_is_said_of_a_known_series_may_change(server):
    data = {"dataPoints": [point(1.0)], "aggregationTemporality": 2, "isMonotonic": True}
    for help_text in ["first", "second", "first"]:
        post(server, document("said", {"name": "said", "unit": "By", "description": help_text, "sum": data})).expect(200)
        found = server.client().get("/api/v1/metadata?metric=said_bytes_total").expect(200).json()["data"]
        assert found == {"said_bytes_total": [{"type": "counter", "help": help_text, "unit": "bytes"}]}


def test_what_is_refused_is_counted(server):
    exponential = {"dataPoints": [{"timeUnixNano": str(NANOSECONDS), "count": "1", "scale": 3}] * 3, "aggregationTemporality": 2}
    body = document(
        "partial",
        {"name": "good", "gauge": {"dataPoints": [point(1.0)]}},
        {"name": "delta", "sum": {"dataPoints": [point(1.0), point(2.0, 1)], "aggregationTemporality": 1, "isMonotonic": True}},
        {"name": "spread", "exponentialHistogram": exponential},
        {"name": "...", "gauge": {"dataPoints": [point(1.0)]}},
        {"name": "labelled", "gauge": {"dataPoints": [point(1.0, 0, text("", "x")), point(3.0)]}},
        {"name": "late", "gauge": {"dataPoints": [{"timeUnixNano": "18446744073709551615", "asDouble": 1}]}},
    )
    success = post(server, body).expect(200).json()["partialSuccess"]
    assert success["rejectedDataPoints"] == "8"
    for reason in ('"delta": only cumulative temporality', '"spread": exponential histograms', '"..."', 'labelled: the label ""', "late: a time"):
        assert reason in success["errorMessage"], success
    assert set(values(server, "partial@none")) == {"good", "labelled", 'target_info{n="7"}'}
    exponential = field(1, fixed64(3, NANOSECONDS)) + number(2, 2)
    answer = post(server, export(TARGET, otlp_metric("spread", 10, exponential)), PROTOBUF).expect(200)
    assert b'"spread": exponential histograms are not supported' in answer.body and answer.body[:4][2:] == b"\x08\x01"


def test_an_old_point_makes_few_samples(server):
    """`target_info` goes from the first time to the last, which the sender chooses."""
    body = document("old", {"name": "m", "gauge": {"dataPoints": [point(1.0), {"timeUnixNano": "1", "asDouble": 1}]}})
    post(server, body).expect(200)
    metric = metrics_of(server.client(), "prometheus", "old@none")['target_info{n="7"}']
    points = server.client().get(f"/v1/metric/{metric}/measures?refresh=true&aggregation=raw").expect(200).json()
    assert len(points) == 1000


@pytest.mark.parametrize("headers,body,status", [
    *[(JSON, body, 400) for body in [
        b"", b"hello", b"[1]", b"null", b'{"resourceMetrics": 1}', b'{"resourceMetrics": [{"scopeMetrics": [{"metrics": [{"name": 1}]}]}]}',
        b'{"resourceMetrics": [', b"{" * 10_000, b"\xff", b'{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"m","gauge":{"dataPoints":'
        b'[{"timeUnixNano":"x"}]}}]}]}]}',
    ]],
    (JSON, b"{}" * 1_100_000, 413),
    *[(PROTOBUF, body, 400) for body in [b"hello", b"\x0a", b"\x0a\x05", b"\x0b", b"\x08\x01", b"\xff" * 11]],
    (PROTOBUF, field(1, b"") * 600_000, 413),
    ({**PROTOBUF, "Content-Encoding": "gzip"}, b"hello", 400),
    ({**PROTOBUF, "Content-Encoding": "gzip"}, gzip.compress(bytes(65 << 20), 1), 413),
    ({**PROTOBUF, "Content-Encoding": "zstd"}, b"", 415), ({"Content-Type": "text/plain"}, b"", 415),
])
def test_bad_bodies_change_nothing(server, headers, body, status):
    client = server.client()
    before = client.get("/v1/metric?limit=1000").expect(200).json()
    answer = client.post(EXPORT, body, headers=headers).expect(status)
    if status == 400 and headers == JSON:
        assert answer.json()["code"] == 3 and answer.json()["message"], answer
    assert client.get("/v1/metric?limit=1000").expect(200).json() == before


def test_a_request_that_makes_too_many_labels_is_413(server):
    """A megabyte of attributes for each of a thousand buckets."""
    bounds = list(range(1000))
    histogram = {"timeUnixNano": str(NANOSECONDS), "count": 1, "bucketCounts": bounds, "explicitBounds": bounds,
                 "attributes": [text("a", "x" * (1 << 20))]}
    body = document("wide", {"name": "m", "histogram": {"dataPoints": [histogram], "aggregationTemporality": 2}})
    post(server, body).expect(413)
    assert metrics_of(server.client(), "prometheus", "wide@none") == {}


def test_many_attributes_that_become_one_label_cost_no_more_than_their_size(server):
    attributes = [text("a." if one % 2 else "a_", "x") for one in range(100_000)]
    body = document("joined", {"name": "m", "gauge": {"dataPoints": [point(1.0, 0, *attributes)]}})
    post(server, body).expect(200)
    [name] = [name for name in metrics_of(server.client(), "prometheus", "joined@none") if name.startswith("m{")]
    assert len(name) == 255 and name.startswith('m{a_="x;x;')

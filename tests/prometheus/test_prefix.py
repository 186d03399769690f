"""Prometheus' API is also served below `/prometheus`, and no other API is."""

import json
import urllib.parse

import pytest

from inputs.remote_write import label, sample, series, snappy
from support.gnudi import Gnudi
from support.process import wait_until

PREFIX = "/prometheus"
TIME = 1_750_000_000
WRITE_HEADERS = {"Content-Type": "application/x-protobuf", "Content-Encoding": "snappy", "X-Prometheus-Remote-Write-Version": "0.1.0"}


@pytest.fixture(scope="module", params=["", "metrics"], ids=["root", "path prefix"])
def client(request, module_path):
    arguments = ["--path-prefix", request.param] if request.param else []
    with Gnudi(module_path / (request.param or "root"), arguments=arguments) as server:
        prefix = f"/{request.param}" if request.param else ""
        client = server.client()

        def ask(method, path, *args, **kwargs):
            return client.request(method, prefix + path, *args, **kwargs)
        message = snappy(series(label("__name__", "up"), label("instance", "h:1"), label("job", "j"), sample(1.5, TIME * 1000)))
        ask("POST", PREFIX + "/api/v1/write", message, headers=WRITE_HEADERS).expect(204)
        # The answers of both addresses are compared: nothing may be processed in between.
        wait_until(lambda: ask("GET", f"/api/v1/query?time={TIME}&query=up").expect(200).json()["data"]["result"], 60, "the sample")
        yield ask


@pytest.mark.parametrize("path", [
    f"/api/v1/query?time={TIME}&query=up", f"/api/v1/query_range?query=up&start={TIME}&end={TIME + 30}&step=15", "/api/v1/labels",
    "/api/v1/label/job/values", "/api/v1/series?match[]=up", "/api/v1/metadata", "/api/v1/status/buildinfo", "/api/v1/query?query=(",
    "/api/v1/no_such_path", "/federate?match[]=up",
])
def test_answers_are_the_same(client, path):
    plain, prefixed = client("GET", path), client("GET", PREFIX + path)
    assert prefixed.status == plain.status
    assert prefixed.headers["content-type"] == plain.headers["content-type"]
    assert prefixed.body == plain.body


def test_a_form_is_taken(client):
    form = urllib.parse.urlencode({"query": "up * 2", "time": TIME}).encode()

    def values():
        answer = client("POST", PREFIX + "/api/v1/query", form, headers={"Content-Type": "application/x-www-form-urlencoded"})
        return [found["value"] for found in answer.expect(200).json()["data"]["result"]]
    assert wait_until(values, 60, "measures") == [[TIME, "3"]]


def test_metrics_of_opentelemetry_are_taken(client):
    point = {"timeUnixNano": str((TIME + 1) * 10**9), "asDouble": 7}
    body = {"resourceMetrics": [{"scopeMetrics": [{"metrics": [{"name": "sent", "gauge": {"dataPoints": [point]}}]}]}]}
    client("POST", PREFIX + "/api/v1/otlp/v1/metrics", json.dumps(body).encode(),
           headers={"Content-Type": "application/json"}).expect(200)

    def values():
        found = client("GET", f"/api/v1/query?time={TIME + 1}&query=sent").expect(200).json()["data"]["result"]
        return [series["value"] for series in found]
    assert wait_until(values, 60, "measures") == [[TIME + 1, "7"]]


@pytest.mark.parametrize("path", ["", "/", "/v1/metric", "/v1", "/metrics", "/healthcheck", "/page/index.html",
                                  "/prometheus/api/v1/query?query=1"])
def test_nothing_else_is_there(client, path):
    client("GET", PREFIX + path).expect(404)


def test_figures_count_both_addresses_as_one_route(client):
    client("GET", PREFIX + "/api/v1/status/flags").expect(200)
    assert b'route="/api/v1/status/flags"' in client("GET", "/metrics").body

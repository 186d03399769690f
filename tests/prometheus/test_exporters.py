"""The OpenTelemetry collector and Telegraf, built from their own modules: data that they export by OTLP over HTTP, by remote write and by
InfluxDB's protocol is stored, and read back by PromQL."""

import json
import time

import pytest

from prometheus import golang
from prometheus.oracle import ask
from support.gnudi import Gnudi
from support.http import Client, basic, create_policy_with_rule
from support.process import Process, free_port, wait_until

pytestmark = pytest.mark.long

TIMEOUT_S = 60
# Of each request that an exporter sends: one that is given up is an error in its log.
REQUEST_TIMEOUT = "60s"
AUTHORIZATION = basic("admin")["Authorization"]
TELEGRAF_PLUGINS = ["inputs.http_listener_v2", "parsers.influx", "outputs.http", "outputs.influxdb", "serializers.prometheusremotewrite"]
POINTS = [(0, 1.5, 10), (15, -2.25, 17), (30, 0.1, 17)]


@pytest.fixture(scope="module")
def start():
    """A whole minute a while ago."""
    return int(time.time()) // 60 * 60 - 300


@pytest.fixture
def server(tmp_path):
    with Gnudi(tmp_path / "gnudi") as server:
        yield server


def values(server, query, start):
    """{labels: [value at each of the points' times]}"""
    parameters = {"query": query, "start": start, "end": start + 30, "step": 15}
    status, document = ask(server.port, "/prometheus/api/v1/query_range", parameters)
    assert status == 200, document
    return {tuple(sorted(series["metric"].items())): [float(value) for _, value in series["values"]]
            for series in document["data"]["result"]}


def read_back(server, query, start):
    """The one series that a query finds, once it has all its points."""
    def complete():
        found = values(server, query, start)
        return len(found) == 1 and all(len(one) == len(POINTS) for one in found.values())
    wait_until(complete, TIMEOUT_S, query)
    (labels, found), = values(server, query, start).items()
    return dict(labels), found


def ready(process, port):
    """A client of a process, once it answers."""
    client = Client("127.0.0.1", port)
    process.wait_ready(lambda: client.answers("/", 404), TIMEOUT_S)
    return client


def exporters(port):
    """By name: what the collector's configuration says of an exporter that sends to gnudi."""
    more = {"headers": {"Authorization": AUTHORIZATION}, "timeout": REQUEST_TIMEOUT}
    return {
        "otlp_http": {"endpoint": f"http://127.0.0.1:{port}/api/v1/otlp", **more},
        "prometheusremotewrite": {"endpoint": f"http://127.0.0.1:{port}/prometheus/api/v1/write", **more},
    }


def data_points(start, values, **more):
    return [{"timeUnixNano": str((start + second) * 10**9), "startTimeUnixNano": str((start - 60) * 10**9), **value, **more}
            for (second, *_), value in zip(POINTS, values)]


def message(start):
    """One resource with a gauge, a counter and a histogram, each with three points."""
    attributes = [{"key": key, "value": {"stringValue": text}} for key, text in [
        ("service.name", "shop"), ("service.instance.id", "a1")]]
    zone = {"attributes": [{"key": "zone.name", "value": {"stringValue": "north"}}]}
    gauge = data_points(start, [{"asDouble": value} for _, value, _ in POINTS], **zone)
    counter = data_points(start, [{"asInt": str(count)} for _, _, count in POINTS])
    histogram = data_points(start, [{"count": str(count), "sum": count / 2, "explicitBounds": [0.5],
                                     "bucketCounts": [str(count - 3), "3"]} for _, _, count in POINTS])
    metrics = [
        {"name": "room.temperature", "unit": "Cel", "gauge": {"dataPoints": gauge}},
        {"name": "jobs", "sum": {"aggregationTemporality": 2, "isMonotonic": True, "dataPoints": counter}},
        {"name": "wait", "unit": "s", "histogram": {"aggregationTemporality": 2, "dataPoints": histogram}},
    ]
    return {"resourceMetrics": [{"resource": {"attributes": attributes}, "scopeMetrics": [{"metrics": metrics}]}]}


@pytest.mark.parametrize("exporter", ["otlp_http", "prometheusremotewrite"])
def test_collector(server, start, tmp_path, exporter):
    program = golang.program("collector")
    port = free_port()
    config = {
        "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{port}"}}}},
        "exporters": {exporter: exporters(server.port)[exporter]},
        "service": {"telemetry": {"metrics": {"level": "none"}},
                    "pipelines": {"metrics": {"receivers": ["otlp"], "exporters": [exporter]}}},
    }
    # JSON is YAML.
    (tmp_path / "collector.yaml").write_text(json.dumps(config))
    collector = Process([program, f"--config=file:{tmp_path / 'collector.yaml'}"], tmp_path / "collector.log")
    try:
        client = ready(collector, port)
        client.post("/v1/metrics", message(start)).expect(200)
        labels, found = read_back(server, "room_temperature_celsius", start)
        assert found == [value for _, value, _ in POINTS]
        assert labels["zone_name"] == "north"
        assert labels["job"] == "shop" and labels["instance"] == "a1"
        counts = [count for *_, count in POINTS]
        assert read_back(server, "jobs_total", start)[1] == counts
        assert read_back(server, "wait_seconds_count", start)[1] == counts
        assert read_back(server, "wait_seconds_sum", start)[1] == [count / 2 for count in counts]
        assert read_back(server, 'wait_seconds_bucket{le="0.5"}', start)[1] == [count - 3 for count in counts]
        assert read_back(server, 'wait_seconds_bucket{le="+Inf"}', start)[1] == counts
    finally:
        collector.terminate()
    assert "error" not in collector.log(), collector.log()


def telegraf_output(name, port):
    """Telegraf's configuration of an output that sends to gnudi."""
    if name == "influxdb":
        return f"""
            urls = ["http://127.0.0.1:{port}/v1/influxdb"]
            database = "shop"
            username = "admin"
            timeout = "{REQUEST_TIMEOUT}"
            """
    return f"""
        url = "http://127.0.0.1:{port}/prometheus/api/v1/write"
        data_format = "prometheusremotewrite"
        timeout = "{REQUEST_TIMEOUT}"
        [outputs.http.headers]
          Authorization = "{AUTHORIZATION}"
          Content-Type = "application/x-protobuf"
          Content-Encoding = "snappy"
          X-Prometheus-Remote-Write-Version = "0.1.0"
        """


@pytest.mark.parametrize(("output", "query"), [
    ("http", 'room_temperature{zone="north"}'),
    ("influxdb", '{"room.temperature@zone=north"}'),
])
def test_telegraf(server, start, tmp_path, output, query):
    program = golang.program("telegraf", "github.com/influxdata/telegraf/cmd/telegraf", ["custom", *TELEGRAF_PLUGINS])
    create_policy_with_rule(server.client())
    port = free_port()
    config = f"""
        [agent]
          interval = "1s"
          flush_interval = "1s"
          # Of each series in a batch, the serializer of remote writes keeps the newest sample only.
          metric_batch_size = 1
          omit_hostname = true
        [[inputs.http_listener_v2]]
          service_address = "tcp://127.0.0.1:{port}"
          paths = ["/write"]
          data_format = "influx"
        [[outputs.{output}]]
        {telegraf_output(output, server.port)}
        """
    (tmp_path / "telegraf.conf").write_text(config)
    telegraf = Process([program, "--config", tmp_path / "telegraf.conf"], tmp_path / "telegraf.log")
    try:
        client = ready(telegraf, port)
        lines = "".join(f"room,host=a1,zone=north temperature={value} {start + second}000000000\n" for second, value, _ in POINTS)
        client.post("/write", lines.encode(), headers={"Content-Type": "text/plain"}).expect(204)
        assert read_back(server, query, start)[1] == [value for _, value, _ in POINTS]
    finally:
        telegraf.terminate()
    assert " E! " not in telegraf.log(), telegraf.log()

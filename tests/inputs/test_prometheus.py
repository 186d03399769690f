"""A real Prometheus (Debian's) scrapes a small exporter and itself, and writes all samples to gnudi."""

import datetime
import json
import threading
import urllib.parse
import urllib.request

import pytest
from inputs.remote_write import label, sample, series, snappy
from inputs.stored import SOON_S, metrics_of, points, wait_for_metrics
from support.http import Client, create_policy_with_rule
from support.http_stand_in import HttpStandIn
from support.process import Process, at_once, free_port, required, wait_until

CONFIG = """\
global:
  scrape_interval: 500ms
scrape_configs:
  - job_name: exporter
    static_configs: [{{targets: ["127.0.0.1:{exporter}"]}}]
  - job_name: prometheus
    static_configs: [{{targets: ["127.0.0.1:{own}"]}}]
remote_write:
  - url: http://127.0.0.1:{gnudi}/v1/prometheus/write
    basic_auth: {{username: admin, password: any}}
    queue_config: {{batch_send_deadline: 200ms}}
"""

EXPOSED = """\
# TYPE temperature gauge
temperature 21.5
# TYPE requests_total counter
requests_total{code="200",path="/a/b"} 7
requests_total{code="500",path="/a/b"} 2
requests_total{code="200",path="with \\"quotes\\" and \\\\"} 1
# TYPE nothing gauge
nothing NaN
# TYPE huge gauge
huge +Inf
"""


class Exporter(HttpStandIn):
    def respond(self, *_):
        return 200, {"Content-Type": "text/plain; version=0.0.4"}, EXPOSED.encode()


@pytest.fixture
def exporter():
    with Exporter() as server:
        yield server.port


@pytest.fixture
def server(gnudi):
    server = gnudi(arguments=["--skip-archive-policies-creation"])
    create_policy_with_rule(server.client(), aggregation_methods=["mean", "max", "count", "last"])
    return server


@pytest.fixture
def prometheus(server, exporter, tmp_path):
    program = required("prometheus")
    port = free_port()
    config = tmp_path / "prometheus.yml"
    config.write_text(CONFIG.format(exporter=exporter, own=port, gnudi=server.port))
    process = Process([program, f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'prometheus'}",
                       f"--web.listen-address=127.0.0.1:{port}"], tmp_path / "prometheus.log")
    client = Client("127.0.0.1", port, user=None, timeout_s=2)
    process.wait_ready(lambda: client.answers("/-/ready"), 60)
    process.port = port
    yield process
    if process.running():
        process.kill()


def ask(prometheus, query):
    """Prometheus' own answer: [(labels, [(time, value)])]."""
    url = f"http://127.0.0.1:{prometheus.port}/api/v1/query?" + urllib.parse.urlencode({"query": query})
    with urllib.request.urlopen(url, timeout=30) as answer:
        return [(one["metric"], one["values"]) for one in json.load(answer)["data"]["result"]]


def test_what_prometheus_scrapes_is_stored(server, prometheus, exporter):
    client, resource = server.client(), f"exporter@127.0.0.1:{exporter}"
    names = {
        "temperature": 21.5,
        'requests_total{code="200",path="\\x2fa\\x2fb"}': 7.0,
        'requests_total{code="500",path="\\x2fa\\x2fb"}': 2.0,
        'requests_total{code="200",path="with \\"quotes\\" and \\\\"}': 1.0,
        "huge": float("inf"),
        "nothing": None,
        "up": 1.0,
        "scrape_samples_scraped": 6.0,
    }
    metrics = wait_for_metrics(client, "prometheus", resource, names)
    shown = client.get(f"/v1/resource/prometheus/{resource}").expect(200).json()
    assert (shown["job"], shown["instance"]) == ("exporter", f"127.0.0.1:{exporter}")
    wait_until(lambda: len(points(client, metrics["temperature"])) >= 3, SOON_S, "three seconds of figures")
    for name, value in names.items():
        stored = {point[2] for point in wait_until(lambda: points(client, metrics[name], "last"), SOON_S, f"figures of {name}")}
        if name in ("up", "scrape_samples_scraped"):
            # A scrape may come too late on a busy machine: Prometheus has zeros itself then.
            own = {float(shown) for _, samples in ask(prometheus, f'{name}{{job="exporter"}}[5m]') for _, shown in samples}
            assert value in stored and stored <= own <= {value, 0.0}, name
            continue
        assert stored == {value} or (value is None and all(point != point for point in stored)), name
    # A name with its labels is found by its address too.
    path = urllib.parse.quote('requests_total{code="500",path="\\x2fa\\x2fb"}', safe="")
    metric = client.get(f"/v1/resource/prometheus/{resource}/metric/{path}").expect(200).json()
    assert metric["id"] == metrics['requests_total{code="500",path="\\x2fa\\x2fb"}']


def test_every_sample_that_prometheus_has_is_stored(server, prometheus):
    """Prometheus' own figures, hundreds of series with many labels: as many as it has itself, with its numbers."""
    client, resource = server.client(), f"prometheus@127.0.0.1:{prometheus.port}"
    wait_until(lambda: metrics_of(client, "prometheus", resource), SOON_S, "metrics")
    wait_until(lambda: len(ask(prometheus, f'up{{job="prometheus"}}[5m]')[0][1]) >= 8, SOON_S, "scrapes")
    own = ask(prometheus, '{job="prometheus"}[5m]')
    assert len(own) > 300
    wait_until(lambda: len(metrics_of(client, "prometheus", resource)) >= len(own), SOON_S, "all of them")
    prometheus.terminate(60)
    metrics = metrics_of(client, "prometheus", resource)
    names = {}
    for labels, samples in own:
        others = {name: value for name, value in labels.items() if name not in ("__name__", "job", "instance")}
        escaped = [f'{name}="{escape(value)}"' for name, value in sorted(others.items())]
        names[labels["__name__"] + (f"{{{','.join(escaped)}}}" if others else "")] = samples
    assert set(names) <= set(metrics)
    checked = 0
    for name, samples in names.items():
        if len(name) > 255 or name != "process_cpu_seconds_total" and checked > 40:
            continue
        checked += 1
        per_second = {}
        for time, value in samples:
            per_second[int(time)] = float(value)
        stored = {time: value for time, _, value in points(client, metrics[name], "last")}
        for second, value in list(per_second.items())[1:-1]:
            got = stored[iso(second)]
            assert got == value or (got != got and value != value), (name, second, got, value)
    assert checked > 40


@pytest.mark.parametrize("round", range(3))
def test_first_writes_that_come_at_once_all_succeed(server, round):
    """Each of them finds neither type, resource nor metrics."""
    writers, barrier, statuses = 8, threading.Barrier(8), []

    def write(number):
        client = server.client()
        metrics = [label("__name__", name) for name in ("up", f"own{number}")]
        body = b"".join(series(metric, label("job", "j"), label("instance", "i"), sample(number, 1700000000000 + number))
                        for metric in metrics)
        barrier.wait()
        statuses.append(client.post("/v1/prometheus/write", snappy(body)).status)

    at_once(write, range(writers))
    assert statuses == [202] * writers
    metrics = metrics_of(server.client(), "prometheus", "j@i")
    assert set(metrics) == {"up", *(f"own{number}" for number in range(writers))}
    assert points(server.client(), metrics["up"], "count") == [("2023-11-14T22:13:20+00:00", 1.0, float(writers))]


def escape(value):
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("/", "\\x2f")


def iso(second):
    return datetime.datetime.fromtimestamp(second, datetime.timezone.utc).isoformat()

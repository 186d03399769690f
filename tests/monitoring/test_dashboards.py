"""The dashboards of gnudi's own figures, and the alerts: every expression has series, both in a Prometheus that scrapes a server and
both agents, and in gnudi, to which this Prometheus writes all samples."""

import json
import re
import threading
import time

import pytest
from monitoring import files
from prometheus.oracle import TOLERANCE, Oracle, ask, differences, http
from support import gnudi as program
from support.gnudi import ROOT, Gnudi
from support.process import Process, free_port, listens, wait_until

pytestmark = pytest.mark.slow
CONFIG = """\
global: {{scrape_interval: 500ms, evaluation_interval: 500ms}}
rule_files: [{alerts}]
scrape_configs:
  - job_name: gnudi
    static_configs: [{{targets: ["127.0.0.1:{gnudi}"]}}]
  - job_name: gnudi-agents
    static_configs: [{{targets: ["127.0.0.1:{notification}", "127.0.0.1:{polling}"]}}]
remote_write:
  - url: http://127.0.0.1:{gnudi}/api/v1/write
    basic_auth: {{username: admin, password: any}}
    queue_config: {{batch_send_deadline: 200ms}}
"""
# Nobody answers there: what agents show of themselves needs no broker.
AGENT = "[DEFAULT]\ntransport_url = rabbit://127.0.0.1:9/\n[gnocchi]\nauth_type = gnocchi-basic\nendpoint = http://127.0.0.1:{port}\n"
PIPELINE = """\
sources: [{{name: all, meters: ['*'], sinks: [all]}}]
sinks: [{{name: all, publishers: ['gnocchi://', 'file://{path}?json']}}]
"""
# What a panel shows, what its rates look back on, and how often is scraped.
SPAN_S, LOOK_BACK_S, SCRAPES_A_SECOND = 5, 4, 2
TIMEOUT_S = 60
BOARDS = ["gnudi-server", "gnudi-agents"]


def load(server, ended):
    """Requests of all kinds, until `ended` is set."""
    client = server.client()
    metric = client.post("/v1/metric", {"archive_policy_name": "low"}).expect(201).json()["id"]
    while not ended.wait(0.2):
        client.post(f"/v1/metric/{metric}/measures", [{"timestamp": time.time(), "value": 1}]).expect(202)
        client.get("/v1/metric/nothing").expect(404)


@pytest.fixture(scope="module")
def scraped(module_path):
    """A server with both agents, and a Prometheus that scrapes all of them."""
    directory = module_path
    config = f"[api]\nproject_figures = true\n[incoming]\njournal = {directory}/journal\n"
    server = Gnudi(directory / "gnudi", config=config)
    server.start()
    ports = {"notification": free_port(), "polling": free_port()}
    (directory / "pipeline.yaml").write_text(PIPELINE.format(path=directory / "published"))
    (directory / "ceilometer.conf").write_text(AGENT.format(port=server.port))
    agents = [Process([program.binary(), "agent", name, "--config-file", directory / "ceilometer.conf", "--metrics-listen", f"127.0.0.1:{port}"],
                      directory / name) for name, port in ports.items()]
    ended = threading.Event()
    worker = threading.Thread(target=load, args=(server, ended))
    worker.start()
    prometheus = None
    try:
        prometheus = Oracle(directory / "prometheus", CONFIG.format(alerts=files.ALERTS, gnudi=server.port, **ports))
        prometheus.targets = [("gnudi", server.port), *(("gnudi-agents", port) for port in ports.values())]
        wait_until(lambda: all(map(listens, ports.values())), TIMEOUT_S, "both agents")
        yield server, prometheus
    finally:
        ended.set()
        worker.join()
        for process in agents:
            process.kill()
        if prometheus is not None:
            prometheus.stop()
        server.stop()


def exposed(prometheus):
    """All that is shown at /metrics of the three: {metric: names of its labels}."""
    found = {}
    for _, port in prometheus.targets:
        status, text = http(port, "GET", "/metrics")
        assert status == 200
        for line in text.decode().splitlines():
            if not line.startswith("#"):
                name, _, labels = line.rsplit(" ", 1)[0].partition("{")
                found.setdefault(name, set()).update(part.split("=")[0] for part in labels.rstrip("}").split(",") if "=" in part)
    # Prometheus adds its own.
    return {name: labels | {"job", "instance"} for name, labels in {**found, "up": set()}.items()}


def wait_for_none(missing):
    """Waits until nothing is missing: an agent shows some figures a moment after its start."""
    found = []

    def is_all_there():
        found[:] = [missing()]
        return not found[0]

    try:
        wait_until(is_all_there, TIMEOUT_S, "all figures")
    except TimeoutError:
        raise AssertionError(found[0]) from None


def parsed(port, expression):
    status, answer = ask(port, "/api/v1/parse_query", {"query": expression})
    assert status == 200, (expression, answer)
    return answer["data"]


def asked(port, expression, end):
    """The answer to what a panel asks."""
    status, answer = ask(port, "/api/v1/query_range", {"query": expression, "start": end - SPAN_S, "end": end, "step": 1}, "POST")
    assert status == 200, (expression, answer)
    return answer


def written_until(port):
    """A time up to which gnudi has all that a panel needs, or None. Prometheus begins to write seconds after its start."""
    end, span_s = int(time.time()) - 1, SPAN_S + LOOK_BACK_S
    wanted = [(f"min(count_over_time(up[{span_s}s]))", end, SCRAPES_A_SECOND * span_s - 1), (f"min(min_over_time(up[{span_s}s]))", end, 1),
              ("min(timestamp(up))", end + 1, end)]
    for query, at, least in wanted:
        status, answer = ask(port, "/api/v1/query", {"query": query, "time": at})
        if status != 200 or not answer["data"]["result"] or float(answer["data"]["result"][0]["value"][1]) < least:
            return None
    return end


@pytest.mark.parametrize("name", BOARDS)
def test_every_panel_has_series_and_both_answer_alike(scraped, name):
    server, prometheus = scraped
    wanted = files.expressions(files.dashboard(name), f"{LOOK_BACK_S}s", "1m")
    assert len(wanted) > 20
    empty = []

    def answered():
        end = time.time()
        empty[:] = [(title, text) for title, text in wanted if not asked(prometheus.port, text, end)["data"]["result"]]
        return not empty

    try:
        wait_until(answered, TIMEOUT_S, "series for every panel")
    except TimeoutError:
        raise AssertionError(f"without series: {empty}") from None
    end = wait_until(lambda: written_until(server.port), TIMEOUT_S, "remote write")
    # Before 3.0 Prometheus looked further back from the first of a counter's samples that is near 0.
    tolerance = TOLERANCE if prometheus.is_current else 0.5
    for title, text in wanted:
        different = []

        def alike(text=text, different=different):
            # Prometheus writes its series in several queues.
            found = asked(server.port, text, end)
            expected = asked(prometheus.port, text, end)
            different[:] = differences(expected, found, tolerance=tolerance) if found["data"]["result"] else ["no series"]
            return not different

        try:
            wait_until(alike, TIMEOUT_S, "the same answers")
        except TimeoutError:
            raise AssertionError((title, text, different)) from None


def test_every_metric_and_label_that_is_named_exists(scraped):
    server, prometheus = scraped
    texts = [text for name in BOARDS for _, text in files.expressions(files.dashboard(name), f"{LOOK_BACK_S}s", "1m")]
    texts += [rule["expr"] for rule in files.rules()]
    named = {}
    for text in texts:
        for metric, labels in files.selectors(parsed(server.port, text)).items():
            named.setdefault(metric, set()).update(labels)
    assert len(named) > 80

    def missing():
        shown = exposed(prometheus)
        return {metric: labels - shown.get(metric, set()) for metric, labels in named.items()
                if metric not in shown or not labels <= shown[metric]}

    wait_for_none(missing)


def test_every_figure_that_a_page_names_exists(scraped):
    _, prometheus = scraped
    named = {name: path.name for path in (ROOT / "docs").glob("*.md") for name in re.findall(r"`(gnudi_[a-z_]+)", path.read_text())}
    assert len(named) > 30

    def missing():
        shown = exposed(prometheus)
        return {name: page for name, page in named.items() if name not in shown}

    wait_for_none(missing)


def test_every_process_shows_its_restarts(scraped):
    """GnudiRestartsOften is for all of them."""
    _, prometheus = scraped
    for _, port in prometheus.targets:
        assert b"\ngnudi_process_cpu_seconds_total " in http(port, "GET", "/metrics")[1]


def test_variables_have_values(scraped):
    server, prometheus = scraped
    for name in BOARDS:
        board = files.dashboard(name)
        for variable in files.variables(board).values():
            path = files.values_path(board, variable)
            for port in (server.port, prometheus.port):
                wait_until(lambda: json.loads(http(port, "GET", path)[1])["data"], TIMEOUT_S, f"{name}: {path}")


def test_prometheus_takes_all_alerts_and_none_fires(scraped):
    _, prometheus = scraped

    def evaluated():
        groups = json.loads(http(prometheus.port, "GET", "/api/v1/rules")[1])["data"]["groups"]
        found = [rule for group in groups for rule in group["rules"]]
        return all(rule["health"] != "unknown" for rule in found) and found

    found = wait_until(evaluated, TIMEOUT_S, "all alerts evaluated")
    assert sorted(rule["name"] for rule in found) == sorted(rule["alert"] for rule in files.rules())
    assert all(rule["health"] == "ok" for rule in found), found
    assert not [rule["name"] for rule in found if rule["state"] == "firing"]

"""/metrics: valid Prometheus text whose figures change, at the API's address or a separate one."""

import re
import socket

from support import gnudi as program
from support.http import Client, create_metric, create_policy
from support.process import Process, free_port, listens, wait_until

SAMPLE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\})? (\S+)( \S+)?$')


def scrape(client):
    """{name with labels: value}, checked line by line."""
    answer = client.get("/metrics", headers={"Authorization": None, "Accept": None}).expect(200)
    assert answer.headers["content-type"].split(";")[0] in ("application/openmetrics-text", "text/plain")
    samples = {}
    for line in answer.body.decode().splitlines():
        if line.startswith("#"):
            assert re.match(r"^# (HELP|TYPE|UNIT|EOF)\b", line), line
            continue
        match = SAMPLE.match(line)
        assert match, line
        samples[match[1] + (match[2] or "")] = float(match[3])
    return samples


def test_metrics_page(gnudi):
    server = gnudi()
    client = server.client()
    before = scrape(client)
    create_policy(client, "page", [("1s", None)])
    metric = create_metric(client, "page")
    path = f"/v1/metric/{metric}/measures"
    client.post(path, [{"timestamp": 1_600_000_000 + n, "value": n} for n in range(7)]).expect(202)
    client.get(path + "?refresh=true").expect(200)
    after = scrape(client)
    assert all(name.startswith("gnudi_") for name in after), sorted(after)
    moved = {name: after[name] - before.get(name, 0) for name in after}
    requests = sum(value for name, value in moved.items() if "request" in name and "_total" in name)
    assert requests >= 4, moved
    assert any(value == 7 for name, value in moved.items() if "measures" in name), moved


def test_the_disks_free_space_is_known_without_a_reserve(gnudi):
    figures = scrape(gnudi(config="[storage]\ndisk_reserve_bytes = 0\n").client())
    assert figures["gnudi_disk_free_bytes"] > 0 and figures["gnudi_disk_reserve_bytes"] == 0


def test_figures_have_an_address_of_their_own(gnudi):
    port = free_port()
    client = gnudi(config=f"[api]\nmetrics_listen = 127.0.0.1:{port}\n").client()
    figures = Client("127.0.0.1", port)
    assert scrape(figures)["gnudi_backlog_measures"] == 0
    client.get("/metrics").expect(404)
    counted = 'gnudi_api_requests_total{method="GET",route="/metrics",status="404"}'
    wait_until(lambda: counted in scrape(figures), 30, "the count")
    assert scrape(figures)[counted] == 1
    for path in ("/", "/v1/status", "/metrics/", "/metric"):
        figures.get(path).expect(404)
    figures.get("/metrics?collect=all").expect(200)


def test_workers_show_figures(tmp_path):
    port = free_port()
    command = [program.binary(), "metricd", "--data-dir", tmp_path / "data", "--metrics-listen", f"127.0.0.1:{port}"]
    workers = Process(command, tmp_path / "log")
    try:
        workers.wait_ready(lambda: listens(port), 30)
        # The address listens before the store is open.
        figures = wait_until(lambda: scrape(Client("127.0.0.1", port)), 30, "figures")
        assert figures['gnudi_runtime_threads{runtime="metricd"}'] >= 1
        assert {"gnudi_metricd_passes_total", "gnudi_incoming_segments", "gnudi_process_threads"} <= set(figures)
    finally:
        assert workers.terminate() == 0


def test_an_address_that_is_taken_leaves_nothing_behind(tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        for command in (["serve", "--listen", "127.0.0.1:0"], ["metricd"]):
            done = program.run(*command, "--data-dir", tmp_path / "data", "--metrics-listen", taken, directory=tmp_path)
            assert done.returncode == 1
            assert f"listening on {taken}" in done.stderr
    assert not list(tmp_path.iterdir())

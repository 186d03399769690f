"""/metrics: well-formed Prometheus text whose figures move."""

import re

from support.http import create_metric, create_policy

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

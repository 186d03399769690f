"""Exemplars, which writers send with their samples, and targets, which writers scrape."""

import time

from inputs.remote_write import label, sample, series, snappy
from prometheus.messages import VERSION_1, exemplar
from support.process import wait_until


def write(client, *all_series):
    client.request("POST", "/api/v1/write", snappy(b"".join(all_series)), VERSION_1).expect(204)


def exemplars(client, query, **times):
    arguments = "".join(f"&{name}={value}" for name, value in times.items())
    return client.get(f"/api/v1/query_exemplars?query={query}{arguments}").expect(200).json()["data"]


def test_exemplars_of_what_a_query_reads(gnudi):
    server = gnudi()
    client = server.client()
    now = int(time.time())
    bucket = [label("__name__", "seconds_bucket"), label("le", "0.5")]
    write(client, series(*bucket, sample(3.0, now * 1000), exemplar(0.25, now * 1000, trace_id="a"), exemplar(0.5, now * 1000 + 500, trace_id="b")),
          series(label("__name__", "other"), sample(1.0, now * 1000), exemplar(1.0, now * 1000, trace_id="c"),
                 exemplar(1.0, now * 1000, trace_id="x" * 200)))
    found = exemplars(client, "sum(rate(seconds_bucket[5m]))", start=now - 60, end=now + 60)
    assert found == [{"seriesLabels": {"__name__": "seconds_bucket", "le": "0.5"}, "exemplars": [
        {"labels": {"trace_id": "a"}, "value": "0.25", "timestamp": now}, {"labels": {"trace_id": "b"}, "value": "0.5", "timestamp": now + 0.5}]}]
    assert exemplars(client, "seconds_bucket", start=now + 1) == []
    both = exemplars(client, "seconds_bucket%2Bother")
    assert [len(one["exemplars"]) for one in both] == [1, 2]
    # A query for exemplars has no steps: this range is not computed.
    assert len(exemplars(client, "rate(seconds_bucket[step()*4])")) == 1
    client.get("/api/v1/query_exemplars?query=vector(1)").expect(204)
    for wrong in ["query=", "query=sum(", "query=up&start=never", f"query=up&start={now}&end={now - 1}"]:
        refused = client.get(f"/api/v1/query_exemplars?{wrong}").expect(400).json()
        assert (refused["status"], refused["errorType"]) == ("error", "bad_data")


def test_targets_are_what_others_scrape(gnudi):
    server = gnudi()
    client = server.client()
    now = int(time.time())
    up = lambda instance, value, at: series(label("__name__", "up"), label("job", "node"), label("instance", instance), sample(value, at * 1000))
    write(client, up("a:9100", 1.0, now - 10), up("b:9100", 0.0, now - 10), up("gone:9100", 1.0, now - 3600))
    settled = lambda: client.get("/v1/status?details=false").expect(200).json()["storage"]["summary"]["measures"] == 0
    wait_until(settled, 60, "the samples")
    targets = client.get("/api/v1/targets?state=active").expect(200).json()["data"]["activeTargets"]
    assert [(target["labels"], target["scrapePool"], target["health"]) for target in targets] == [
        ({"instance": "a:9100", "job": "node"}, "node", "up"), ({"instance": "b:9100", "job": "node"}, "node", "down")]
    none = [client.get(f"/api/v1/targets?{query}").expect(200).json()["data"]["activeTargets"] for query in ["state=dropped", "scrapePool=x"]]
    assert none == [[], []]
    shown = [client.get(f"/api/v1/targets?state={state}").expect(200).json()["data"] for state in ["ACTIVE", "any", "none"]]
    assert [(len(one["activeTargets"]), one["droppedTargetCounts"]) for one in shown] == [(2, None), (2, {}), (0, None)]

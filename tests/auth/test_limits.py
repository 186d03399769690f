"""Limits per project: metrics, measures a second, the cost of requests; requests beyond them get 429 with `Retry-After`."""

import re

import pytest

from support import gnudi as program
from support.process import wait_until


def metric(client):
    return client.post("/v1/metric", {"archive_policy_name": "low"})


def refused(answer, what):
    answer.expect(429)
    assert int(answer.headers["retry-after"]) >= 1
    assert what in answer.json()["description"], answer.body
    return answer


def test_metrics(gnudi, tmp_path):
    limits = tmp_path / "limits.yaml"
    limits.write_text("many: {metrics_max: 5}\nall: {metrics_max: null}\n")
    server = gnudi(config=f"[api]\nproject_metrics_max = 2\nlimits_file = {limits}\n")
    jd, other, many, everybody = (server.client(name) for name in ["jd", "other", "many", "all"])
    first = metric(jd).expect(201).json()["id"]
    metric(jd).expect(201)
    refused(metric(jd), "more than 2 metrics")
    # However they come: with a resource, later, with measures.
    low = {"archive_policy_name": "low"}
    refused(jd.post("/v1/resource/generic", {"id": "a", "metrics": {"m": low}}), "more than 2 metrics")
    jd.post("/v1/resource/generic", {"id": "a"}).expect(201)
    refused(jd.post("/v1/resource/generic/a/metric", {"m": low}), "more than 2 metrics")
    refused(jd.request("PATCH", "/v1/resource/generic/a", {"metrics": {"m": low}}), "more than 2 metrics")
    batch = {"a": {"m": [{"timestamp": 1, "value": 1}]}}
    refused(jd.post("/v1/batch/resources/metrics/measures?create_metrics=true", batch), "more than 2 metrics")
    admin = server.client()
    admin.post("/v1/resource_type", {"name": "influx"}).expect(201)
    refused(jd.post("/v1/influxdb/write?db=influx", b"cpu,host=h v=1", headers={"Content-Type": "text/plain"}), "more than 2")
    # What the project has may be written to and read, and others have limits of their own.
    jd.post(f"/v1/metric/{first}/measures", [{"timestamp": 1, "value": 1}]).expect(202)
    metric(other).expect(201)
    assert [metric(many).status for _ in range(6)] == [201] * 5 + [429]
    assert {metric(everybody).status for _ in range(8)} == {201}
    # Room that deletion makes is seen soon.
    jd.delete(f"/v1/metric/{first}").expect(204)
    wait_until(lambda: metric(jd).status == 201, 60, "room for a metric")
    refused(metric(jd), "more than 2 metrics")
    # After a restart the index knows.
    server.stop()
    server.start()
    refused(metric(server.client("jd")), "more than 2 metrics")


def test_measures(gnudi):
    server = gnudi(config="[api]\nproject_measures_per_second = 1\n")
    jd, other = server.client("jd"), server.client("other")
    own, others = (metric(client).expect(201).json()["id"] for client in [jd, other])
    many = [{"timestamp": second, "value": 1} for second in range(1, 2001)]
    jd.post(f"/v1/metric/{own}/measures", many).expect(202)
    answer = refused(jd.post(f"/v1/metric/{own}/measures", many[:1]), "more than 1 measures a second")
    assert int(answer.headers["retry-after"]) > 1000
    refused(jd.post("/v1/batch/metrics/measures", {own: many[:1]}), "measures a second")
    other.post(f"/v1/metric/{others}/measures", many[:5]).expect(202)
    # Reading, and posting nothing, goes on.
    jd.get(f"/v1/metric/{own}/measures").expect(200)
    jd.post(f"/v1/metric/{own}/measures", []).expect(202)
    figures = server.client().get("/metrics").expect(200).body.decode()
    assert 'gnudi_project_measures_total{project="jd"} 2000' in figures
    assert 'gnudi_project_refused_total{project="jd",limit="measures"} 2' in figures
    assert 'gnudi_project_refused_total{project="other",limit="measures"} 0' in figures


def test_what_requests_cost(gnudi, tmp_path):
    limits = tmp_path / "limits.yaml"
    limits.write_text("admin: {request_cost_per_second: null}\n")
    server = gnudi(config=f"[api]\nproject_request_cost_per_second = 1\nlimits_file = {limits}\n")
    admin, jd = server.client(), server.client("jd")
    for _ in range(300):
        metric(admin).expect(201)
    # An answer of some hundred kilobytes costs more than one without content.
    statuses = []

    def is_refused():
        """On a machine that stands still for seconds, what a request costs is paid meanwhile."""
        answer = jd.get("/v1/metric")
        statuses.append(answer.status)
        return answer.status == 429 and answer

    answer = refused(wait_until(is_refused, 60, "a refusal"), "requests that cost 1 a second")
    assert statuses[0] == 200, statuses
    assert int(answer.headers["retry-after"]) <= 60
    # What nobody need be known for goes on.
    jd.get("/healthcheck").expect(200)
    jd.get("/v1/capabilities").expect(200)
    figures = admin.get("/metrics").expect(200).body.decode()
    cost = {project: float(value) for project, value in re.findall(r'gnudi_project_request_cost_total\{project="(\w+)"\} (\S+)', figures)}
    assert cost["admin"] >= 300 and cost["jd"] > statuses.count(200), cost


def test_without_limits_projects_are_not_shown(gnudi):
    server = gnudi()
    metric(server.client("jd")).expect(201)
    assert "gnudi_project" not in server.client().get("/metrics").expect(200).body.decode()


@pytest.mark.parametrize("text, said", [
    ("a: 1\n", "limits.yaml"),
    ("a: {metrics: 1}\n", "line 1"),
    ("a: {measures_per_second: 0}\n", "would refuse every request"),
])
def test_a_wrong_file_stops_the_start(tmp_path, text, said):
    limits, config = tmp_path / "limits.yaml", tmp_path / "gnocchi.conf"
    limits.write_text(text)
    config.write_text(f"[api]\nlimits_file = {limits}\n")
    ended = program.run("serve", "--config-file", config, "--data-dir", tmp_path / "data", "--port", 0, timeout_s=60)
    assert ended.returncode != 0 and said in ended.stderr and "limits_file" in ended.stderr, ended.stderr

"""Two users do not see each other's data in any route of Prometheus' API; an administrator sees both."""

import pytest

from inputs.remote_write import field, label, sample, series, snappy
from prometheus.messages import STALE, VERSION_1, VERSION_2, exemplar, number, request_2
from support.gnudi import Gnudi
from support.process import wait_until

TIME = 1_750_000_000
CALLS = [
    "/api/v1/query?time={time}&query={{__name__=~\".%2B\"}}", "/api/v1/query?time={time}&query=count by (zone, __name__) ({{zone!=\"\"}})",
    "/api/v1/query?time={time}&query=topk(9, {{__name__!=\"\",zone!~\"x\"}})", "/api/v1/query?time={time}&query=absent({{zone=\"{other}-zone\"}})",
    "/api/v1/query_range?start={time}&end={time}&step=1&query={{zone=~\".*\",__name__!=\"\"}}",
    "/api/v1/series?match[]={{__name__=~\".%2B\"}}", "/api/v1/series?match[]={{\"{other}-name\"}}&match[]={{zone=\"{other}-zone\"}}", "/api/v1/labels",
    "/api/v1/labels?match[]={{zone=~\".%2B\"}}", "/api/v1/label/__name__/values", "/api/v1/label/zone/values", "/api/v1/label/{other}_label/values",
    "/api/v1/metadata", "/api/v1/metadata?metric={other}-name", "/api/v1/status/tsdb", "/federate?match[]={{__name__=~\".%2B\"}}",
    "/api/v1/query?time={time}&query=label_replace({{zone=~\".%2B\"}}, \"zone\", \"\", \"\", \"\")",
]


@pytest.fixture(scope="module")
def tenants(module_path):
    directory = module_path
    # Without a rule of an operator callers by name see all in lists, as in Gnocchi.
    rules = directory / "rules.yaml"
    rules.write_text('"list metric": "rule:admin_or_creator or rule:metric_owner"\n')
    config = f"[api]\nauth_mode = remoteuser\nremoteuser_proxies = 127.0.0.1\n[oslo_policy]\npolicy_file = {rules}\n"
    with Gnudi(directory / "server", config) as server:
        for number, user in enumerate(["apple", "pear"]):
            headers = {"X-Remote-User": user, "Authorization": None}
            client = server.client()
            type = {"name": f"{user}type", "attributes": {"zone": {"type": "string", "required": False},
                                                          f"{user}_label": {"type": "string", "required": False}}}
            client.request("POST", "/v1/resource_type", type, headers={**headers, "X-Remote-User": "admin"}).expect(201)
            body = {"id": f"{user}-host", "zone": f"{user}-zone", f"{user}_label": f"{user}-value",
                    "metrics": {f"{user}-name": {"archive_policy_name": "high", "unit": f"{user}-unit"}}}
            client.request("POST", f"/v1/resource/{user}type", body, headers=headers).expect(201)
            path = f"/v1/resource/{user}type/{user}-host/metric/{user}-name/measures"
            client.request("POST", path, [{"timestamp": TIME, "value": 1234567 + number}], headers=headers).expect(202)

        def is_there(user):
            answer = server.client().request("GET", f"/api/v1/query?time={TIME}&query=%7B__name__=%22{user}-name%22%7D",
                                             headers={"X-Remote-User": user, "Authorization": None})
            return b"123456" in answer.body
        wait_until(lambda: is_there("apple") and is_there("pear"), 60, "measures")
        yield server


def ask(server, user, path):
    return server.client().request("GET", path.replace(" ", "%20").replace('"', "%22").replace("{", "%7B").replace("}", "%7D"),
                                   headers={"X-Remote-User": user, "Authorization": None})


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("user, other, value", [("apple", "pear", b"1234568"), ("pear", "apple", b"1234567")])
def test_nobody_sees_what_is_anothers(tenants, call, user, other, value):
    path = call.format(time=TIME, other=other)
    answer = ask(tenants, user, path).expect(200)
    # What was sent may come back.
    body = answer.body.replace(f"{other}-zone".encode(), b"") if "absent" in call else answer.body
    assert other.encode() not in body and value not in body
    own = ask(tenants, user, call.format(time=TIME, other=user)).expect(200)
    if not any(part in call for part in ["absent", "federate", "metadata?"]):
        assert user.encode() in own.body


def test_a_deletion_deletes_no_more_than_ones_own(tenants):
    delete = "/api/v1/admin/tsdb/delete_series?match[]=%7Bzone%3D~%22.%2B%22%7D"
    headers = {"X-Remote-User": "stranger", "Authorization": None}
    tenants.client().request("POST", delete, b"", headers=headers).expect(204)
    for user in ["apple", "pear"]:
        assert f"{user}-name".encode() in ask(tenants, user, "/api/v1/label/__name__/values").expect(200).body


def test_lists_leave_out_what_a_rule_denies_metric_by_metric(gnudi, tmp_path):
    rules = '"list metric": "user:%(creator)s and not \'hidden\':%(name)s"\n'
    (tmp_path / "rules.yaml").write_text(rules)
    server = gnudi(config="[api]\nauth_mode = remoteuser\nremoteuser_proxies = 127.0.0.1\n"
                          f"[oslo_policy]\npolicy_file = {tmp_path / 'rules.yaml'}\n")
    for name in ["shown", "hidden"]:
        body = {"name": name, "unit": f"{name}-unit", "archive_policy_name": "high"}
        server.client().request("POST", "/v1/metric", body, headers={"X-Remote-User": "apple", "Authorization": None}).expect(201)
    for path in ["/api/v1/label/__name__/values", "/api/v1/label/unit/values", "/api/v1/metadata", "/api/v1/metadata?metric=shown",
                 "/api/v1/status/tsdb"]:
        body = ask(server, "apple", path).expect(200).body
        assert b"shown" in body and b"hidden" not in body, path
    assert ask(server, "apple", "/api/v1/labels").expect(200).json()["data"] == ["__name__", "metric_id", "unit"]
    # Names of Ceilometer's exporters are listed as without such a rule.
    body = {"id": "host", "metrics": {name: {"archive_policy_name": "high"} for name in ["cpu.util", "hidden"]}}
    server.client().request("POST", "/v1/resource/generic", body, headers={"X-Remote-User": "apple", "Authorization": None}).expect(201)
    names = ask(server, "apple", "/api/v1/label/__name__/values").expect(200).json()["data"]
    assert names == ["ceilometer_cpu_util", "cpu.util", "shown"]
    assert b"hidden" not in ask(server, "apple", "/api/v1/metadata?metric=hidden").expect(200).body


def test_lists_of_labels_leave_out_what_tells_equal_series_apart(gnudi, tmp_path):
    (tmp_path / "rules.yaml").write_text('"list metric": "user:apple"\n')
    server = gnudi(config="[api]\nauth_mode = remoteuser\nremoteuser_proxies = 127.0.0.1\n"
                          f"[oslo_policy]\npolicy_file = {tmp_path / 'rules.yaml'}\n")
    body = snappy(series(label("__name__", "twice"), sample(1.0, TIME * 1000)))
    for user in ["admin", "apple"]:
        headers = {**VERSION_1, "X-Remote-User": user, "Authorization": None}
        server.client().request("POST", "/api/v1/write", body, headers=headers).expect(204)
    found = ask(server, "apple", "/api/v1/series?match[]=twice").expect(200).json()["data"]
    assert [list(labels) for labels in found] == [["__name__", "metric_id"]] * 2
    # As without such a rule: nothing can be found by this label.
    assert ask(server, "apple", "/api/v1/labels").expect(200).json()["data"] == ["__name__"]
    assert ask(server, "apple", "/api/v1/label/metric_id/values").expect(200).json()["data"] == []
    assert b"metric_id" not in ask(server, "apple", "/api/v1/status/tsdb").expect(200).body


def test_a_rule_that_other_rules_refer_to_decides_metric_by_metric(gnudi, tmp_path):
    (tmp_path / "rules.yaml").write_text('"creator": "user:%(creator)s and not \'hidden\':%(name)s"\n')
    server = gnudi(config="[api]\nauth_mode = remoteuser\nremoteuser_proxies = 127.0.0.1\n"
                          f"[oslo_policy]\npolicy_file = {tmp_path / 'rules.yaml'}\n")
    headers = {"X-Remote-User": "apple", "Authorization": None}
    client = server.client()
    for name in ["shown", "hidden"]:
        body = {"name": name, "archive_policy_name": "high"}
        metric = client.request("POST", "/v1/metric", body, headers=headers).expect(201).json()["id"]
        path = f"/v1/metric/{metric}/measures"
        client.request("POST", path, [{"timestamp": TIME, "value": 1234567}], headers={**headers, "X-Remote-User": "admin"}).expect(202)
        client.request("GET", path + "?refresh=true", headers=headers).expect(200 if name == "shown" else 403)
        found = ask(server, "apple", f'/api/v1/query?time={TIME}&query={{__name__="{name}"}}').expect(200)
        assert (b"1234567" in found.body) == (name == "shown")


def test_what_writers_sent_with_a_metric_is_hidden_with_it(gnudi, tmp_path):
    rule = "user:%(creator)s and not 'hidden':%(name)s and not 'hidden_time_sum':%(name)s"
    (tmp_path / "rules.yaml").write_text(f'"list metric": "{rule}"\n"get measures": "{rule}"\n')
    server = gnudi(config="[api]\nauth_mode = remoteuser\nremoteuser_proxies = 127.0.0.1\n"
                          f"[oslo_policy]\npolicy_file = {tmp_path / 'rules.yaml'}\n")
    time_ms = TIME * 1000
    written = lambda name: series(label("__name__", name), sample(1.0, time_ms), exemplar(1.0, time_ms, trace_id=f"trace of {name}"))
    told = lambda name, kind: field(3, number(1, kind) + field(2, name.encode()) + field(4, f"help of {name}".encode()))
    # A gauge and a summary of each.
    body = b"".join(written(name) + told(name, 2) + written(f"{name}_time_sum") + told(f"{name}_time", 5) for name in ["shown", "hidden"])
    headers = {**VERSION_1, "X-Remote-User": "apple", "Authorization": None}
    # The first write creates the type of resources, which an administrator may.
    first = snappy(series(label("__name__", "first"), sample(1.0, time_ms)))
    server.client().request("POST", "/api/v1/write", first, headers={**headers, "X-Remote-User": "admin"}).expect(204)
    server.client().request("POST", "/api/v1/write", snappy(body), headers=headers).expect(204)
    exemplars = ask(server, "apple", '/api/v1/query_exemplars?query={__name__!=""}').expect(200).body
    assert b"trace of shown" in exemplars and b"trace of shown_time_sum" in exemplars and b"hidden" not in exemplars
    everything = ask(server, "apple", "/api/v1/metadata").expect(200).body
    assert b"help of shown" in everything and b"help of shown_time" in everything and b"hidden" not in everything
    for name in ["shown", "shown_time"]:
        assert f"help of {name}".encode() in ask(server, "apple", f"/api/v1/metadata?metric={name}").expect(200).body
    for name in ["hidden", "hidden_time"]:
        assert ask(server, "apple", f"/api/v1/metadata?metric={name}").expect(200).json()["data"] == {}


def test_a_caller_who_may_not_write_says_nothing_of_metrics(gnudi, tmp_path):
    (tmp_path / "rules.yaml").write_text('"post measures": "user:apple"\n"create resource": "user:apple"\n')
    server = gnudi(config="[api]\nauth_mode = remoteuser\nremoteuser_proxies = 127.0.0.1\n"
                          f"[oslo_policy]\npolicy_file = {tmp_path / 'rules.yaml'}\n")
    told = field(3, number(1, 2) + field(2, b"told") + field(4, b"help of told"))
    with_series = series(label("__name__", "told"), sample(1.0, TIME * 1000)) + told
    symbols = [("__name__", "told")]
    said = field(5, number(1, 2) + number(3, 3))
    # Also with an invalid time, without samples, and with the end of a series that does not exist: none has a metric.
    version_2 = [request_2((symbols, samples, said)) + field(4, b"help of told")
                 for samples in [[(1.0, TIME * 1000)], [(1.0, -1)], [], [(STALE, TIME * 1000)]]]
    # Prometheus logs an error for each refused request, and sends metadata apart from samples.
    requests = [(told, VERSION_1, 204), (with_series, VERSION_1, 403)]
    requests += [(body, VERSION_2, status) for body, status in zip(version_2, [403, 400, 400, 204])]
    traced = series(label("__name__", "told"), exemplar(1.0, TIME * 1000, trace_id="trace of told"))
    requests += [(traced, VERSION_1, 204)]
    exemplars = lambda user: ask(server, user, "/api/v1/query_exemplars?query=told").expect(200).body

    def write(user, body, headers):
        return server.client().request("POST", "/api/v1/write", snappy(body), headers={**headers, "X-Remote-User": user, "Authorization": None})
    for body, headers, status in requests:
        write("pear", body, headers).expect(status)
        assert ask(server, "pear", "/api/v1/metadata").expect(200).json()["data"] == {}
        assert b"trace of told" not in exemplars("pear")
    write("apple", told + traced, VERSION_1).expect(204)
    assert b"help of told" in ask(server, "apple", "/api/v1/metadata").expect(200).body
    assert b"trace of told" in exemplars("apple")


def test_metadata_that_a_rule_denies_by_name_is_ignored_and_the_rest_is_stored(gnudi, tmp_path):
    (tmp_path / "rules.yaml").write_text('"post measures": "user:apple and not \'denied\':%(name)s"\n')
    server = gnudi(config="[api]\nauth_mode = remoteuser\nremoteuser_proxies = 127.0.0.1\n"
                          f"[oslo_policy]\npolicy_file = {tmp_path / 'rules.yaml'}\n")
    told = b"".join(field(3, number(1, 2) + field(2, name) + field(4, b"help of " + name)) for name in [b"denied", b"told"])
    headers = {**VERSION_1, "X-Remote-User": "apple", "Authorization": None}
    server.client().request("POST", "/api/v1/write", snappy(told), headers=headers).expect(204)
    assert list(ask(server, "apple", "/api/v1/metadata").expect(200).json()["data"]) == ["told"]


def test_the_end_of_a_series_that_a_rule_denies_says_nothing_of_it(gnudi, tmp_path):
    """An end alone makes no metric, so the rule is not checked with the samples. Another series of the request is stored."""
    (tmp_path / "rules.yaml").write_text('"post measures": "role:admin or user:apple and not \'denied\':%(name)s"\n')
    server = gnudi(config="[api]\nauth_mode = remoteuser\nremoteuser_proxies = 127.0.0.1\n"
                          f"[oslo_policy]\npolicy_file = {tmp_path / 'rules.yaml'}\n")
    time_ms = TIME * 1000
    written = lambda name, value, *more: series(label("__name__", name), sample(value, time_ms), *more)

    def write(user, body, headers=VERSION_1):
        return server.client().request("POST", "/api/v1/write", snappy(body), headers={**headers, "X-Remote-User": user, "Authorization": None})
    # The first write creates the type of resources, which an administrator may.
    write("admin", written("first", 1.0)).expect(204)
    said = field(5, number(1, 2) + number(3, 4))
    both = request_2(([("__name__", "told")], [(1.0, time_ms)], said), ([("__name__", "denied")], [(STALE, time_ms)], said))
    write("apple", both + field(4, b"help of both"), VERSION_2).expect(204)
    metadata = lambda name: ask(server, "apple", f"/api/v1/metadata?metric={name}").expect(200).json()["data"]
    assert metadata("told")["told"][0]["help"] == "help of both" and metadata("denied") == {}
    write("apple", written("told", 2.0) + written("denied", STALE, exemplar(1.0, time_ms, trace_id="trace of denied"))).expect(204)
    assert b"trace of denied" not in ask(server, "apple", "/api/v1/query_exemplars?query=denied").expect(200).body

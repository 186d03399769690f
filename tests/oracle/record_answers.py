#!/usr/bin/env python3
"""Records real Gnocchi's answers to a list of requests, for crates/api/tests/answers.rs to compare with.

    cd tests && ../.venv/bin/python -m oracle.record_answers > ../crates/api/tests/data/answers.jsonl

Each line is a request with its response: the status, the relevant headers and the body. `{metric}` and the like stand for ids, saved by
the request that created the object. Requests at which Gnocchi fails (500) are left out. The order of aggregation methods in Gnocchi's
responses changes from run to run, so they are sorted. Deliberate or unavoidable differences are not requested: `/` (gnudi adds its own
version), and the sort order of null units (it depends on the database).
"""

import json
import pathlib
import sys
import tempfile

from support.gnocchi import Gnocchi
from support.postgres import Postgres

HEADERS = ["location", "link", "allow"]
SECOND = {"granularity": "1s", "points": 60}
MINUTE = {"granularity": "1 minute", "points": 20}


class Recorder:
    def __init__(self, server):
        self.server = server
        self.names = {}

    def ask(self, method, path, body=None, user="admin", save=None, headers=None):
        sent = body if body is None or isinstance(body, str) else json.dumps(body)
        client = self.server.client(user=user)
        answer = client.request(method, self.filled(path), None if sent is None else self.filled(sent).encode(), headers)
        client.close()
        if answer.status == 500:
            return
        if save:
            self.names["{%s}" % save] = answer.json()["id"]
        line = {"method": method, "path": path, "body": sent, "user": user}
        line |= {"save": save} if save else {}
        line |= {"send": headers} if headers else {}
        line |= {"status": answer.status}
        line |= {name: self.emptied(answer.headers[name]) for name in HEADERS if name in answer.headers}
        text = self.emptied(answer.body.decode())
        try:
            line["json"] = in_order(json.loads(text))
        except ValueError:
            line["text"] = text
        print(json.dumps(line))

    def filled(self, text):
        for name, value in self.names.items():
            text = text.replace(name, value)
        return text

    def emptied(self, text):
        for name, value in self.names.items():
            text = text.replace(value, name)
        return text.replace(f"127.0.0.1:{self.server.port}", "{server}")


def in_order(document):
    """The document with its aggregation methods sorted."""
    if isinstance(document, dict):
        return {key: sorted(value) if key == "aggregation_methods" and isinstance(value, list) else in_order(value)
                for key, value in document.items()}
    if isinstance(document, list):
        return [in_order(item) for item in document]
    return document


def policies(ask):
    def create(name, *definition, **more):
        ask("POST", "/v1/archive_policy", {"name": name, "definition": list(definition), **more})

    create("low", {"granularity": "5 minutes", "points": 8640})
    create("high", SECOND, MINUTE, {"granularity": 3600, "timespan": "365 days"})
    for definition in (
        {"granularity": 1}, {"points": 1}, {"timespan": "1 minute"}, {"timespan": "1 minute", "points": 6},
        {"timespan": "1 minute", "granularity": "7 s"}, {"timespan": "1 minute", "granularity": "2 minutes"},
        {"timespan": "1 minute", "granularity": "20 s", "points": 4}, {"granularity": "x"}, {"granularity": None},
        {"granularity": 0}, {"granularity": -1}, {"granularity": "nan"}, {"granularity": 1e-10}, {"granularity": True},
        {"granularity": "1.5", "points": "20"}, {"granularity": 1, "points": "x"}, {"granularity": 1, "points": 0},
        {"granularity": 1, "points": None}, {"granularity": 1, "points": 2.9}, {"granularity": "0:01:00", "points": 3},
        {"granularity": 0.123456789, "points": 3}, {"granularity": 0.001}, {"granularity": "1 day", "timespan": "90 days"},
        {"granularity": "1 day", "timespan": "300 years"}, {"foo": 1}, {}, 1, None, [],
    ):
        create(f"policy {definition}"[:200], definition)
    create("twice", MINUTE, {"granularity": 60})
    for methods in (["mean"], ["*"], ["-mean", "+last"], [], ["foo"], ["mean", 1], "mean", None, ["rate:95pct", "count"]):
        create(f"methods {methods}", SECOND, aggregation_methods=methods)
    for back_window in (0, 3, "3", 3.7, True, -1, "x", None, []):
        create(f"window {back_window}", SECOND, back_window=back_window)
    for body in ([], None, "x", {"name": 1}, {"name": "a"}, {"name": "a", "definition": {}}, {"name": "a", "definition": []},
                 {"foo": 1, "name": 2, "definition": 3}, {"name": 2, "foo": 1}, {"definition": [SECOND], "foo": 1},
                 {"name": "low", "definition": [SECOND]}, {"name": "a b?é/", "definition": [SECOND]}):
        ask("POST", "/v1/archive_policy", body)
    for body in ("{", "", "[1,]", "nan", '{"a" 1}', "{} x"):
        ask("POST", "/v1/archive_policy", body)
    ask("POST", "/v1/archive_policy", {}, user="somebody")
    ask("GET", "/v1/archive_policy/low")
    ask("GET", "/v1/archive_policy/low/", user="somebody")
    ask("GET", "/v1/archive_policy/nope")
    low = {"granularity": "5 minutes", "points": 10}
    for body in ({}, {"definition": []}, {"definition": [MINUTE]}, {"definition": [low]}, {"definition": [low], "back_window": 3},
                 {"definition": [low], "name": "x"}, {"definition": [{"granularity": "5 minutes"}]}, {"definition": [low, MINUTE]},
                 {"back_window": 1}, {"definition": [low], "back_window": -1}, {"definition": [{"points": 10}]}):
        ask("PATCH", "/v1/archive_policy/low", body)
    ask("PATCH", "/v1/archive_policy/nope", {"definition": [low]})
    ask("PATCH", "/v1/archive_policy/low", {"definition": [low]}, user="somebody")
    ask("DELETE", "/v1/archive_policy/nope")
    ask("DELETE", "/v1/archive_policy/twice")
    ask("DELETE", "/v1/archive_policy/low", user="somebody")


def rules(ask):
    def create(**body):
        ask("POST", "/v1/archive_policy_rule", body)

    disk = {"name": "disk", "metric_pattern": "disk.*", "archive_policy_name": "low"}
    create(**disk)
    create(**disk)
    create(**{**disk, "name": "io", "metric_pattern": "disk.io.*", "archive_policy_name": "high"})
    create(**{**disk, "name": "a b/é", "metric_pattern": "x*"})
    create(**{**disk, "name": "other", "archive_policy_name": "nope"})
    for name in disk:
        create(**{key: value for key, value in disk.items() if key != name})
        create(**{**disk, name: 1})
    create(**disk, foo=1)
    ask("POST", "/v1/archive_policy_rule", [])
    ask("POST", "/v1/archive_policy_rule", disk, user="somebody")
    ask("GET", "/v1/archive_policy_rule", user="somebody")
    ask("GET", "/v1/archive_policy_rule/disk", user="somebody")
    ask("GET", "/v1/archive_policy_rule/nope")
    for body in ({"name": "disks"}, {"name": 1}, {}, {"metric_pattern": "x"}, {"name": "io"}, []):
        ask("PATCH", "/v1/archive_policy_rule/disk", body)
    for body in ({"name": "io"}, {"name": 1}, {}, {"metric_pattern": "x"}, [], {"name": "disk"}):
        ask("PATCH", "/v1/archive_policy_rule/disks", body)
    ask("DELETE", "/v1/archive_policy_rule/io", user="somebody")
    ask("DELETE", "/v1/archive_policy/high")


def metrics(ask):
    def create(user="somebody", save=None, **body):
        ask("POST", "/v1/metric", body, user=user, save=save)

    create(archive_policy_name="high", name="aé", unit="€", save="metric")
    create(archive_policy_name="high", name="b", save="second")
    create(name="disk.io.rate", user="other", save="third")
    create(name="disk.size", user="other", save="fourth")
    for body in (
        {}, {"name": "zzz"}, {"archive_policy_name": "nope"}, {"archive_policy_name": 1}, {"archive_policy_name": None},
        {"archive_policy_name": "high", "name": 1}, {"archive_policy_name": "high", "name": None},
        {"archive_policy_name": "high", "name": "a/b"}, {"archive_policy_name": "high", "unit": "u" * 32},
        {"archive_policy_name": "high", "unit": None}, {"archive_policy_name": "high", "foo": 1}, {"foo": 1, "name": 2},
        {"archive_policy_name": "high", "resource_id": "foo"}, {"archive_policy_name": "high", "resource_id": "a/b", "name": "x"},
        {"archive_policy_name": "high", "resource_id": "r" * 290, "name": "x"},
    ):
        create(**body)
    for path in ("{metric}", "foo", "00000000-0000-4000-8000-000000000000", "urn:uuid:{metric}", "%7B{metric}%7D"):
        ask("GET", f"/v1/metric/{path}")
        ask("GET", f"/v1/metric/{path}", user="somebody")
        ask("GET", f"/v1/metric/{path}", user="other")
    for query in (
        "sort=name", "sort=name:desc", "sort=name:desc&limit=2", "sort=name&limit=2&foo=a%20b", "sort=name&limit=99",
        "sort=name&limit=1&marker={metric}", "sort=creator&sort=name:desc", "name=b", "name=b&unit=B", "unit=%E2%82%AC",
        "creator=other&sort=name", "user_id=other", "user_id=a&project_id=b", "archive_policy_name=low", "id={metric}", "status=active&sort=name",
        "status=foo", "limit=0", "limit=x", "limit=-1", "limit=", "limit=1&limit=2", "sort=foo", "sort=name:foo", "sort=:", "name=a&name=b",
        "marker=00000000-0000-4000-8000-000000000000", "sort=archive_policy_name&sort=name",
    ):
        ask("GET", f"/v1/metric?{query}", user="somebody")


def measures(ask):
    path = "/v1/metric/{metric}/measures"
    for body in (
        [], {}, "null", "1", '"x"', '""', [1], [[]], [{}], [{"value": 1}], [{"timestamp": "2015-01-01"}], "[", "[1,]", "",
        [{"timestamp": "x", "value": 1}], [{"timestamp": "2015-01-01", "value": "x"}], [{"timestamp": None, "value": 1}],
        [{"timestamp": -1, "value": 1}], [{"timestamp": "1969-12-31", "value": 1}], {"timestamp": "2015-01-01", "value": 1},
        [{"timestamp": "2013-01-01 12:00:01", "value": 8}, {"timestamp": "2013-01-01T12:00:02", "value": 16.5}],
        '[{"timestamp": 1357041723.5, "value": "1e3"}, {"value": true, "timestamp": "1357041724"}]',
        '[{"timestamp": "2013-01-01T13:00:05+01:00", "value": -0.0, "unit": "B"}]',
        '[{"timestamp": "2013-01-01T12:00:06.999999999Z", "value": 1e22}, {"timestamp": "2013-01-01T12:00:07", "value": 1e-7}]',
    ):
        ask("POST", path, body, user="somebody")
    ask("POST", path, [], user="other")
    ask("POST", path, [], user=None)
    for content_type in ("text/plain", "application/json; charset=utf-8", ""):
        ask("POST", path, [], user="somebody", headers={"Content-Type": content_type})
    for query in (
        "", "refresh=true", "granularity=1", "granularity=1s", "granularity=1&aggregation=max", "granularity=5", "granularity=x",
        "granularity=-1", "granularity=", "aggregation=last", "aggregation=foo", "start=foo", "stop=foo", "resample=60",
        "resample=x&granularity=1", "resample=60&granularity=1", "resample=W&granularity=1", "resample=Y&granularity=60",
        "resample=2&granularity=1&aggregation=sum", "refresh=foo", "start=2013-01-01T12:00:02&granularity=1",
        "stop=2013-01-01T12:00:02&granularity=1", "start=1357041722&stop=1357041724&granularity=1", "start=1&start=2",
        "foo=bar&granularity=1", "start=-1", "aggregation=count&granularity=3600", "start=2013-01-01T12:30&granularity=3600",
    ):
        ask("GET", f"{path}?{query}", user="somebody")
    ask("GET", path, user="other")
    ask("GET", path, user=None)
    batch = "/v1/batch/metrics/measures"
    for body in (
        {}, [], {"{metric}": []}, {"{metric}": [], "{second}": []}, {"{metric}": [{"timestamp": "x", "value": 1}]}, {"foo": []},
        {"00000000-0000-4000-8000-000000000002": [], "00000000-0000-4000-8000-000000000001": []},
        {"{metric}": [{"timestamp": 1, "value": 1}], "00000000-0000-4000-8000-000000000001": []}, {"{metric}": None},
        {"{second}": [{"timestamp": "2014-01-01T12:00:00", "value": 1}, {"timestamp": "2014-01-01T12:00:01", "value": 2}]},
    ):
        ask("POST", batch, body, user="somebody")
    ask("POST", batch, {"{metric}": []}, user="other")
    ask("GET", "/v1/metric/{second}/measures?refresh=true&granularity=1", user="somebody")


def the_rest(ask):
    for path in ("/nothing", "/v1/nothing", "/v1/capabilities", "/v1/status?details=foo", "/v1/batch"):
        ask("GET", path)
        ask("GET", path, user="somebody")
    one = "/v1/metric/{metric}"
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        for path in ("/v1/archive_policy/low/foo", "/v1/archive_policy_rule/io/foo", f"{one}/foo", f"{one}/measures/foo",
                     "/v1/batch/metrics/measures/foo", "/v1/capabilities/foo"):
            ask(method, path, None if method in ("GET", "DELETE") else {})
    for method, path in (
        ("PUT", "/v1/archive_policy"), ("DELETE", "/v1/archive_policy"), ("PUT", "/v1/archive_policy/low"), ("PATCH", "/v1/metric"),
        ("POST", one), ("PATCH", one), ("PUT", f"{one}/measures"), ("DELETE", f"{one}/measures"), ("GET", "/v1/batch/metrics/measures"),
        ("POST", "/v1/capabilities"), ("POST", "/v1/status"), ("PUT", "/v1/archive_policy_rule/io"), ("PUT", "/v1/metric/foo"),
    ):
        ask(method, path)
    ask("DELETE", one, user="other")
    ask("DELETE", one, user="somebody")
    ask("GET", one, user="somebody")
    ask("DELETE", one, user="somebody")


def main():
    with tempfile.TemporaryDirectory(prefix="gnudi-record-", dir="/tmp") as directory:
        directory = pathlib.Path(directory)
        directory.chmod(0o755)
        postgres = Postgres(directory / "pg").start()
        server = Gnocchi(directory / "gnocchi", postgres, config="[api]\nmax_limit = 7\n").start()
        try:
            recorder = Recorder(server)
            for part in (policies, rules, metrics, measures, the_rest):
                part(recorder.ask)
        finally:
            server.stop()
            postgres.stop()


if __name__ == "__main__":
    sys.exit(main())

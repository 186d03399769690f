"""The rows of the matrix: requests, at least one for each route of the OpenAPI document.

In paths and bodies `<name>` stands for an object of the world (`world.py`). `<fresh_...>` is an object that its owner creates just
before, for this request only; `<new>` is an unused name.
"""

import dataclasses
import json

JSON_PATCH = {"Content-Type": "application/json-patch+json"}
# Snappy's form of an empty message.
EMPTY_WRITE = b"\0"

# Whoever may post may post none, which leaves everything as it is for the rows that follow.
MEASURES = []
POLICY = {"name": "<new>", "definition": [{"granularity": "1m", "points": 60}]}


@dataclasses.dataclass(frozen=True, eq=False)
class Row:
    """One request. `route` is the path of the OpenAPI document; `what` says of whose thing, where that matters.

    `own`: what gnudi answers, by caller, where Gnocchi has no such route or is known to fail (`why` says which). `more`: what gnudi
    shows to callers beyond what Gnocchi does. `deleted`: how many resources go for each caller who is let in, where Gnocchi
    deletes everybody's.
    """

    method: str
    route: str
    path: str = None
    body: object = None
    what: str = ""
    headers: tuple = ()
    own: tuple = None
    why: str = ""
    more: tuple = ()
    deleted: tuple = ()

    def text(self):
        return (self.path or self.route) + json.dumps(self.body if not isinstance(self.body, bytes) else "")

    def send(self, client, fill):
        body = self.body
        if body is not None and not isinstance(body, bytes):
            body = fill(json.dumps(body)).encode()
        return client.request(self.method, fill(self.path or self.route), body, headers=dict(self.headers))


def _of_metric(method, suffix="", **kwargs):
    """A row for the metric of each owner."""
    route = f"/v1/metric/{{id}}{suffix}"
    return [Row(method, route, f"/v1/metric/<{name}>{suffix}", what=what, **kwargs) for name, what in [
        ("alone", "of the project"), ("metric_service", "made by a service for the project"),
        ("metric_beta", "of the other project")]]


def _of_resource(method, suffix="", route_suffix=None, **kwargs):
    route = f"/v1/resource/{{type}}/{{id}}{suffix if route_suffix is None else route_suffix}"
    return [Row(method, route, f"/v1/resource/t/<{name}>{suffix}", what=what, **kwargs) for name, what in [
        ("res", "of the project"), ("res_service", "made by a service for the project"),
        ("res_beta", "of the other project")]]


def _of_prometheus():
    """Rows for Prometheus' API: every authenticated caller may ask, and sees their own (`prometheus/test_tenants.py`)."""
    def row(method, route, path=None, body=None, good=200):
        return Row(method, route, path, body, own=(401, 401, 401, *(good,) * 5), why="Gnocchi has it not")

    rows = [row("POST", "/api/v1/read", body=EMPTY_WRITE), row("GET", "/federate", "/federate?match[]=m")]
    for name, arguments in [("query", "query=m"), ("query_range", "query=m&start=0&end=9&step=1"), ("query_exemplars", "query=m"),
                            ("format_query", "query=m"), ("parse_query", "query=m"), ("series", "match[]=m"), ("labels", "match[]=m")]:
        rows += [row(method, f"/api/v1/{name}", f"/api/v1/{name}?{arguments}") for method in ["GET", "POST"]]
    rows.append(row("GET", "/api/v1/label/{name}/values", "/api/v1/label/project/values"))
    rows += [row("GET", f"/api/v1/{name}") for name in ["metadata", "targets", "rules", "alerts"]]
    rows += [row("GET", f"/api/v1/status/{name}") for name in ["buildinfo", "runtimeinfo", "flags", "config"]]
    rows.append(row("GET", "/api/v1/status/tsdb", "/api/v1/status/tsdb?limit=10000"))
    deletion = "/api/v1/admin/tsdb/delete_series"
    rows += [row(method, deletion, f"{deletion}?match[]=<new>", good=204) for method in ["POST", "PUT"]]
    return rows + [row(method, "/api/v1/admin/tsdb/clean_tombstones", good=204) for method in ["POST", "PUT"]]


def _of_annotations():
    """Rows for what gnudi has and Gnocchi has not."""
    def row(method, name, what, statuses, body=None, suffix=""):
        route = "/v1/resource/{type}/{id}/annotation" + ("/{annotation}" if suffix else "")
        path = f"/v1/resource/t/<{name}>/annotation{suffix}"
        return Row(method, route, path, body, what=what, own=(401, 401, 401, *statuses), why="gnudi's own")

    rows = []
    for method, body, good in [("GET", None, 200), ("POST", {"text": "written"}, 201)]:
        rows += [row(method, "res", "of the project", (403, good, good, good, good), body),
                 row(method, "res_service", "made by a service for the project", (403, good, good, good, good), body),
                 row(method, "res_beta", "of the other project", (good, 403, 403, good, good), body)]
    rows += [row("GET", "res", "of the project", (403, 200, 200, 200, 200), suffix="/<fresh_annotation>"),
             row("DELETE", "res", "written in the project", (403, 204, 204, 403, 204), suffix="/<fresh_annotation>"),
             row("DELETE", "res", "written by a service", (403, 403, 403, 204, 204), suffix="/<fresh_service_annotation>")]
    return rows


def _of_who_may_delete(method, good, suffix="", query="", body=None):
    """Rows for requests that gnudi has and Gnocchi lacks, with the rights that a deletion of the metric needs."""
    metric, named = "/v1/metric/{id}", "/v1/resource/{type}/{id}/metric/{name}"
    return [Row(method, route + suffix, path + suffix + query, body, what=what, own=(401, 401, 401, *statuses), why="gnudi's own")
            for route, path, what, statuses in [
                (metric, "/v1/metric/<alone>", "of the project", (403, good, good, 403, good)),
                (metric, "/v1/metric/<metric_beta>", "of the other project", (good, 403, 403, 403, good)),
                (named, "/v1/resource/t/<res>/metric/m", "of the project", (403, good, good, 403, good))]]


def _aggregates(what, operations, search=None, query=""):
    body = {"operations": operations}
    if search is not None:
        body |= {"search": search, "resource_type": "t"}
    return Row("POST", "/v1/aggregates", "/v1/aggregates" + query, body, what=what)


HANDED_OVER = "of what was handed over to the other project"
NOBODY_AND_OTHERS = (401, 401, 401, 403, 403, 403, 403)

ROWS = [
    Row("GET", "/"),
    Row("GET", "/page/{file}", "/page/none", own=(404,) * 8, why="gnudi's own"),
    Row("GET", "/healthcheck"),
    Row("GET", "/metrics", own=(200,) * 8, why="gnudi's own"),
    Row("GET", "/debug/cluster", own=(*NOBODY_AND_OTHERS, 200), why="gnudi's own"),
    Row("GET", "/debug/flamegraph", "/debug/flamegraph?seconds=none", own=(*NOBODY_AND_OTHERS, 400), why="gnudi's own"),
    Row("GET", "/v1/"),
    Row("GET", "/v1/openapi.json", own=(401,) * 3 + (200,) * 5, why="gnudi's own"),
    Row("GET", "/v1/nothing", what="a path that leads nowhere"),
    Row("PUT", "/v1/metric", what="a method that is not there"),
    Row("GET", "/v1/capabilities"),
    Row("GET", "/v1/status"),
    Row("GET", "/v1/status/{details}", "/v1/status?details=false"),

    Row("GET", "/v1/archive_policy"),
    Row("POST", "/v1/archive_policy", body=POLICY),
    Row("GET", "/v1/archive_policy/{name}", "/v1/archive_policy/p"),
    Row("PATCH", "/v1/archive_policy/{name}", "/v1/archive_policy/q",
        {"definition": [{"granularity": "1m", "points": 90}]}),
    Row("DELETE", "/v1/archive_policy/{name}", "/v1/archive_policy/<fresh_policy>"),
    Row("GET", "/v1/archive_policy_rule"),
    Row("POST", "/v1/archive_policy_rule",
        body={"name": "<new>", "metric_pattern": "<new>*", "archive_policy_name": "q"}),
    Row("GET", "/v1/archive_policy_rule/{name}", "/v1/archive_policy_rule/r"),
    Row("PATCH", "/v1/archive_policy_rule/{name}", "/v1/archive_policy_rule/<fresh_rule>", {"name": "<new>"}),
    Row("DELETE", "/v1/archive_policy_rule/{name}", "/v1/archive_policy_rule/<fresh_rule>"),

    Row("GET", "/v1/metric", what="what is listed",
        more=tuple((caller, "metric without a resource") for caller in ["reader", "member"])),
    Row("GET", "/v1/metric", "/v1/metric?creator=x", what="of somebody"),
    Row("POST", "/v1/metric", body={"archive_policy_name": "p"}),
    Row("POST", "/v1/metric", body={"archive_policy_name": "p", "resource_id": "<res>", "name": "<new>"},
        what="of a resource of the project"),
    Row("POST", "/v1/metric", body={"archive_policy_name": "p", "resource_id": "<res_beta>", "name": "<new>"},
        what="of a resource of the other project"),
    *_of_metric("GET"),
    Row("DELETE", "/v1/metric/{id}", "/v1/metric/<fresh_metric>"),
    *_of_metric("GET", "/measures"),
    Row("GET", "/v1/metric/{id}/measures", "/v1/metric/<metric_moved>/measures", what=HANDED_OVER),
    *_of_metric("POST", "/measures", body=MEASURES),
    # Measures are removed, of 1970 since there are none; and a metric gets another policy, here the one that it has.
    *_of_who_may_delete("DELETE", 202, "/measures", "?stop=1971-01-01"),
    *_of_who_may_delete("PATCH", 200, body={"archive_policy_name": "p"}),
    Row("POST", "/v1/batch/metrics/measures", body={"<alone>": MEASURES}, what="of the project"),
    Row("POST", "/v1/batch/metrics/measures", body={"<alone>": MEASURES, "<metric_beta>": MEASURES},
        what="of both projects"),
    Row("POST", "/v1/batch/resources/metrics/measures", body={"<res>": {"m": MEASURES}}, what="of the project"),
    Row("POST", "/v1/batch/resources/metrics/measures", "/v1/batch/resources/metrics/measures?create_metrics=true",
        {"<res>": {"<new>": {"measures": MEASURES, "archive_policy_name": "p"}}}, what="with new metrics",
        own=(401, 401, 401, 403, 202, 202, 202, 202), why="Gnocchi asks nobody's leave for new metrics"),
    Row("POST", "/v1/batch/resources/metrics/measures", "/v1/batch/resources/metrics/measures?create_metrics=true",
        {"<res_beta>": {"<new>": {"measures": MEASURES, "archive_policy_name": "p"}}},
        what="with new metrics of the other project",
        own=(401, 401, 401, 202, 403, 403, 202, 202), why="Gnocchi asks nobody's leave for new metrics"),

    Row("GET", "/v1/resource_type"),
    Row("POST", "/v1/resource_type", body={"name": "<new>"}),
    Row("GET", "/v1/resource_type/{name}", "/v1/resource_type/t"),
    Row("PATCH", "/v1/resource_type/{name}", "/v1/resource_type/spare",
        [{"op": "add", "path": "/attributes/<new>", "value": {"type": "number", "required": False}}],
        headers=tuple(JSON_PATCH.items())),
    Row("DELETE", "/v1/resource_type/{name}", "/v1/resource_type/<fresh_type>"),

    Row("GET", "/v1/resource"),
    Row("GET", "/v1/resource/{type}", "/v1/resource/t", what="what is listed"),
    Row("GET", "/v1/resource/{type}", "/v1/resource/t?history=true&details=true", what="with history"),
    Row("POST", "/v1/resource/{type}", "/v1/resource/u", {"id": "<new>", "project_id": "<alpha>"}),
    Row("POST", "/v1/resource/{type}", "/v1/resource/u", {"id": "<new>", "metrics": {"m": "<fresh_metric>"}},
        what="that takes a metric of the project", own=(401, 401, 401, 403, 400, 400, 400, 400),
        why="400 for all in Gnocchi: only its creator attaches a metric"),
    Row("POST", "/v1/resource/{type}", "/v1/resource/u", {"id": "<new>", "metrics": {"m": "<fresh_other_metric>"}},
        what="that takes a metric of the other project", own=(401, 401, 401, 201, 403, 403, 400, 400),
        why="400 for all others in Gnocchi"),
    Row("DELETE", "/v1/resource/{type}", "/v1/resource/u", {"=": {"id": "<fresh_res>"}}, what="of the project",
        deleted=(0, 1, 1, 0, 1)),
    Row("DELETE", "/v1/resource/{type}", "/v1/resource/u", {"=": {"id": "<fresh_other_res>"}},
        what="of the other project", deleted=(1, 0, 0, 0, 1)),
    Row("DELETE", "/v1/resource/{type}", "/v1/resource/u", {"in": {"id": ["<fresh_res>", "<fresh_other_res>"]}},
        what="of both projects", deleted=(1, 1, 1, 0, 2)),
    *_of_resource("GET"),
    Row("GET", "/v1/resource/{type}/{id}", "/v1/resource/t/<res_moved>", what=HANDED_OVER),
    *_of_resource("PATCH", body={"flavor": "x"}),
    Row("DELETE", "/v1/resource/{type}/{id}", "/v1/resource/u/<fresh_res>"),
    *_of_resource("GET", "/history"),
    Row("GET", "/v1/resource/{type}/{id}/history", "/v1/resource/t/<res_moved>/history", what=HANDED_OVER),
    *_of_annotations(),
    *_of_resource("GET", "/metric"),
    *_of_resource("POST", "/metric", body={"<new>": {"archive_policy_name": "p"}}),
    *_of_resource("GET", "/metric/m", "/metric/{name}"),
    Row("DELETE", "/v1/resource/{type}/{id}/metric/{name}", "/v1/resource/u/<fresh_res>/metric/m"),
    *_of_resource("GET", "/metric/m/measures", "/metric/{name}/measures"),
    *_of_resource("POST", "/metric/m/measures", "/metric/{name}/measures", body=MEASURES),

    Row("POST", "/v1/search/resource/{type}", "/v1/search/resource/t", {}, what="everything"),
    Row("POST", "/v1/search/resource/{type}", "/v1/search/resource/t",
        {"or": [{"=": {"id": "<res_beta>"}}, {"=": {"project_id": "<alpha>"}}]}, what="either project's"),
    Row("POST", "/v1/search/resource/{type}", "/v1/search/resource/t?history=true", {"not": {"=": {"id": "<res>"}}},
        what="history of others"),
    Row("POST", "/v1/search/resource/{type}", "/v1/search/resource/t?history=true", {"=": {"id": "<res_moved>"}},
        what=f"history {HANDED_OVER}"),
    Row("POST", "/v1/search/metric", "/v1/search/metric?metric_id=<metric>", {"≥": 1}, what="of the project"),
    Row("POST", "/v1/search/metric", "/v1/search/metric?metric_id=<metric_service>", {"≥": 1},
        what="made by a service for the project"),
    Row("POST", "/v1/search/metric", "/v1/search/metric?metric_id=<metric>&metric_id=<metric_beta>", {"≥": 1},
        what="of both projects"),
    _aggregates("of the project", "(metric <metric> mean)"),
    _aggregates("made by a service for the project", "(metric <metric_service> mean)"),
    _aggregates("of both projects", "(aggregate max (metric (<metric> mean) (<metric_beta> mean)))"),
    _aggregates("by resource", "(metric m mean)", {}),
    _aggregates("by resource, either project's", "(metric m mean)",
                {"or": [{"=": {"id": "<res_beta>"}}, {"=": {"id": "<res>"}}]}),
    _aggregates("by resource, in groups", "(aggregate max (metric m mean))", {}, "?groupby=project_id"),
    # Of those that begin together one stands for all: what was handed over has no such metric.
    _aggregates("by resource, with history", "(aggregate max (metric m mean))", {"not": {"=": {"id": "<res_moved>"}}},
                "?groupby=project_id&use_history=true&start=2026-01-01"),
    _aggregates("by resource, with history and references", "(aggregate max (metric m mean))", {},
                "?groupby=flavor&use_history=true&details=true&start=2026-01-01&stop=2100-01-01"),
    _aggregates(f"by resource, {HANDED_OVER}", "(aggregate max (metric moved mean))", {}, "?groupby=project_id"),
    _aggregates(f"by resource, with history, {HANDED_OVER}", "(aggregate max (metric moved mean))", {},
                "?groupby=project_id&use_history=true&start=2026-01-01"),
    Row("GET", "/v1/aggregation/metric", "/v1/aggregation/metric?metric=<metric>", what="of the project"),
    Row("GET", "/v1/aggregation/metric", "/v1/aggregation/metric?metric=<metric>&metric=<metric_beta>",
        what="of both projects"),
    Row("POST", "/v1/aggregation/metric", body=["<metric>", "<metric_service>"], what="of the project's resources"),
    Row("POST", "/v1/aggregation/resource/{type}/metric/{name}", "/v1/aggregation/resource/t/metric/m?aggregation=max",
        {}, what="everything"),
    Row("POST", "/v1/aggregation/resource/{type}/metric/{name}",
        "/v1/aggregation/resource/t/metric/m?aggregation=max&groupby=project_id", {}, what="in groups"),

    Row("GET", "/v1/influxdb/ping", own=(401,) * 3 + (204,) * 5, why="406 in Gnocchi for `Accept: application/json`"),
    Row("HEAD", "/v1/influxdb/ping", own=(401,) * 3 + (204,) * 5, why="405 in Gnocchi"),
    Row("POST", "/v1/influxdb/query", "/v1/influxdb/query?q=create+database+<new>"),
    Row("POST", "/v1/influxdb/write", "/v1/influxdb/write?db=u", b"ruled,host=h f=1"),
    Row("POST", "/v1/prometheus/write", body=EMPTY_WRITE, own=(401,) * 3 + (202,) * 5,
        why="Gnocchi wants python-snappy for it"),
    Row("POST", "/api/v1/write", body=EMPTY_WRITE, own=(401,) * 3 + (204,) * 5, why="Gnocchi has it not",
        headers=(("Content-Type", "application/x-protobuf"),)),
    Row("POST", "/api/v1/otlp/v1/metrics", body={}, own=(401,) * 3 + (200,) * 5, why="Gnocchi has it not"),
    *_of_prometheus(),
]

"""Random requests of a tenant who knows all ids and names of another one, over every route that could reach them.

Each maker takes a `Tenant` and returns (method, path, body). Requests of `READS` return what the caller may see; those of `WRITES`
change what the caller may change.
"""

import json
import urllib.parse
import uuid

from inputs.remote_write import label, sample, series, snappy

MEASURE = {"timestamp": "2026-03-02T00:00:00", "value": 5.5}
METHODS = ["mean", "max", "sum", "count", "std"]
FIELDS = ["id", "project_id", "creator", "user_id", "flavor", "original_resource_id", "created_by_project_id", "type",
          "created_by_user_id"]


class Tenant:
    """What a tenant draws from: own things and those of others, mixed."""

    def __init__(self, random, resources, metrics, names, projects, texts, annotations=()):
        self.random = random
        self.annotations = annotations or [(resources[0], str(uuid.UUID(int=1)))]
        self.resources, self.metrics, self.names, self.projects = resources, metrics, names, projects
        self.texts = [*texts, *projects, *resources, *names]
        self.number = 0

    def found(self, request, made):
        """Goes on with what a request has made."""
        if request.startswith("POST /v1/metric "):
            self.metrics.append(made["id"])
        elif request.startswith(("POST /v1/resource/t ", "POST /v1/resource/generic ")):
            self.resources.append(made["id"])

    def any(self, items):
        return self.random.choice(items)

    def new(self):
        self.number += 1
        return f"apple-{self.number}"

    def some(self, items, most=3):
        return self.random.sample(items, self.random.randint(1, min(most, len(items))))

    def resource(self):
        return self.any(self.resources)

    def metric(self):
        return self.any(self.metrics)

    def name(self):
        return self.any(self.names)

    def kind(self):
        return self.any(["t", "t", "generic", "prometheus"])

    def filter(self, depth=2):
        """A filter of the search language, as JSON."""
        field = lambda: self.any(FIELDS)
        simple = [
            lambda: {self.any(["=", "!=", "<", "≥"]): {field(): self.any(self.texts)}},
            lambda: {"like": {self.any([name for name in FIELDS if name != "id"]): self.any(["%", "%:%", "z%", "%a%"])}},
            lambda: {"in": {field(): self.some(self.texts)}},
            lambda: {"!=": {field(): None}},
            lambda: {"≥": {"started_at": "2000-01-01"}},
        ]
        deep = [
            lambda: {"or": [self.filter(depth - 1), self.filter(depth - 1)]},
            lambda: {"and": [self.filter(depth - 1), self.filter(depth - 1)]},
            lambda: {"not": self.filter(depth - 1)},
        ]
        return self.any(simple + deep if depth > 0 else simple)()

    def text_filter(self):
        return self.any(["project_id!=x", "not project_id=x", "id!=x or creator like '%'", "flavor like '%'",
                         f"project_id={self.any(self.projects)}", f"id={self.resource()}", "started_at>='2000-01-01'"])

    def operations(self):
        """Operations on metrics by id."""
        references = [[metric, self.any(METHODS)] for metric in self.some(self.metrics)]
        metrics = ["metric", *references]
        return self.any([metrics, ["aggregate", self.any(METHODS), metrics], ["+", metrics, 1],
                         ["rolling", "mean", 1, metrics], ["max", ["metric", *references[0]], 0]])

    def named_operations(self):
        """Operations on metrics by name, of the resources that a search finds."""
        metrics = ["metric", self.any([*self.names, "*", "z*"]), self.any(METHODS)]
        return self.any([metrics, ["aggregate", self.any(METHODS), metrics], ["*", 2, metrics]])


def query(**arguments):
    return "?" + urllib.parse.urlencode(arguments, doseq=True) if arguments else ""


def _list_metrics(t):
    arguments = t.any([{}, {"name": t.name()}, {"id": t.metric()}, {"project_id": t.any(t.projects)}, {"sort": "name:desc"},
                       {"creator": f"x:{t.any(t.projects)}"}, {"limit": 2}, {"marker": t.metric()}, {"status": "delete"},
                       {"last_measure": "true"}, {"sort": "last_measure:desc", "last_measure": "true"}, {"silent_since": "2100-01-01"},
                       {"sort": "last_measure", "marker": t.metric()}, {"late_dropped": "true", "sort": "late_dropped"}])
    return "GET", "/v1/metric" + query(**arguments), None


def _list_resources(t):
    arguments = t.any([{}, {"details": "true"}, {"history": "true"}, {"limit": 2}, {"marker": t.resource()},
                       {"history": "true", "marker": f"{t.resource()}@2026-01-01"}, {"attrs": ["id", "flavor"]},
                       {"history": "true", "details": "true", "sort": "revision_end:asc"}, {"sort": "creator:asc"},
                       {"silent_since": "2100-01-01"}, {"silent_since": "2100-01-01", "limit": 1, "details": "true"}])
    return "GET", f"/v1/resource/{t.kind()}" + query(**arguments), None


def _search_resources(t):
    history = t.any([{}, {"history": "true"}, {"details": "true"}, {"sort": "id:desc", "limit": "3"}])
    if t.random.random() < 0.3:
        return "POST", f"/v1/search/resource/{t.kind()}" + query(filter=t.text_filter(), **history), b""
    return "POST", f"/v1/search/resource/{t.kind()}" + query(**history), t.filter()


def _search_metrics(t):
    arguments = {"metric_id": t.some(t.metrics), "aggregation": t.any(METHODS)}
    return "POST", "/v1/search/metric" + query(**arguments), {"≥": 0}


def _aggregates(t):
    return "POST", "/v1/aggregates" + query(needed_overlap=0, **t.any([{}, {"details": "true"}])), {"operations": t.operations()}


def _aggregates_by_resource(t):
    arguments = {"needed_overlap": 0} | t.any([{}, {"details": "true"}, {"groupby": t.any(FIELDS)},
                                               {"groupby": ["project_id", "flavor"]},
                                               {"groupby": t.some(FIELDS), "use_history": "true"},
                                               {"groupby": ["time:hour", t.any(FIELDS)], "across_types": "true"}, {"groupby": "time:weekday"},
                                               {"empty": "true", "groupby": t.any(FIELDS)}])
    if t.random.random() < 0.3:
        arguments |= {"start": "2026-01-01", "stop": "2100-01-01"}
    if "use_history" in arguments and t.random.random() < 0.5:
        arguments["details"] = "true"
    body = {"operations": t.named_operations(), "resource_type": t.kind(),
            "search": t.any([{}, t.filter(), t.text_filter()])}
    return "POST", "/v1/aggregates" + query(**arguments), body


def _aggregation_of_metrics(t):
    arguments = {"aggregation": t.any(METHODS), "needed_overlap": 0, "metric": t.some(t.metrics)}
    if t.random.random() < 0.5:
        return "GET", "/v1/aggregation/metric" + query(**arguments), None
    metrics = arguments.pop("metric")
    return "POST", "/v1/aggregation/metric" + query(**arguments), metrics


def _aggregation_of_resources(t):
    arguments = {"aggregation": t.any(METHODS), "needed_overlap": 0} | t.any([{}, {"groupby": t.any(FIELDS)}])
    # A group without such metrics is shown, too, and by its name tells of its resources.
    name = t.any([t.name(), "apple-metric-0"])
    return "POST", f"/v1/aggregation/resource/{t.kind()}/metric/{name}" + query(**arguments), t.any([{}, {}, t.filter()])


def _read_things(t):
    resource = f"/v1/resource/{t.kind()}/{t.resource()}"
    metric = f"/v1/metric/{t.metric()}"
    path = t.any([resource, f"{resource}/history", f"{resource}/history?details=true", f"{resource}/metric",
                  f"{metric}?last_measure=true", f"{metric}?late_dropped=true", f"{resource}/metric/{t.name()}?last_measure=true",
                  f"{resource}/metric/{t.name()}", f"{resource}/metric/{t.name()}/measures", metric,
                  f"{metric}/measures", f"{metric}/measures?aggregation=max&refresh=true"])
    return "GET", path, None


def _read_annotations(t):
    resource, annotation = t.any(t.annotations)
    path = f"/v1/resource/{t.kind()}/{t.any([resource, t.resource()])}"
    return "GET", path + t.any(["/annotation", f"/annotation/{annotation}", "/history?annotations=true",
                                f"/annotation?marker={annotation}", "/annotation?start=2026-01-01"]), None


def _read_the_rest(t):
    return "GET", t.any(["/v1/status", "/v1/capabilities", "/v1/archive_policy", "/v1/archive_policy_rule/default", "/metrics",
                         "/v1/resource_type", "/v1/resource", "/debug/cluster", "/"]), None


def _selector(t):
    return t.any(['{__name__=~".+"}', '{type="t"}', f'{{resource_id="{t.resource()}"}}', f'{{__name__="{t.name()}"}}',
                  f'{{project="{t.any(t.projects)}"}}', '{flavor=~".+", resource!=""}', f'{{flavor!="{t.any(t.texts)}", type=~"t|x"}}'])


def _ask_prometheus(t):
    """Any route of Prometheus' API that shows something, by GET or as a form."""
    at = {"time": "2026-03-01T00:02:30Z"}
    span = {"start": "2026-03-01T00:00:00Z", "end": "2026-03-01T00:03:00Z"}
    by = t.any(["resource_id", "project", "flavor", "user", "__name__"])
    text = t.any(["{}", "sum by (%s) ({})" % by, "topk(50, {})", "count_values by (%s) (\"v\", {})" % by, "{}[5m]", "max_over_time({}[5m])",
                  'label_replace({}, "x", "$1", "%s", "(.*)")' % by]).replace("{}", _selector(t))
    name, arguments = t.any([
        ("query", {"query": text, **at}), ("query", {"query": text, **at}),
        ("query_range", {"query": text, "step": 60, **span}), ("series", {"match[]": [_selector(t), _selector(t)]}),
        ("labels", {"match[]": _selector(t)}), (f"label/{by}/values", t.any([{}, {"match[]": _selector(t)}])),
        ("status/tsdb", {"limit": 100}), ("metadata", {}),
    ])
    encoded = urllib.parse.urlencode(arguments, doseq=True)
    below = t.any(["", "/prometheus"])
    if "/" in name or name == "metadata" or t.random.random() < 0.7:
        return "GET", f"{below}/api/v1/{name}?{encoded}", None
    return "POST", f"{below}/api/v1/{name}?{encoded}", b""


READS = [_list_metrics, _list_resources, _search_resources, _search_metrics, _aggregates, _aggregates_by_resource,
         _aggregation_of_metrics, _aggregation_of_resources, _read_things, _read_annotations, _ask_prometheus, _read_the_rest]


def _create_metric(t):
    body = {"archive_policy_name": "p", "name": t.new()}
    if t.random.random() < 0.6:
        body |= {"resource_id": t.resource(), "name": t.any([t.new(), t.name()])}
    return "POST", "/v1/metric", body


def _create_resource(t):
    id = t.any([t.resource(), str(uuid.UUID(int=t.random.getrandbits(128))), t.new(), "zebra-host"])
    body = {"id": id, "project_id": t.any(t.projects), "flavor": t.new()}
    if t.random.random() < 0.6:
        body["metrics"] = t.any([{"m": t.metric()}, {t.name(): {"archive_policy_name": "p"}},
                                 {"m": {"archive_policy_name": "p", "resource_id": t.resource()}}])
    return "POST", f"/v1/resource/{t.any(['t', 't', 'generic'])}", body


def _patch_resource(t):
    body = t.any([{"flavor": t.new()}, {"project_id": t.any(t.projects)}, {"user_id": t.new()}, {"metrics": {}},
                  {"metrics": {"m": t.metric()}}, {"ended_at": "2026-03-03"}, {"ended_at": None}])
    return "PATCH", f"/v1/resource/{t.any(['t', 't', 'generic'])}/{t.resource()}", body


def _give_away(t):
    return "PATCH", f"/v1/resource/t/{t.resource()}", {"project_id": t.any(t.projects)}


def _create_named_metrics(t):
    body = t.any([{t.new(): {"archive_policy_name": "p"}}, {t.name(): t.metric()}, {t.name(): {"archive_policy_name": "p"}}])
    return "POST", f"/v1/resource/t/{t.resource()}/metric", body


def _post_measures(t):
    path = t.any([f"/v1/metric/{t.metric()}/measures", f"/v1/resource/t/{t.resource()}/metric/{t.name()}/measures"])
    return "POST", path, [MEASURE]


def _delete_measures(t):
    path = t.any([f"/v1/metric/{t.metric()}/measures", f"/v1/resource/t/{t.resource()}/metric/{t.name()}/measures"])
    return "DELETE", path + t.any(["", "?start=2020-01-01", "?stop=2020-01-01"]), None


def _move_metric(t):
    path = t.any([f"/v1/metric/{t.metric()}", f"/v1/resource/t/{t.resource()}/metric/{t.name()}"])
    return "PATCH", path, t.any([{"archive_policy_name": "p"}, {"archive_policy": {"definition": [{"granularity": "1m"}]}}])


def _post_batch(t):
    return "POST", "/v1/batch/metrics/measures", {metric: [MEASURE] for metric in t.some(t.metrics)}


def _post_resources_batch(t):
    body = {resource: {name: t.any([[MEASURE], {"measures": [MEASURE], "archive_policy_name": "p"}])
                       for name in t.some([*t.names, t.new()])} for resource in t.some([*t.resources, "zebra-host"])}
    create = t.any([{}, {"create_metrics": "true"}])
    return "POST", "/v1/batch/resources/metrics/measures" + query(**create), body


def _delete_things(t):
    return "DELETE", t.any([f"/v1/metric/{t.metric()}", f"/v1/resource/t/{t.resource()}",
                            f"/v1/resource/generic/{t.resource()}",
                            f"/v1/resource/t/{t.resource()}/metric/{t.name()}"]), None


def _delete_matching(t):
    if t.random.random() < 0.3:
        return "DELETE", f"/v1/resource/{t.kind()}" + query(filter=t.text_filter()), b""
    return "DELETE", f"/v1/resource/{t.kind()}", t.filter()


def _change_the_rest(t):
    attribute = [{"op": "remove", "path": "/attributes/flavor"}]
    return t.any([
        ("DELETE", "/v1/resource_type/t", None), ("PATCH", "/v1/resource_type/t", json.dumps(attribute).encode()),
        ("DELETE", "/v1/archive_policy/p", None), ("POST", "/v1/archive_policy", {"name": t.new(), "definition": []}),
        ("PATCH", "/v1/archive_policy/p", {"definition": [{"granularity": "1m", "points": 1}]}),
        ("DELETE", "/v1/archive_policy_rule/default", None), ("POST", "/v1/resource_type", {"name": t.new()}),
        ("PATCH", "/v1/archive_policy_rule/default", {"name": t.new()}),
    ])


def _annotate(t):
    resource, annotation = t.any(t.annotations)
    path = f"/v1/resource/{t.kind()}/{t.any([resource, t.resource()])}/annotation"
    return t.any([("POST", path, {"text": t.new()}), ("DELETE", f"{path}/{annotation}", None)])


def _write_lines(t):
    line = f"m,host={t.any(['zebra-host', t.resource(), t.new()])} f=1"
    return "POST", "/v1/influxdb/write?db=t", line.encode()


def _write_remotely(t):
    labels = [label("__name__", t.new()), label("instance", t.any(["zebra-host", t.new()])), label("job", "zebra-job")]
    return "POST", "/v1/prometheus/write", snappy(series(*labels, sample(5.5, 1_780_000_000_000)))


def _export_metrics(t):
    attributes = [{"key": "service.name", "value": {"stringValue": t.any(["zebra-job", t.new()])}}]
    point = {"timeUnixNano": "1780000000000000000", "asDouble": 5.5}
    metric = {"name": t.new(), "gauge": {"dataPoints": [point]}}
    return "POST", t.any(["", "/prometheus"]) + "/api/v1/otlp/v1/metrics", {"resourceMetrics": [
        {"resource": {"attributes": attributes}, "scopeMetrics": [{"metrics": [metric]}]}]}


def _delete_series(t):
    times = t.any([{}, {"start": "2026-03-01T00:00:00Z", "end": "2026-03-01T00:01:00Z"}])
    return t.any(["POST", "PUT"]), t.any(["", "/prometheus"]) + "/api/v1/admin/tsdb/delete_series" + query(**{"match[]": _selector(t), **times}), b""


WRITES = [_create_metric, _create_resource, _patch_resource, _give_away, _create_named_metrics, _post_measures, _delete_measures, _move_metric, _post_batch,
          _post_resources_batch, _delete_things, _delete_matching, _change_the_rest, _annotate, _write_lines, _write_remotely, _export_metrics,
          _delete_series]

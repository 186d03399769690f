"""The dashboards and alerts of deploy/, as Grafana and Prometheus read them."""

import json
import re
import urllib.parse

import yaml
from support.gnudi import ROOT

DASHBOARDS = ROOT / "deploy" / "grafana" / "dashboards"
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yaml"
VARIABLE = re.compile(r"\$(\w+)|\$\{(\w+)\}")


def dashboard(name):
    return json.loads((DASHBOARDS / f"{name}.json").read_text())


def dashboards():
    """{name: dashboard}"""
    return {path.stem: dashboard(path.stem) for path in sorted(DASHBOARDS.glob("*.json"))}


def variables(board):
    """{name: variable} of those that are asked of the data source."""
    return {one["name"]: one for one in board["templating"]["list"] if one["type"] == "query"}


def filled(board, text, interval, span):
    """A text with the values that Grafana gives its variables where everything is chosen."""
    values = {"__rate_interval": interval, "__range": span, **{name: one["allValue"] for name, one in variables(board).items()}}
    return VARIABLE.sub(lambda match: values[match[1] or match[2]], text)


def values_path(board, variable):
    """What Grafana asks for the list of a variable: label_values(selector, label)."""
    selector, label = filled(board, variable["query"]["query"], "", "").removeprefix("label_values(").removesuffix(")").rsplit(", ", 1)
    return f"/api/v1/label/{label}/values?" + urllib.parse.urlencode({"match[]": selector})


def panels(board):
    """Those that show something."""
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def expressions(board, interval, span):
    """[(panel's title, expression)]"""
    return [(panel["title"], filled(board, target["expr"], interval, span)) for panel in panels(board) for target in panel["targets"]]


def rules():
    """All alerts, in the order of the file."""
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def selectors(tree):
    """The selectors of an expression, of its tree as /api/v1/parse_query answers it: {metric: names of labels that are matched}."""
    found = {}
    if isinstance(tree, dict):
        if tree.get("type") in ("vectorSelector", "matrixSelector"):
            labels = {matcher["name"]: matcher for matcher in tree["matchers"]}
            found.setdefault(tree["name"] or labels["__name__"]["value"], set()).update(labels.keys() - {"__name__"})
        tree = list(tree.values())
    for part in tree if isinstance(tree, list) else []:
        for name, labels in selectors(part).items():
            found.setdefault(name, set()).update(labels)
    return found

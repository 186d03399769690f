"""Shared by the tests of docs/compatibility.md's rows: one server of each kind, and functions that fill them."""

import itertools

import pytest

from support.gnocchi import Gnocchi
from support.gnudi import Gnudi
from support.http import create_metric, create_policy

NUMBER = itertools.count()
CONFIG = "[api]\nenable_proxy_headers_parsing = true\n"


@pytest.fixture(scope="module")
def theirs(shared_dir, postgres):
    """A Gnocchi of its own: what differs here would differ in what others list."""
    with Gnocchi(shared_dir / f"gnocchi-deviations-{next(NUMBER)}", postgres, config=CONFIG) as server:
        yield server.client()


@pytest.fixture(scope="module")
def ours(shared_dir):
    directory = shared_dir / f"gnudi-deviations-{next(NUMBER)}"
    with Gnudi(directory, config=CONFIG, arguments=["--skip-archive-policies-creation"]) as server:
        yield server.client()


def unique(name):
    return f"deviation-{name}-{next(NUMBER)}"


def both(ours, theirs):
    return {"gnocchi": theirs, "gnudi": ours}


def policy_named(client, definition, methods=("mean", "sum"), **more):
    """The name of a new policy."""
    name = unique("policy")
    create_policy(client, name, definition, aggregation_methods=list(methods), **more)
    return name


def measures_path(metric):
    return f"/v1/metric/{metric}/measures"


def push(client, metric, points):
    """Points, (timestamp, value), in one request that is processed at once."""
    client.post(measures_path(metric), [{"timestamp": time, "value": value} for time, value in points]).expect(202)
    client.get(f"{measures_path(metric)}?refresh=true")


def metric_with(client, points, definition, methods=("mean", "sum"), **policy):
    """The id of a new metric of a new policy, with points in one request."""
    metric = create_metric(client, policy_named(client, definition, methods, **policy))
    if points:
        push(client, metric, points)
    return metric


def rows(client, metric, aggregation="sum", query=""):
    """What is stored, as (timestamp, granularity, value)."""
    path = f"{measures_path(metric)}?refresh=true&aggregation={aggregation}{query}"
    return [tuple(row) for row in client.get(path).expect(200).json()]

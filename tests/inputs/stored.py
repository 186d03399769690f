"""Reads what gnudi has stored, for tests that wait for it."""

from support.process import wait_until

# Whatever is waited for here comes within a second, unless the machine stands still.
SOON_S = 60


def metrics_of(client, resource_type, resource):
    """{name: id} of a resource's metrics; empty where there is no such resource."""
    answer = client.get(f"/v1/resource/{resource_type}/{resource}")
    return answer.expect(200).json()["metrics"] if answer.status != 404 else {}


def wait_for_metrics(client, resource_type, resource, names):
    """The metrics of the resource, once all `names` are among them."""

    def found():
        metrics = metrics_of(client, resource_type, resource)
        return metrics if set(names) <= metrics.keys() else None

    return wait_until(found, SOON_S, f"metrics {sorted(names)} of {resource}")


def points(client, metric, aggregation="mean"):
    """[(time, granularity, value)] of a metric, waiting measures included."""
    path = f"/v1/metric/{metric}/measures?refresh=true&aggregation={aggregation}"
    return [tuple(point) for point in client.get(path).expect(200).json()]


def values(client, metric, aggregation="mean"):
    """The values alone."""
    return [value for _, _, value in points(client, metric, aggregation)]


def wait_for_values(client, metric, expected):
    """A collector's metric may exist before its first measure."""
    wait_until(lambda: values(client, metric) == expected, SOON_S, f"{expected} in {metric}")

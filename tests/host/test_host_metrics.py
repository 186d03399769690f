"""`gnudi serve` collects this machine's own figures by default, and they are right."""

import os
import pathlib
import time

import pytest

from support.process import wait_until

pytestmark = pytest.mark.slow

CONFIG = "[host]\ninterval = 1\n"


def last_value(client, metric):
    """The newest value of a metric, or None."""
    points = client.get(f"/v1/metric/{metric['id']}/measures?refresh=true&granularity=1").expect(200).json()
    return points[-1][2] if points else None


def listed(client):
    return {metric["name"]: metric for metric in client.get("/v1/metric").expect(200).json()}


def collected(client):
    """{name: metric} once every metric has at least two points. The second reading makes further metrics: none has come meanwhile."""
    metrics = listed(client)
    counts = [len(client.get(f"/v1/metric/{metric['id']}/measures?refresh=true&granularity=1").json())
              for metric in metrics.values()]
    is_whole = any("cpu.util" in name for name in metrics) and min(counts) >= 2 and listed(client).keys() == metrics.keys()
    return metrics if is_whole else None


def test_the_machines_own_figures_arrive(gnudi):
    server = gnudi(config=CONFIG, host_metrics=True)
    client = server.client()
    metrics = wait_until(lambda: collected(client), 60, "figures of this machine")
    for part in ("cpu.load", "cpu.util", "memory.total", "memory.used", "network.incoming.bytes.lo"):
        assert any(part in name for name in metrics), f"{part}: {sorted(metrics)}"
    assert all(metric["unit"] for metric in metrics.values())
    total_kb = int(pathlib.Path("/proc/meminfo").read_text().split()[1])
    total = last_value(client, next(metric for name, metric in metrics.items() if "memory.total" in name))
    assert total in (total_kb, total_kb * 1024)
    load = next(metric for name, metric in metrics.items() if "cpu.load.1min" in name)
    # It may change a lot between two looks.
    wait_until(lambda: abs(last_value(client, load) - os.getloadavg()[0]) < 5, 60, "the load")
    # They go on after a restart, in the same metrics.
    assert server.stop() == 0
    server.start()
    again = wait_until(lambda: collected(server.client()), 60, "figures after a restart")
    assert set(again) == set(metrics)


def test_they_can_be_left_out(gnudi):
    server = gnudi(config="[host]\nenabled = false\ninterval = 1\n", host_metrics=True)
    quiet = gnudi(config=CONFIG)
    # Longer than the interval.
    time.sleep(2.5)
    assert server.client().get("/v1/metric").json() == []
    assert quiet.client().get("/v1/metric").json() == []

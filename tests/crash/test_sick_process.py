"""Threads that die, and passes that panic: a write returns that more bytes were written than it got, which no code expects. If an
essential thread dies, the process exits, to be restarted; a pass is retried. Nothing acknowledged is lost."""

import math
import pathlib
from datetime import datetime

import pytest

from support.http import create_metric, create_policy
from support.process import wait_until
from support.strace import STRACE, injected

SOON_S = 60
#: More than anybody writes at once.
DEFECT = "pwritev:retval=1000000000"
#: Passes write their heads.
LOGGED = "[storage]\ndirty_bytes_max = 0\n"
#: The aggregates' recent layer is full soon.
SMALL = "[storage]\nrecent_bytes_max = 1048576\ndirty_bytes_max = 1048576\n"


@pytest.fixture(autouse=True)
def strace_is_there():
    if STRACE is None:
        pytest.fail("strace is missing: run scripts/install-test-deps, or install `strace`")


def started(gnudi, config):
    server = gnudi(config=config, arguments=["--skip-archive-policies-creation"])
    create_policy(server.client(), "seconds", [("1s", None)], aggregation_methods=["sum"])
    return server


def thread(server, name):
    tasks = pathlib.Path(f"/proc/{server.process.pid}/task").iterdir()
    (found,) = [int(task.name) for task in tasks if (task / "comm").read_text().strip() == name]
    return found


def post(client, metric, start, count=1):
    """Whether measures of seconds from `start` on were taken."""
    # Values that cannot be made small.
    measures = [{"timestamp": second, "value": math.sin(second)} for second in range(start, start + count)]
    return client.post(f"/v1/metric/{metric}/measures", measures).status == 202


def seconds(client, metric):
    points = client.get(f"/v1/metric/{metric}/measures?refresh=true&aggregation=sum&granularity=1").expect(200).json()
    return [int(datetime.fromisoformat(time).timestamp()) for time, _, _ in points]


@pytest.mark.parametrize("name, what", [
    ("gnudi-incoming", "the writer of the incoming log"),
    ("gnudi-flush", "a background thread of the aggregate store"),
])
def test_a_thread_that_dies_ends_the_process(gnudi, name, what):
    server = started(gnudi, SMALL)
    metric = create_metric(server.client(), "seconds")
    assert post(server.client(), metric, 0, 10)
    assert seconds(server.client(), metric) == list(range(10))
    taken, start = list(range(10)), 10
    with injected(thread(server, name), DEFECT):
        def is_gone():
            nonlocal start
            try:
                # Enough of them fill the recent layer.
                if post(server.client(), metric, start, 20_000):
                    taken.extend(range(start, start + 20_000))
            except OSError:
                # It may have been taken, and nobody knows: such a round is left out below.
                pass
            start += 20_000
            return not server.process.running()

        wait_until(is_gone, SOON_S, f"the end of the process without {name}")
    assert server.process.child.wait() == 1
    assert f"{what} has ended" in server.log() and "the process cannot continue" in server.log(), server.log()[-3000:]
    server.start()
    there = set(seconds(server.client(), metric))
    assert set(taken) <= there, f"lost: {sorted(set(taken) - there)[:10]}"
    assert there <= set(range(start))
    assert post(server.client(), metric, start) and start in seconds(server.client(), metric)


def test_a_pass_that_panics_is_tried_again(gnudi):
    server = started(gnudi, LOGGED)
    metric = create_metric(server.client(), "seconds")
    assert post(server.client(), metric, 0, 10)
    assert seconds(server.client(), metric) == list(range(10))
    log = [path for path in (server.data_dir / "aggregates").rglob("*") if path.is_file()]
    # Once in each thread.
    with injected(server.process.pid, f"{DEFECT}:when=1", log, threads=True):
        assert post(server.client(), metric, 10)
        wait_until(lambda: "panicked" in server.log(), SOON_S, "the panic")
    wait_until(lambda: seconds(server.client(), metric) == list(range(11)), SOON_S, "the measure")
    assert server.client().get("/healthcheck").status == 200
    assert server.stop() == 0
    server.start()
    assert seconds(server.client(), metric) == list(range(11))

"""kill -9 at a random instant under load, start again: every acknowledged measure is there exactly once.

10 rounds, or `--rounds` (`make crash`: 1,000), on one data directory.
"""

import random
import time

import pytest

from crash import load
from support.process import wait_until

pytestmark = pytest.mark.slow

ROUNDS = 10
WRITERS = 4
LOAD_S_MAX = 0.3
ACKNOWLEDGED_A_ROUND = 20
SOON_S = 60
JOIN_S = 90


def start_writers(server, rng):
    return load.start_writers(server, [rng.random() for _ in range(WRITERS)], timeout_s=SOON_S)


def acknowledged(metrics):
    return sum(len(metric.acknowledged) for metric in metrics)


def join(writers):
    for writer in writers:
        writer.join(JOIN_S)
        assert not writer.is_alive()


def check(server, writers):
    for writer in writers:
        for metric in writer.metrics:
            load.check(server.client(), metric)


def restart(server, rng):
    """Starts the server again; one time in four it is killed once more while it starts."""
    if rng.random() < 0.25:
        server.spawn()
        time.sleep(rng.uniform(0, 0.05))
        server.kill()
    server.start()


# From the first measure on passes defer, and checkpoints are frequent.
DEFERS = "[storage]\ndirty_bytes_max = 1\n[metricd]\ncheckpoint_ms = 50\n"


@pytest.mark.parametrize("config", ["", DEFERS], ids=["folds", "defers"])
def test_acknowledged_measures_survive_kill(gnudi, seed, rounds, config):
    rng = random.Random(seed)
    server = gnudi(config=config, arguments=["--skip-archive-policies-creation"])
    load.make_policy(server.client())
    metrics = []
    requests = 0
    for number in range(1, rounds + 1):
        writers = start_writers(server, rng)
        fresh = [metric for writer in writers for metric in writer.metrics]
        time.sleep(rng.uniform(0.01, LOAD_S_MAX))
        # A run that acknowledged next to nothing proves nothing.
        wait_until(lambda: acknowledged(metrics + fresh) > number * ACKNOWLEDGED_A_ROUND, SOON_S, "acknowledged measures")
        server.kill()
        join(writers)
        for writer in writers:
            assert not writer.refused, writer.refused
            requests += writer.requests
        restart(server, rng)
        check(server, writers)
        metrics += fresh
    client = server.client()
    for metric in metrics:
        load.check(client, metric)
    print(f"crash: {rounds} kills, {requests} requests and {acknowledged(metrics)} measures acknowledged, none lost")
    assert server.stop() == 0


def test_acknowledged_measures_survive_kill_with_a_backlog(gnudi):
    """Nothing is processed before the kill: all of it is read back from the log."""
    rng = random.Random(7)
    config = "[metricd]\ngreedy = false\nmetric_processing_delay = 3600\n"
    server = gnudi(config=config, arguments=["--skip-archive-policies-creation"])
    load.make_policy(server.client())
    writers = start_writers(server, rng)
    time.sleep(1)
    wait_until(lambda: all(acknowledged(writer.metrics) for writer in writers), SOON_S, "acknowledged measures")
    server.kill()
    join(writers)
    server.start()
    check(server, writers)


def test_stop_drains(gnudi):
    """SIGTERM under load: requests in progress are answered, the exit status is 0, and nothing is lost."""
    rng = random.Random(8)
    server = gnudi(arguments=["--skip-archive-policies-creation"])
    load.make_policy(server.client())
    writers = start_writers(server, rng)
    time.sleep(0.3)
    wait_until(lambda: all(acknowledged(writer.metrics) for writer in writers), SOON_S, "acknowledged measures")
    assert server.stop() == 0
    join(writers)
    server.start()
    check(server, writers)

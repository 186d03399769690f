"""The log of measures is lost, or it or the aggregates are replaced by an older copy: the server reports it, and processes new
measures of old metrics."""

import shutil

import pytest

from support.http import create_metric, create_policy, figure, get_seconds, post_seconds
from support.process import wait_until

# What is lost with the log must be in the aggregates.
CONFIG = "[metricd]\ncheckpoint_ms = 50\n"


def warnings(server):
    return [line for line in server.log().splitlines() if " WARN " in line]


@pytest.mark.parametrize("end", ["stopped", "killed"])
@pytest.mark.parametrize("way", ["emptied", "removed", "an older copy"])
def test_measures_after_the_log_was_lost_count(gnudi, way, end):
    server = gnudi(config=CONFIG, arguments=["--skip-archive-policies-creation"])
    client = server.client()
    create_policy(client, "lost", [("1s", None)], aggregation_methods=["sum"])
    metric = create_metric(client, "lost")
    post_seconds(client, metric, range(5))
    assert server.stop() == 0
    incoming, older = server.data_dir / "incoming", server.directory / "older"
    shutil.copytree(incoming, older)
    server.start()
    for second in range(5, 20):
        post_seconds(server.client(), metric, [second])
    assert get_seconds(server.client(), metric) == list(range(20))
    wait_until(lambda: figure(server.client(), "gnudi_aggregates_dirty_heads") == 0, 60, "a checkpoint")
    server.stop() if end == "stopped" else server.kill()
    assert warnings(server) == []
    shutil.rmtree(incoming)
    if way != "removed":
        shutil.copytree(older, incoming) if way == "an older copy" else incoming.mkdir()
    server.start()
    (warning,) = warnings(server)
    assert str(incoming) in warning and "lost" in warning and "position" in warning
    post_seconds(server.client(), metric, [20])
    assert get_seconds(server.client(), metric) == list(range(21))
    # It is told once.
    assert server.stop() == 0
    server.start()
    assert len(warnings(server)) == 1
    assert get_seconds(server.client(), metric) == list(range(21))


def test_an_older_copy_of_the_aggregates_is_reported(gnudi):
    server = gnudi(config=CONFIG, arguments=["--skip-archive-policies-creation"])
    client = server.client()
    create_policy(client, "lost", [("1s", None)], aggregation_methods=["sum"])
    metric = create_metric(client, "lost")
    post_seconds(client, metric, range(5))
    # A server that stops at once leaves them to the next one, in the log.
    assert get_seconds(client, metric) == list(range(5))
    assert server.stop() == 0
    aggregates, older = server.data_dir / "aggregates", server.directory / "older"
    shutil.copytree(aggregates, older)
    server.start()
    post_seconds(server.client(), metric, range(5, 20))
    assert get_seconds(server.client(), metric) == list(range(20))
    assert server.stop() == 0
    assert warnings(server) == []
    shutil.rmtree(aggregates)
    shutil.copytree(older, aggregates)
    server.start()
    (warning,) = warnings(server)
    assert f"{aggregates}: the aggregates are an older copy" in warning
    post_seconds(server.client(), metric, [20])
    assert get_seconds(server.client(), metric) == [*range(5), 20]
    # It is told once.
    assert server.stop() == 0
    server.start()
    assert len(warnings(server)) == 1

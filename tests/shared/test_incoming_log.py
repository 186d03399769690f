"""The log of measures in a shared store is emptied, or replaced by an older copy or by another driver: the processes report it, and process
new measures of old metrics."""

import pathlib
import re
import shutil
import time

import pytest

from support.engines import sections
from support.http import create_metric, create_policy, get_seconds, post_seconds
from support.process import wait_until
from support.redis import Redis

SOON_S = 60
#: Workers that die free their sacks soon.
QUICK = "[metricd]\nlease_seconds = 2\n"


def on_files(request):
    return QUICK + sections(request, "postgresql+file+file")


def made(cloud, config):
    """A cloud with an old metric."""
    made = cloud(config)
    client = made.client()
    create_policy(client, "lost", [("1s", None)], aggregation_methods=["sum"])
    return made, create_metric(client, "lost")


def stop(made):
    for process in [*made.apis, *made.workers]:
        assert process.stop() == 0


def start(made, config=None):
    """Starts the processes again, maybe with another configuration."""
    for process in [*made.workers, *made.apis]:
        if config is not None:
            process.config_path.write_text(config)
        process.start()


def replaced(made):
    """What the logs say of logs of measures in place of others."""
    lines = [line for process in [*made.apis, *made.workers] for line in process.log().splitlines()]
    return [line for line in lines if " ERROR " in line and "instead of the log" in line]


def place(made):
    """The folder of the incoming store."""
    return re.search(r"\[incoming\]\ndriver = file\nfile_basepath = (\S+)", made.config)[1]


@pytest.mark.parametrize("way", ["emptied", "an older copy"])
def test_measures_after_the_log_was_lost_count(cloud, request, tmp_path, way):
    made_of, metric = made(cloud, on_files(request))
    post_seconds(made_of.client(), metric, range(5))
    assert get_seconds(made_of.client(), metric) == list(range(5))
    stop(made_of)
    folder, older = place(made_of), tmp_path / "older"
    shutil.copytree(folder, older)
    start(made_of)
    for second in range(5, 20):
        post_seconds(made_of.client(), metric, [second])
    assert get_seconds(made_of.client(), metric) == list(range(20))
    stop(made_of)
    assert replaced(made_of) == []
    shutil.rmtree(folder)
    if way == "an older copy":
        shutil.copytree(older, folder)
    start(made_of)
    post_seconds(made_of.client(), metric, [20])
    assert get_seconds(made_of.client(), metric) == list(range(21))
    # All processes have opened the log by now.
    told = replaced(made_of)
    assert told and all(folder in line and "lost" in line and "position" in line for line in told), made_of.logs()
    # It is told once.
    stop(made_of)
    start(made_of)
    assert replaced(made_of) == told
    assert get_seconds(made_of.client(), metric) == list(range(21))


def test_another_driver_goes_on_above_the_one_before(cloud, request):
    made_of, metric = made(cloud, on_files(request))
    before = made_of.config
    after = before.replace(re.search(r"\[incoming\]\n(.*?)\[storage\]", before, re.S)[1],
                           f"driver = redis\nredis_url = {request.getfixturevalue('redis').url}\nredis_prefix = other{metric}\n")
    known = []
    # There and back, twice.
    for second, config in enumerate([before, after, before, after]):
        if second:
            start(made_of, config)
        for part in range(3):
            post_seconds(made_of.client(), metric, [10 * second + part])
            known.append(10 * second + part)
        assert get_seconds(made_of.client(), metric) == known
        assert bool(replaced(made_of)) == bool(second)
        stop(made_of)


def test_a_redis_that_was_emptied_takes_measures(cloud, request, postgres, shared_dir):
    """While everything runs, and with a start: positions follow its clock."""
    # One of its own: those that tests share must not be emptied.
    redis = Redis(shared_dir / f"emptied{time.monotonic_ns()}").start()
    request.addfinalizer(redis.stop)
    storage = re.search(r"\[storage\].*", sections(request, "postgresql+file+file"), re.S)[0]
    database = postgres.create_database(f"emptied{time.monotonic_ns()}")
    config = f"{QUICK}[indexer]\nurl = {database}\n[incoming]\ndriver = redis\nredis_url = {redis.url}\n{storage}"
    made_of, metric = made(cloud, config)
    post_seconds(made_of.client(), metric, range(5))
    assert get_seconds(made_of.client(), metric) == list(range(5))
    redis.command("flushall")
    post_seconds(made_of.client(), metric, [10])
    wait_until(lambda: get_seconds(made_of.client(), metric)[-1] == 10, SOON_S, "the new measure")
    told = lambda: [process.log().count("has lost all its data") for process in made_of.apis + made_of.workers]
    wait_until(lambda: max(told()) > 0, SOON_S, "a line in the log")
    assert max(told()) == 1, (told(), made_of.logs())
    stop(made_of)
    redis.command("flushall")
    start(made_of)
    post_seconds(made_of.client(), metric, [20])
    assert get_seconds(made_of.client(), metric) == [*range(5), 10, 20]
    assert replaced(made_of), made_of.logs()


def test_processes_end_when_their_log_is_gone(cloud, request):
    """They know positions of a log that those who start later do not see: they say so and end, to be started anew."""
    made_of, metric = made(cloud, on_files(request))
    post_seconds(made_of.client(), metric, range(5))
    assert get_seconds(made_of.client(), metric) == list(range(5))
    # In one step: they go on writing.
    pathlib.Path(place(made_of)).rename(f"{place(made_of)}-gone")
    processes = [*made_of.apis, *made_of.workers]
    wait_until(lambda: not any(process.process.running() for process in processes), SOON_S, "the ends")
    for process in processes:
        assert process.process.child.wait() == 1
        log = process.log()
        assert "instead of log 1" in log and "the log of objects that this process follows has ended" in log, log
    start(made_of)
    post_seconds(made_of.client(), metric, [10])
    assert get_seconds(made_of.client(), metric) == [*range(5), 10]

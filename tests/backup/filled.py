"""A store with data in each of its files, and the responses that it must give.

Every measure is the only one of its second, so that a value is exactly right, missing or wrong.
"""

import subprocess

from support.damage import copy_store
from support.gnudi import Gnudi, binary, run
from support.http import create_metric, create_policy

# Flushes and merges go on all the time.
CONFIG = "[storage]\nrecent_bytes_max = 60000\ndirty_bytes_max = 8000\n"
# Measures wait in the log until they are read with refresh=true.
LAZY = "[metricd]\ngreedy = false\nmetric_processing_delay = 3600\n"
# Verification reads the store of a server that was stopped; where there is no terminal it says little.
TIMEOUT_S = 120
METRICS = 24
REQUESTS = 16
# Of one metric: more than the sixty that make a block.
SECONDS_PER_REQUEST = 20
SECONDS = REQUESTS * SECONDS_PER_REQUEST
START_S = 1_600_000_000


class Filled:
    """A data directory, and the ids of its metrics."""

    def __init__(self, data_dir, metrics):
        self.data_dir, self.metrics = data_dir, metrics

    def copy(self, to):
        copy_store(self.data_dir, to / "data")
        return Filled(to / "data", self.metrics)

    def start(self, config=""):
        return Gnudi(self.data_dir.parent, config=CONFIG + config, data_dir=self.data_dir).start()


def value(number, second):
    return number * 1000.5 + second


def fill(directory):
    """A store with several runs, blocks, and logs, stopped in order when all was processed."""
    with Gnudi(directory, config=CONFIG) as server:
        client = server.client()
        create_policy(client, "filled", [("1s", None), ("60s", None)], aggregation_methods=["count", "sum"])
        metrics = [create_metric(client, "filled") for _ in range(METRICS)]
        for request in range(REQUESTS):
            seconds = range(request * SECONDS_PER_REQUEST, (request + 1) * SECONDS_PER_REQUEST)
            body = {id: [{"timestamp": START_S + second, "value": value(number, second)} for second in seconds]
                    for number, id in enumerate(metrics)}
            client.post("/v1/batch/metrics/measures", body).expect(202)
            for id in metrics:
                client.get(f"/v1/metric/{id}/measures?refresh=true&granularity=1&aggregation=sum").expect(200)
    return Filled(server.data_dir, metrics)


def read(store):
    """{metric: how many seconds of it are read, None where it is refused}; a value that is read must be right."""
    server = store.start()
    try:
        client, counts = server.client(), {}
        for number, id in enumerate(store.metrics):
            answer = client.get(f"/v1/metric/{id}/measures?refresh=true&granularity=1&aggregation=sum")
            assert answer.status in (200, 500, 503), answer
            if answer.status != 200:
                counts[id] = None
                continue
            points = answer.json()
            for text, _, found in points:
                second = int(text[17:19]) + 60 * int(text[14:16]) - (26 * 60 + 40)
                assert found == value(number, second), f"{id}: a wrong value is worse than none: {text} {found}"
            counts[id] = len(points)
        return counts
    finally:
        assert server.stop() == 0


def verify(store, *arguments):
    """Runs `gnudi verify`; answers its exit status, the lines of its findings, and all that it printed."""
    done = run("verify", "--data-dir", store.data_dir, *arguments, timeout_s=TIMEOUT_S)
    lines = done.stdout.splitlines()
    return done.returncode, [line for line in lines if "[repair: " in line], done.stdout + done.stderr


def check_whole(store):
    """Nothing is found; answers what is printed."""
    status, findings, text = verify(store)
    assert (status, findings) == (0, []), text
    return text


def start_repair(store, before=()):
    """A repair that somebody else ends; `before`: words before the command."""
    command = [*before, binary(), "verify", "--repair", "--data-dir", store.data_dir]
    return subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def files(store):
    """All files of the store that have anything to say, with their lengths."""
    names = sorted(path for path in store.data_dir.rglob("*") if path.is_file() and "quarantine" not in path.parts
                   and path.name != "reserve")
    return [path for path in names if path.stat().st_size > 0 and not path.name.endswith((".spare", ".tmp"))]

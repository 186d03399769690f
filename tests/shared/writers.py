"""Writers that switch to the next server if one fails, with the same metrics."""

import http.client
import time

from crash import load
from support.http import create_metric

PAUSE_S = 0.02
PATIENCE_S = 60


class Writer(load.Writer):
    """Pushes through any of the servers until `stop` is set. What was under way when a server went away, nobody knows: it may be
    there or not."""

    def __init__(self, servers, metrics, seed):
        super().__init__(None, metrics, seed)
        self.servers = servers
        self.broken = 0

    def run(self):
        clients = [server.client(timeout_s=30) for server in self.servers]
        while not self.stop.is_set():
            self.client = self.rng.choice(clients)
            try:
                is_acknowledged = self.push_some()
            except (OSError, http.client.HTTPException):
                self.broken += 1
                self.client.close()
                is_acknowledged = False
            if not is_acknowledged:
                time.sleep(PAUSE_S)


def start(cloud, rng, count=4, metrics_each=3):
    """Writers with metrics of their own, on all API processes of the cloud."""
    client = cloud.client()
    load.make_policy(client)
    writers = []
    for _ in range(count):
        metrics = [load.Metric(create_metric(client, load.POLICY)) for _ in range(metrics_each)]
        writers.append(Writer(cloud.apis, metrics, rng.random()))
    for writer in writers:
        writer.start()
    return writers


def acknowledged(writers):
    """How many measures."""
    return sum(len(metric.acknowledged) for writer in writers for metric in writer.metrics)


def stop(writers):
    for writer in writers:
        writer.stop.set()
    for writer in writers:
        writer.join(120)
        assert not writer.is_alive()


def check(cloud, writers):
    """Every acknowledged measure is in the aggregates once; nobody was answered anything but 202, or 503 for a while. How many were
    acknowledged."""
    strange = {status for writer in writers for status in writer.refused} - {503}
    assert not strange, f"answers {strange}\n{cloud.logs()}"
    client = cloud.client(timeout_s=60)
    for writer in writers:
        for metric in writer.metrics:
            patiently(lambda: load.check(client, metric), cloud)
    return acknowledged(writers)


def patiently(call, cloud):
    """An answer 503 says to come again; whatever else is wrong stays wrong."""
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            return call()
        except AssertionError as error:
            if "status 503" not in str(error) or time.monotonic() > end:
                raise AssertionError(f"{error}\n{cloud.logs()}") from None
            time.sleep(0.5)

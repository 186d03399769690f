"""Measures latencies of requests under a load as of polling: `python -m soak.latency --metrics 1000000`, in tests/.

Starts a server, creates resources of 30 metrics, posts a measure of each metric every minute, and after the first minute sends one
request after the other for a minute: a page of a thousand metrics, a search by an attribute, the measures of a metric.
"""

import argparse
import pathlib
import random
import tempfile
import threading
import time

from support.gnudi import Gnudi

METRICS_EACH = 30
RESOURCES_A_HOST = 30
BATCH = 1_000
CREATORS, LOADERS = 16, 2
MINUTE_S = 60
PAUSE_S = 0.02


def in_threads(count, work):
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    return threads


def created(server, resources):
    """The ids of all metrics of so many new resources."""
    found = [[] for _ in range(CREATORS)]
    metrics = {f"m{number}": {"archive_policy_name": "medium"} for number in range(METRICS_EACH)}

    def create(number):
        client = server.client()
        for resource in range(number, resources, CREATORS):
            body = {"id": f"vm-{resource}", "host": f"h{resource // RESOURCES_A_HOST}", "metrics": metrics}
            found[number] += client.post("/v1/resource/vm", body).expect(201).json()["metrics"].values()

    for thread in in_threads(CREATORS, create):
        thread.join()
    return [metric for part in found for metric in part]


def poll(server, metrics, number, stop):
    """Posts a measure of each of the loader's metrics every minute, until `stop` is set."""
    client = server.client()
    batches = [metrics[first:first + BATCH] for first in range(0, len(metrics), BATCH)][number::LOADERS]
    start, minute = time.monotonic(), 0
    while True:
        for place, batch in enumerate(batches):
            due = start + MINUTE_S * (minute + place / len(batches))
            if stop.wait(max(0, due - time.monotonic())):
                return
            timestamp = 1_700_000_000 + MINUTE_S * minute
            entries = (f'"{metric}":[{{"timestamp":{timestamp},"value":{random.random():.2f}}}]' for metric in batch)
            client.post("/v1/batch/metrics/measures", ("{" + ",".join(entries) + "}").encode()).expect(202)
        minute += 1


def measured(server, metrics, resources):
    """Seconds of each request, by its name."""
    client = server.client()
    hosts = max(1, resources // RESOURCES_A_HOST)
    requests = {
        "listing": lambda: client.get(f"/v1/metric?limit={BATCH}&marker={random.choice(metrics)}"),
        "search": lambda: client.post("/v1/search/resource/vm", {"=": {"host": f"h{random.randrange(hosts)}"}}),
        "read": lambda: client.get(f"/v1/metric/{random.choice(metrics)}/measures"),
    }
    seconds = {name: [] for name in requests}
    end = time.monotonic() + MINUTE_S
    while time.monotonic() < end:
        for name, request in requests.items():
            start = time.perf_counter()
            request().expect(200)
            seconds[name].append(time.perf_counter() - start)
        time.sleep(PAUSE_S)
    return seconds


def main():
    parser = argparse.ArgumentParser(prog="python -m soak.latency", description=__doc__.splitlines()[0])
    parser.add_argument("--metrics", type=int, default=1_000_000)
    resources = max(1, parser.parse_args().metrics // METRICS_EACH)
    with tempfile.TemporaryDirectory() as directory, Gnudi(pathlib.Path(directory)) as server:
        server.client().post("/v1/resource_type", {"name": "vm", "attributes": {"host": {"type": "string"}}}).expect(201)
        start = time.monotonic()
        metrics = created(server, resources)
        print(f"{len(metrics)} metrics of {resources} resources created in {time.monotonic() - start:.0f} s", flush=True)
        stop = threading.Event()
        loaders = in_threads(LOADERS, lambda number: poll(server, metrics, number, stop))
        time.sleep(MINUTE_S)
        for name, seconds in measured(server, metrics, resources).items():
            seconds.sort()
            p50, p99, most = (1e3 * seconds[min(len(seconds) - 1, int(len(seconds) * share))] for share in (0.5, 0.99, 1))
            print(f"{name}: {len(seconds)} requests, p50 {p50:.2f} ms, p99 {p99:.2f} ms, at most {most:.2f} ms")
        stop.set()
        for loader in loaders:
            loader.join()


if __name__ == "__main__":
    main()

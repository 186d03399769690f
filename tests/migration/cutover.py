"""Measures a cut-over: `python -m migration.cutover --metrics 1000000` from tests/, with GNUDI_BIN.

A real Gnocchi (PostgreSQL, Redis) gets that many metrics, ten a resource: some are made by its API and filled by its own passes, the
others are copies of them, rows and stored series alike. `gnudi import gnocchi --follow` then follows while `--rate` metrics a second get
their next point, as if a metricd of many processors worked. The copies change as in a pass of Gnocchi; its API takes some measures at last,
which wait. Then all of that stops, the import is interrupted, and its time until the end is told. At the end a sample is compared.
"""

import argparse
import pathlib
import random
import signal
import tempfile
import threading
import time
import uuid

import psycopg2
import psycopg2.extras
import redis

from migration.test_follow import Followed
from support import gnudi as program
from support.gnocchi import Gnocchi
from support.http import create_policy
from support.postgres import Postgres
from support.redis import Redis

START_S = 1_700_000_000
STEP_S = 300
METRICS_A_RESOURCE = 10
FIRST_ROUND_S = 7200
# name: aggregation methods; the first is for nine metrics of ten.
POLICIES = {"one": ["mean"], "six": ["mean", "min", "max", "sum", "std", "count"]}
TEMPLATES = 40
STATES = 8
BATCH = 1_000


class Cloud:
    """The metrics, and how they get points."""

    def __init__(self, arguments, theirs, database, store):
        self.rng = random.Random(arguments.seed)
        self.client, self.store = theirs.client(), store
        self.connection = psycopg2.connect(database)
        self.connection.autocommit = True
        psycopg2.extras.register_uuid()
        # The number of a point that comes after all others.
        self.behind = arguments.history + STATES
        self.templates = self.make_templates(arguments.history)
        self.ids = [uuid.UUID(int=self.rng.getrandbits(128), version=4) for _ in range(arguments.metrics)]
        # How many points each has had since.
        self.states = bytearray(arguments.metrics)
        self.next = 0

    def make_templates(self, history):
        for name, methods in POLICIES.items():
            create_policy(self.client, name, [("5m", 8640)], aggregation_methods=methods, back_window=0)
        self.client.post("/v1/resource_type", {"name": "machine", "attributes": {"host": {"type": "string"}}}).expect(201)
        made = []
        for number in range(TEMPLATES):
            policy = "six" if number % 10 == 9 else "one"
            body = {"id": str(uuid.uuid4()), "host": f"h{number}", "metrics": {"template": {"archive_policy_name": policy, "unit": "B"}}}
            metric = self.client.post("/v1/resource/machine", body).expect(201).json()["metrics"]["template"]
            made.append((metric, body["id"]))
            for state in range(STATES):
                first, last = (0, history) if state == 0 else (history + state - 1, history + state)
                points = [{"timestamp": START_S + point * STEP_S, "value": self.rng.random() * 1e6} for point in range(first, last)]
                self.client.post(f"/v1/metric/{metric}/measures", points).expect(202)
                self.client.get(f"/v1/metric/{metric}/measures?refresh=true&limit=1").expect(200)
                self.store.copy(f"timeseries:{metric}", f"state:{number}:{state}")
        return made

    def copy_rows(self):
        cursor = self.connection.cursor()
        cursor.execute("CREATE TEMP TABLE made (id uuid, resource uuid, template uuid, template_resource uuid, number int)")
        resources = [uuid.UUID(int=self.rng.getrandbits(128), version=4) for _ in range(len(self.ids) // METRICS_A_RESOURCE + 1)]
        rows = ((metric, resources[number // METRICS_A_RESOURCE], *self.templates[number % TEMPLATES], number)
                for number, metric in enumerate(self.ids))
        psycopg2.extras.execute_values(cursor, "INSERT INTO made VALUES %s", rows, page_size=10_000)
        cursor.execute("SELECT tablename FROM resource_type WHERE name = 'machine'")
        (table,) = cursor.fetchone()
        cursor.execute(
            "INSERT INTO resource (id, type, creator, started_at, revision_start, ended_at, user_id, project_id, original_resource_id) "
            "SELECT m.id, t.type, t.creator, t.started_at, t.revision_start, t.ended_at, t.user_id, t.project_id, m.id::text "
            "FROM (SELECT DISTINCT ON (resource) resource AS id, template_resource FROM made) m JOIN resource t ON t.id = m.template_resource")
        cursor.execute(f"INSERT INTO {table} (id, host) SELECT DISTINCT ON (resource) resource, 'h' || number FROM made")
        cursor.execute(
            "INSERT INTO metric (id, archive_policy_name, creator, resource_id, name, unit, status, needs_raw_data_truncation, "
            "last_measure_timestamp) SELECT m.id, t.archive_policy_name, t.creator, m.resource, 'meter.' || m.number, t.unit, t.status, "
            "false, t.last_measure_timestamp FROM made m JOIN metric t ON t.id = m.template")
        cursor.execute("ANALYZE")

    def copy_series(self, numbers):
        for first in range(0, len(numbers), BATCH):
            pipe = self.store.pipeline(transaction=False)
            for number in numbers[first:first + BATCH]:
                pipe.copy(f"state:{number % TEMPLATES}:{self.states[number]}", f"timeseries:{self.ids[number]}", replace=True)
            pipe.execute()

    def fill(self):
        self.copy_rows()
        self.copy_series(range(len(self.ids)))
        for metric, _ in self.templates:
            self.client.delete(f"/v1/metric/{metric}").expect(204)

    def go_on(self, count):
        """The next metrics in turn get a point. Stored first: a round that comes between sees no change, and the next one does."""
        numbers = [(self.next + number) % len(self.ids) for number in range(count)]
        self.next = (self.next + count) % len(self.ids)
        for number in numbers:
            self.states[number] += 1
            assert self.states[number] < STATES, "the templates have no more points: a shorter run, please"
        self.copy_series(numbers)
        self.connection.cursor().execute(
            "UPDATE metric SET last_measure_timestamp = clock_timestamp() AT TIME ZONE 'UTC' WHERE id = ANY(%s)",
            ([self.ids[number] for number in numbers],))

    def leave_waiting(self, count):
        """Posts to Gnocchi's API what nobody processes."""
        numbers = self.rng.sample(range(len(self.ids)), count)
        for first in range(0, count, BATCH):
            point = [{"timestamp": START_S + self.behind * STEP_S, "value": 1.5}]
            body = {str(self.ids[number]): point for number in numbers[first:first + BATCH]}
            self.client.post("/v1/batch/metrics/measures", body).expect(202)
        return numbers


class Load:
    """Has the cloud go on at a rate, in a thread."""

    def __init__(self, cloud, rate):
        self.cloud, self.rate, self.done, self.stopping = cloud, rate, 0, threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        begin = time.monotonic()
        while not self.stopping.wait(0.2):
            due = int((time.monotonic() - begin) * self.rate) - self.done
            self.cloud.go_on(due)
            self.done += due

    def stop(self):
        self.stopping.set()
        self.thread.join()


def compare(cloud, theirs, ours, numbers):
    for number in numbers:
        metric = cloud.ids[number]
        path = f"/v1/metric/{metric}/measures?refresh=true"
        assert ours.get(path).expect(200).json() == theirs.get(path).expect(200).json(), f"{metric} differs"


def measure(arguments, directory):
    postgres, store = Postgres(directory / "postgres").start(), Redis(directory / "redis", appendfsync=None).start()
    sections = f"[incoming]\ndriver = redis\nredis_url = {store.url}\n[storage]\ndriver = redis\nredis_url = {store.url}\n"
    theirs, followed = Gnocchi(directory / "gnocchi", postgres, stores=sections), None
    try:
        theirs.start()
        database = next(line for line in (directory / "gnocchi/gnocchi.conf").read_text().splitlines() if line.startswith("url = "))[6:]
        began = time.monotonic()
        cloud = Cloud(arguments, theirs, database, redis.Redis.from_url(store.url))
        cloud.fill()
        print(f"{arguments.metrics} metrics in Gnocchi after {time.monotonic() - began:.0f} s", flush=True)
        began = time.monotonic()
        followed = Followed(theirs, directory / "data", FIRST_ROUND_S)
        print(f"the first round took {time.monotonic() - began:.0f} s", flush=True)
        load = Load(cloud, arguments.rate)
        try:
            time.sleep(arguments.seconds)
            waiting = cloud.leave_waiting(arguments.waiting)
        finally:
            load.stop()
        print(f"{load.done} metrics had another point in {arguments.seconds:.0f} s, {arguments.waiting} have measures that wait", flush=True)
        began = time.monotonic()
        followed.process.send_signal(signal.SIGINT)
        status = followed.process.wait(FIRST_ROUND_S)
        print(f"{followed.told()}\nThe end came {time.monotonic() - began:.1f} s after the interrupt.", flush=True)
        assert status == 0
        with program.Gnudi(directory / "gnudi", data_dir=directory / "data", arguments=["--skip-archive-policies-creation"]) as ours:
            sample = cloud.rng.sample(range(len(cloud.ids)), min(arguments.sample, len(cloud.ids)))
            compare(cloud, cloud.client, ours.client(), sample + waiting[:arguments.sample])
        print(f"{arguments.sample} metrics compared, and as many that waited: the same", flush=True)
    finally:
        if followed is not None:
            followed.stop()
        theirs.stop()
        store.stop()
        postgres.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metrics", type=int, default=1_000_000)
    parser.add_argument("--history", type=int, default=100, help="points of each metric before the import (%(default)s)")
    parser.add_argument("--rate", type=int, default=3_333, help="metrics a second that get a point (%(default)s)")
    parser.add_argument("--seconds", type=float, default=120, help="how long they do (%(default)s)")
    parser.add_argument("--waiting", type=int, default=10_000, help="metrics with measures that wait at the end (%(default)s)")
    parser.add_argument("--sample", type=int, default=500, help="metrics that are compared at the end (%(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", type=pathlib.Path, help="for all files; removed only if it is not given")
    arguments = parser.parse_args()
    if arguments.directory is not None:
        measure(arguments, arguments.directory)
        return
    with tempfile.TemporaryDirectory() as directory:
        pathlib.Path(directory).chmod(0o755)
        measure(arguments, pathlib.Path(directory))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Compares gnudi-series with Gnocchi, bit by bit, on random request sequences.

Needs the Python packages gnocchi==4.7.1 and numpy, and the example of the series crate:

    cargo build -p gnudi-series --example fold
    python tests/oracle/fold.py [--cases 1000] [--seed 1] [--program target/debug/examples/fold]

Every request is one pass of Gnocchi's storage code over a store in memory; after every request some queries are compared. Known
differences (explained in the series crate) are not generated, or left out where marked DIFFERS below.
"""

import argparse
import collections
import random
import struct
import subprocess
import sys

import numpy

from gnocchi import archive_policy
from gnocchi import carbonara
from gnocchi import storage
from gnocchi import utils

SECOND = 10**9
PLAIN = ["mean", "sum", "last", "max", "min", "std", "median", "first", "count"]
PERCENTILES = ["1pct", "5pct", "33pct", "50pct", "90pct", "99pct"]
CALENDAR = "YHQMW"


class Memory(storage.StorageDriver):
    """Gnocchi's storage with dictionaries in the place of files."""

    WRITE_FULL = True
    MAP_METHOD = staticmethod(lambda call, items: [call(*item) for item in items])

    def __init__(self):
        self.statistics = storage.Statistics()
        self.raw = {}
        self.splits = {}

    def _get_or_create_unaggregated_timeseries_unbatched(self, metric, version=3):
        return self.raw.get(metric)

    def _store_unaggregated_timeseries_unbatched(self, metric, data, version=3):
        self.raw[metric] = data

    @staticmethod
    def _name(key, aggregation):
        return (int(key.key.astype("datetime64[ns]").astype(int)), aggregation.method,
                int(key.sampling.astype("timedelta64[ns]").astype(int)))

    def _list_split_keys_unbatched(self, metric, aggregations, version=3):
        keys = collections.defaultdict(set)
        for aggregation in aggregations:
            step = int(aggregation.granularity.astype("timedelta64[ns]").astype(int))
            for (start, method, sampling) in self.splits:
                if method == aggregation.method and sampling == step:
                    keys[aggregation].add(carbonara.SplitKey(
                        numpy.datetime64(start, "ns"), sampling=aggregation.granularity))
        return keys

    def _get_splits_unbatched(self, metric, key, aggregation, version=3):
        return self.splits.get(self._name(key, aggregation))

    def _store_metric_splits_unbatched(self, metric, key, aggregation, data, offset, version=3):
        self.splits[self._name(key, aggregation)] = data

    def _delete_metric_splits_unbatched(self, metric, key, aggregation, version=3):
        del self.splits[self._name(key, aggregation)]


class Policy(archive_policy.ArchivePolicy):
    """A policy whose methods have an order.

    DIFFERS: Gnocchi deletes old splits by the last bucket of whichever method its set of methods gives last; gnudi
    by the last bucket. Statistics that every bucket has are put last, so that both are the same.
    """

    @property
    def aggregation_methods(self):
        return sorted(self._aggregation_methods, key=lambda name: (not lacks(name), name))

    @aggregation_methods.setter
    def aggregation_methods(self, value):
        self._aggregation_methods = value


def lacks(method):
    """Whether a bucket may lack a value of the method."""
    return method == "std" or method.startswith("rate:")


class Metric:
    """What Gnocchi's storage looks at of a metric."""

    def __init__(self, policy):
        self.id = "metric"
        self.archive_policy = policy


class Gnocchi:
    """One metric in Gnocchi."""

    def __init__(self):
        self.storage = Memory()
        self.metric = Metric(None)

    def set_policy(self, policy):
        items = []
        for granularity, timespan in policy["definition"]:
            item = archive_policy.ArchivePolicyItem(
                granularity=numpy.timedelta64(granularity, "ns"),
                timespan=None if timespan is None else numpy.timedelta64(timespan, "ns"))
            items.append(item)
        self.metric.archive_policy = Policy(
            "p", policy["back_window"], items, policy["methods"])

    def fold(self, request):
        measures = carbonara.make_timeseries(
            numpy.array([time for time, _ in request], dtype="datetime64[ns]"),
            numpy.array([value for _, value in request], dtype=float))
        measures = numpy.sort(measures, order="timestamps")
        raw = self.storage.get_raw_measures({self.metric: measures})
        boundts, to_delete, to_update = [], {}, {}
        self.storage.execute_data_processing(
            measures, self.metric, boundts, raw, to_delete, to_update)
        self.storage.store_data_backend(boundts, to_delete, to_update)

    def read(self, method, granularity, start, stop, resample):
        time = lambda value: None if value is None else numpy.datetime64(value, "ns")
        aggregation = self.metric.archive_policy.get_aggregation(
            method, numpy.timedelta64(granularity, "ns"))
        if isinstance(resample, int):
            resample = numpy.timedelta64(resample, "ns")
        series = self.storage.get_aggregated_measures(
            {self.metric: [aggregation]}, time(start), time(stop), resample)[self.metric][aggregation]
        return list(zip(series.timestamps.astype("datetime64[ns]").astype(int).tolist(),
                        series.values.tolist()))


def bits(value):
    return "%016x" % struct.unpack("<Q", struct.pack("<d", value))[0]


def line_of(policy):
    dash = lambda value: "-" if value is None else str(value)
    definition = ",".join("%d:%s" % (granularity, dash(timespan))
                          for granularity, timespan in policy["definition"])
    return "policy %d %s %s" % (policy["back_window"], ",".join(policy["methods"]), definition)


class Case:
    """A random policy with requests and queries, a pure function of its seed."""

    def __init__(self, seed):
        self.seed = seed
        self.random = random.Random(seed)
        self.policy = self.make_policy()
        # Of all policies so far.
        self.timespans = set(self.policy["definition"])
        self.zero = self.random.choice([0.0, -0.0])
        self.kind = self.random.choice(["whole", "float", "odd", "constant", "huge"])
        coarsest = self.policy["definition"][-1][0]
        finest = self.policy["definition"][0][0]
        if finest < SECOND // 10:
            # Gnocchi rounds times in floating point: only small ones are exact at such granularities.
            base = 10**15
        else:
            base = self.random.choice([10**17, 1356998400 * SECOND, 1700000000 * SECOND])
        self.now = base - base % coarsest + self.random.randrange(coarsest)
        self.tick = min(max(finest // 7, 1000), SECOND)

    def make_policy(self):
        r = self.random
        methods = set(r.sample(PLAIN, r.randint(1, 5)))
        if r.random() < 0.4:
            methods |= set(r.sample(PERCENTILES, r.randint(1, 3)))
        if r.random() < 0.5:
            methods |= {"rate:" + name for name in r.sample(PLAIN, r.randint(1, 4))}
            if r.random() < 0.4:
                methods |= {"rate:" + name for name in r.sample(PERCENTILES, 2)}
        granularity = r.choice([10**6, SECOND // 10, SECOND // 2, SECOND, 5 * SECOND, 60 * SECOND, 300 * SECOND])
        definition = []
        for _ in range(r.randint(1, 3)):
            timespan = r.choice([None, None, granularity * r.randint(1, 20), granularity * r.randint(100, 9000)])
            if timespan is not None and timespan > 10**17:
                timespan = None
            definition.append((granularity, timespan))
            granularity *= r.choice([2, 3, 5, 12, 60])
        return {"back_window": r.choice([0, 0, 1, 2, 3]), "methods": sorted(methods), "definition": definition}

    def change_policy(self):
        # DIFFERS: with a back window that grew Gnocchi overwrites final buckets with what the late points give; with a
        # timespan that grew it computes buckets again that had been passed, as far as the raw points go.
        r = self.random
        definition = []
        for granularity, timespan in self.policy["definition"]:
            if timespan is not None and r.random() < 0.5:
                timespan = granularity * r.randint(1, timespan // granularity)
            definition.append((granularity, timespan))
        back_window = r.randint(0, self.policy["back_window"])
        self.policy = dict(self.policy, definition=definition, back_window=back_window)
        self.timespans |= set(definition)

    def value(self):
        r = self.random
        if self.kind == "whole":
            return float(r.randint(-5, 50)) or self.zero
        if self.kind == "constant":
            return 0.1
        if self.kind == "huge":
            return r.choice([1.7e308, -1.7e308, 5e-324, 1.0, r.uniform(-1e300, 1e300)])
        if self.kind == "odd" and r.random() < 0.3:
            return r.choice([float("nan"), float("inf"), float("-inf"), self.zero, 1e17, 0.1])
        return r.uniform(-100, 100)

    def request(self):
        r = self.random
        finest, coarsest = self.policy["definition"][0][0], self.policy["definition"][-1][0]
        step = r.choice([finest // 10, finest // 3, finest, finest * 3, coarsest // 4, coarsest, coarsest * 3])
        step = max(step, 1000)
        if r.random() < 0.08:
            step = finest * r.choice([500, 3000, 5000])
        count = r.choice([1, 1, 2, 3, 10, 40])
        start = self.now
        if r.random() < 0.3:
            start -= r.randrange(4 * coarsest + 1)
        points, time = [], start
        for _ in range(count):
            back = r.randrange(2 * step) if r.random() < 0.15 else 0
            moment = max(time - back, 0)
            if r.random() < 0.7:
                moment -= moment % self.tick
            # Gnocchi rounds in floating point: a few nanoseconds before a bucket are in it.
            moment -= moment % 1000
            points.append((moment, self.value()))
            if r.random() < 0.1:
                points.append((moment, self.value()))
            time += r.choice([step, step, r.randrange(step) + 1])
        self.now = max(self.now, max(time for time, _ in points)) + r.choice([0, 0, 1, r.randrange(step)])
        if r.random() < 0.3:
            r.shuffle(points)
        return points

    def query(self):
        r = self.random
        method = r.choice(self.policy["methods"])
        granularity, timespan = r.choice(self.policy["definition"])
        span = granularity * r.choice([3, 100, 4000, 8000])
        near = lambda: max(1, self.now - r.randrange(span))
        start = near() if r.random() < 0.4 else None
        stop = near() if r.random() < 0.4 else None
        resample = None
        if r.random() < 0.25:
            resample = granularity * r.choice([1, 2, 3, 7, 60])
            # DIFFERS: Gnocchi fails on a start with a calendar period.
            if r.random() < 0.4 and start is None:
                resample = r.choice(CALENDAR)
        return method, granularity, start, stop, resample

    def differs(self, query, times):
        """Whether the answer may differ.

        DIFFERS: gnudi counts a timespan from the last bucket. Gnocchi counts it, when it writes, from the last
        bucket that has a value of the method, so that buckets of std and rates, which may lack one, live longer.
        """
        method, granularity = query[0], query[1]
        timespans = [timespan for step, timespan in self.timespans if step == granularity]
        if all(lacks(name) for name in self.policy["methods"]):
            lacking = True
        else:
            lacking = lacks(method)
        return lacking and any(timespan is not None and timespan < max(times) - min(times) + granularity for timespan in timespans)

    def events(self):
        """Yields what happens."""
        yield "policy", self.policy
        for _ in range(self.random.randint(1, 14)):
            if self.random.random() < 0.1:
                self.change_policy()
                yield "policy", self.policy
            yield "fold", self.request()
            if self.random.random() < 0.5:
                yield "pass", None
            for _ in range(self.random.choice([0, 1, 4])):
                yield "read", self.query()
        for method in self.policy["methods"]:
            for granularity, _ in self.policy["definition"]:
                yield "read", (method, granularity, None, None, None)
        for _ in range(10):
            yield "read", self.query()


def lines_of(events):
    dash = lambda value: "-" if value is None else str(value)
    for event, what in events:
        if event == "policy":
            yield line_of(what)
        elif event == "fold":
            yield "fold " + " ".join("%d:%s" % (time, bits(value)) for time, value in what)
        elif event == "pass":
            yield "pass"
        else:
            yield "read " + " ".join(map(dash, what))


def text_of(series, method):
    def value_text(value):
        if value != value:
            return "nan"
        # numpy's sort is not stable, so which of 0.0 and -0.0 is the minimum is left open.
        if value == 0 and method.split(":")[-1] in ("min", "max"):
            value = 0.0
        return bits(value)
    return " ".join("%d:%s" % (time, value_text(value)) for time, value in series)


def expected(events):
    """Gnocchi's answers to the queries."""
    gnocchi = Gnocchi()
    for event, what in events:
        if event == "policy":
            gnocchi.set_policy(what)
        elif event == "fold":
            gnocchi.fold(what)
        elif event == "read":
            method, granularity, start, stop, resample = what
            try:
                yield text_of(gnocchi.read(*what), method)
            except TypeError as error:
                yield "error %s" % error


def parse(line):
    if line.startswith("error"):
        return line
    pairs = (word.split(":") for word in line.split())
    return [(int(time), struct.unpack("<d", struct.pack("<Q", int(value, 16)))[0]) for time, value in pairs]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--program", default="target/debug/examples/fold")
    parser.add_argument("--show", action="store_true", help="print the lines of the first case that differs")
    arguments = parser.parse_args()
    numpy.seterr(all="ignore")
    failed = compared = 0
    program = subprocess.Popen([arguments.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for seed in range(arguments.seed, arguments.seed + arguments.cases):
        case = Case(seed)
        events = list(case.events())
        times = [time for event, what in events if event == "fold" for time, _ in what]
        reads = [what for event, what in events if event == "read"]
        answers = list(expected(events))
        lines = list(lines_of(events))
        program.stdin.write("new\n" + "\n".join(lines) + "\n")
        # Closing is not needed to get the answers: a flush for each case is asked for by its name.
        program.stdin.write("flush\n")
        program.stdin.flush()
        for query, answer in zip(reads, answers):
            series = parse(program.stdout.readline().rstrip("\n"))
            got = series if isinstance(series, str) else text_of(series, query[0])
            if case.differs(query, times):
                continue
            compared += 1
            if got != answer:
                failed += 1
                ours, theirs = got.split(" "), answer.split(" ")
                print("case %d: %s\n  only gnocchi %s\n  only gnudi   %s" % (
                    seed, query, [row for row in theirs if row not in ours][:5],
                    [row for row in ours if row not in theirs][:5]))
                if arguments.show:
                    print("\n".join(lines))
                    sys.exit(1)
    program.stdin.close()
    program.wait()
    print("%d answers compared, %d differ" % (compared, failed))
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()

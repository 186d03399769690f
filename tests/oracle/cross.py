#!/usr/bin/env python3
"""Compares the operations of gnudi-series across metrics with Gnocchi's, bit by bit, on random series and trees.

Needs the Python packages gnocchi==4.7.1 and numpy, and the example of the series crate:

    cargo build -p gnudi-series --example cross
    python tests/oracle/cross.py [--cases 1000] [--seed 1] [--program target/debug/examples/cross]

Where Gnocchi answers 500, gnudi must return any error. Known differences are marked DIFFERS below.
"""

import argparse
import ctypes
import ctypes.util
import math
import random
import struct
import subprocess
import sys
import warnings

import numpy

from gnocchi import carbonara
from gnocchi.rest.aggregates import exceptions
from gnocchi.rest.aggregates import operations
from gnocchi.rest.aggregates import processor

SECOND = 10**9
METHODS = ["mean", "median", "std", "min", "max", "sum", "var", "count"]
# There is no resampling by var, in Gnocchi as here: it answers 500, here no tree can say it.
RESAMPLED = [method for method in METHODS if method != "var"] + ["last", "first", "33pct", "90pct"]
BINARY = list(operations.binary_operators)
UNARY = list(operations.unary_operators) + list(operations.unary_operators_with_timestamps)
FILLS = [None, None, None, None, "null", "dropna", "ffill", "bfill", "full_ffill", "full_bfill", 0.0, -1.5, math.nan]

LIBM = ctypes.CDLL(ctypes.util.find_library("m"))


def libm(name, arguments):
    function = getattr(LIBM, name)
    function.restype = ctypes.c_double
    function.argtypes = [ctypes.c_double] * arguments
    vectorized = numpy.vectorize(lambda *values: function(*values), otypes=[float])
    # A number and no array of none.
    return lambda *values: vectorized(*values)[()]


class HalfPrecision(Exception):
    """DIFFERS: numpy computes trigonometry of truth values in half precision, which Gnocchi cannot print."""


def trigonometry(name):
    ours, theirs = libm(name, 1), operations.unary_operators[name]

    def of(values):
        if theirs(values).dtype != numpy.float64:
            raise HalfPrecision()
        # DIFFERS: the last digit depends on the processor; gnudi has the C library's.
        return ours(values) if numpy.size(values) else theirs(values)
    return of


def power(values, exponents):
    result = numpy.power(values, exponents)
    # DIFFERS: as above. Whole numbers are exact.
    return libm("pow", 2)(values, exponents) if result.dtype == numpy.float64 and result.size else result


for name in ("cos", "sin", "tan"):
    operations.unary_operators[name] = trigonometry(name)
for name in ("**", "^", "pow"):
    operations.binary_operators[name] = power


class Reference:
    def __init__(self, number, key):
        self.name, self.resource, self.aggregation, self.lookup_key = str(number), None, key[1], key


class Case:
    """Random series on one granularity, and a tree of operations over them."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        chance = self.random.random
        self.granularity = self.random.choice([1, 10, 60, 300, 3600]) * SECOND
        self.fill = self.random.choice(FILLS)
        self.overlap = self.random.choice([100.0, 100.0, 50.0, 33.3, 0.0, 0.0])
        # A few wide cases, on which sums of 8, 128 and 600 values show their order.
        self.width = self.random.choice([1, 2, 2, 3, 4, 7, 12] + [self.random.randrange(100, 900)] * (chance() < 0.1))
        self.length = self.random.choice([0, 1, 1, 2, 3, 5, 8, 20, 40, 60, 60])
        if chance() < 0.05:
            self.width, self.length = min(self.width, 3), self.random.randrange(300, 2000)
        first = self.random.randrange(10**5, 10**6) * 3600 * SECOND
        grid = [first + row * self.granularity for row in range(self.length)]
        if chance() < 0.2:
            grid = [time for time in grid if chance() < 0.7]
        self.values = self.random.choice([self.noisy, self.noisy, self.whole, self.odd])
        aligned = chance() < 0.5
        keys = self.random.choice([self.width, max(1, self.width // 2)])
        self.series = []
        for number in range(self.width):
            keep = 1.0 if aligned else self.random.choice([1.0, 1.0, 0.95, 0.5])
            times = [time for time in grid if chance() < keep]
            if not aligned and chance() < 0.3:
                cut = self.random.randrange(len(times) + 1)
                times = times[cut:] if chance() < 0.5 else times[:cut]
            key = ["m%d" % (number % keys), self.random.choice(["mean", "mean", "max"])]
            self.series.append((key, [(time, self.values()) for time in times]))
        ends = [first + self.random.randrange(-2, self.length + 3) * self.granularity + self.random.choice([0, SECOND // 2])
                for _ in range(2)]
        self.start = min(ends) if chance() < 0.2 else None
        self.stop = max(ends) if chance() < 0.2 else None
        self.operation = self.root()

    def noisy(self):
        return self.random.gauss(0, 1) * 10 ** self.random.randrange(-3, 6)

    def whole(self):
        return float(self.random.randrange(-5, 6))

    def odd(self):
        return self.random.choice([math.nan, math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, 1.7e308, -1.7e308, 5e-324, 3.5])

    def root(self):
        while True:
            tree = self.tree(self.random.choice([0, 1, 1, 2, 2, 3, 4]))
            if isinstance(tree, list):
                return tree

    def metric(self):
        keys = [key for key, _ in self.series]
        if self.random.random() < 0.03:
            keys = keys + [["absent", "mean"]]
        if self.random.random() < 0.1:
            return ["metric"] + list(self.random.choice(keys))
        if self.random.random() < 0.9:
            return ["metric"] + [list(key) for key in keys]
        return ["metric"] + [list(self.random.choice(keys)) for _ in range(self.random.randrange(1, len(keys) + 1))]

    def tree(self, depth, constants=0.4):
        chance = self.random.random()
        if depth == 0:
            if chance < constants:
                return self.random.choice([0.0, 1.0, -1.0, 2.0, 0.5, 3.0, -2.5, 1e3, math.inf, math.nan, -0.0, self.noisy()])
            return self.metric()
        rate = "rate:" if self.random.random() < 0.2 else ""
        if chance < 0.25:
            return ["aggregate", rate + self.random.choice(METHODS), self.tree(depth - 1, 0.02)]
        if chance < 0.4:
            window = self.random.choice([1, 2, 3, 3, 5, self.random.choice([9, 17]), self.random.randrange(1, max(2, self.length))])
            return ["rolling", rate + self.random.choice(METHODS), window, self.tree(depth - 1, 0.02)]
        if chance < 0.55:
            to = self.random.choice([60, 300, 90, 7, 3600, 86400, "M", "W", "Y"])
            to = to if isinstance(to, str) else numpy.timedelta64(to * SECOND, "ns")
            return ["resample", rate + self.random.choice(RESAMPLED), to, self.tree(depth - 1, 0.02)]
        if chance < 0.65:
            return ["clip"] + [self.tree(self.random.randrange(depth)) for _ in range(self.random.choice([2, 3]))]
        if chance < 0.8:
            return [self.random.choice(UNARY), self.tree(depth - 1, 0.1)]
        return [self.random.choice(BINARY), self.tree(depth - 1), self.tree(self.random.randrange(depth))]

    def cut(self, series):
        start = None if self.start is None else self.start // self.granularity * self.granularity
        return [(time, value) for time, value in series
                if (start is None or time >= start) and (self.stop is None or time < self.stop)]

    def lines(self):
        dash = lambda value: "-" if value is None else str(value)
        fill = self.fill if isinstance(self.fill, str) or self.fill is None else bits(self.fill)
        yield "query %s %s %s %s" % (dash(self.start), dash(self.stop), bits(self.overlap), dash(fill))
        for key, series in self.series:
            points = " ".join("%d:%s" % (time, bits(value)) for time, value in self.cut(series))
            yield "series %s %s %s" % (*key, points)
        yield "evaluate %d %s" % (self.granularity, words(self.operation))

    def expected(self):
        """Gnocchi's answer; `None` where it would be 500."""
        step = numpy.timedelta64(self.granularity, "ns")
        pairs = []
        for number, (key, series) in enumerate(self.series):
            times = numpy.array([time for time, _ in series], dtype="datetime64[ns]")
            aggregation = carbonara.Aggregation(key[1], step, None)
            values = numpy.array([value for _, value in series], dtype=float)
            pairs.append((Reference(number, key), carbonara.AggregatedTimeSerie.from_data(aggregation, times, values)))
        time = lambda value: None if value is None else numpy.datetime64(value, "ns")
        try:
            result = processor.aggregated(
                pairs, self.operation, time(self.start), time(self.stop), self.overlap, self.fill)
        except exceptions.UnAggregableTimeseries as error:
            return "unaggregable %s" % error.reason
        except HalfPrecision:
            raise
        except Exception:
            return None
        if "aggregated" in result:
            return "aggregated", [points_of(result["aggregated"])]
        each = [result[str(number)] for number in range(self.width)]
        return "each", [points_of(list(methods.values())[0] if methods else []) for methods in each]

    def on_calendar(self):
        """DIFFERS: a calendar with more than two periods is an error in Gnocchi."""
        return any(" %s " % letter in " ".join(self.lines()) for letter in "MWY")

    def zeros_differ(self):
        """The sign of a zero that is the extreme of many depends on the processor."""
        text = words(self.operation)
        return any(method in text for method in ("min", "max", "aggregate", "rolling"))


def bits(value):
    return "%x" % struct.unpack("<Q", struct.pack("<d", value))


def words(tree):
    if not isinstance(tree, list):
        return "constant " + bits(tree)
    head, rest = tree[0], tree[1:]
    if head == "metric":
        if isinstance(rest[0], list):
            return "metric %d %s" % (len(rest), " ".join(" ".join(key) for key in rest))
        return "one " + " ".join(rest)
    if head == "aggregate":
        return "aggregate %s %s" % (rest[0], words(rest[1]))
    if head == "rolling":
        return "rolling %s %d %s" % (rest[0], rest[1], words(rest[2]))
    if head == "resample":
        to = rest[1] if isinstance(rest[1], str) else int(rest[1].astype(int))
        return "resample %s %s %s" % (rest[0], to, words(rest[2]))
    if head == "clip":
        head = "clip%d" % len(rest)
    return " ".join([head] + [words(operand) for operand in rest])


def points_of(measures):
    return [(int(time.astype("datetime64[ns]").astype(int)), float(value)) for time, _, value in measures]


def unbits(text):
    return struct.unpack("<d", struct.pack("<Q", int(text, 16)))[0]


def text_of(answer, any_zero):
    """What is compared: NaN are all the same."""
    if isinstance(answer, str):
        return answer
    kind, columns = answer
    text = lambda value: "nan" if value != value else "0" if any_zero and value == 0 else bits(value)
    return kind, [[(time, text(value)) for time, value in column] for column in columns]


class Program:
    """The example, which answers line by line."""

    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def answer(self, case):
        self.process.stdin.write("\n".join(case.lines()) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline().rstrip("\n")
        if not line:
            raise RuntimeError("the program ended")
        if line.startswith(("error", "unaggregable")):
            return line
        columns = line.split(" |")
        return columns[0], [[(int(time), unbits(value)) for time, value in (word.split(":") for word in column.split())]
                            for column in columns[1:]]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def difference(case, program):
    """`None` where both agree, `False` where they are known not to."""
    ours = program.answer(case)
    try:
        theirs = case.expected()
    except HalfPrecision:
        return False
    if theirs is None:
        refused = isinstance(ours, str)
        if refused or case.on_calendar():
            return None if refused else False
        return "gnocchi fails, gnudi: %s" % (ours,)
    any_zero = case.zeros_differ()
    ours, theirs = text_of(ours, any_zero), text_of(theirs, any_zero)
    return None if ours == theirs else "gnocchi: %s\ngnudi:   %s" % (theirs, ours)


def compare(program, seeds):
    """Compares many cases; yields the text of each difference, or `None`."""
    numpy.seterr(all="ignore")
    warnings.simplefilter("ignore")
    program = Program(program)
    try:
        for seed in seeds:
            case = Case(seed)
            different = difference(case, program)
            if different:
                yield "case %d: %s\n%s\n" % (seed, case.operation, different) + "\n".join(case.lines())
            else:
                yield different
    finally:
        program.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--program", default="target/debug/examples/cross")
    arguments = parser.parse_args()
    results = list(compare(arguments.program, range(arguments.seed, arguments.seed + arguments.cases)))
    failures = [text for text in results if text]
    for text in failures[:3]:
        print(text[:3000])
    print("%d cases, %d left out, %d differ" % (len(results), results.count(False), len(failures)))
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()

"""Random series: counters that begin again, gauges with gaps and ends, classic histograms. And random queries on them."""

import struct

from inputs.remote_write import label, sample, series, snappy

START = 1_750_000_000
MINUTES = 150
STALE = struct.unpack("<d", (0x7FF0000000000002).to_bytes(8, "little"))[0]
BOUNDS = ["0.1", "0.5", "1", "5", "+Inf"]


def series_of(numbers):
    """[(labels, [(time in ms, value)])]. No time is a whole second, and queries are at half seconds, so that it does not matter on which side
    windows are open."""
    found = []

    def times(interval_s):
        shift = numbers.randrange(1, 400)
        time = START + numbers.randrange(interval_s)
        while time < START + MINUTES * 60:
            yield time * 1000 + shift
            time += interval_s
    for job in ["api", "web"]:
        for instance in ["a:1", "b:2"]:
            common = {"job": job, "instance": instance}
            for code in ["200", "404", "500"]:
                total, samples = 1000.0, []
                for time in times(numbers.choice([15, 30, 60])):
                    total = 0.0 if numbers.random() < 0.02 else total + numbers.choice([0, 0, 1, 2.5, 10])
                    samples.append((time, total))
                found.append(({"__name__": "requests_total", "code": code, **common}, samples))
            for zone in ["north", "süd"]:
                samples, is_gone = [], False
                for time in times(numbers.choice([15, 60])):
                    if numbers.random() < 0.03:
                        is_gone = not is_gone
                        if is_gone and numbers.random() < 0.7:
                            samples.append((time, STALE))
                        continue
                    if not is_gone:
                        samples.append((time, numbers.choice([numbers.uniform(-40, 40), numbers.randrange(-5, 30)])))
                found.append(({"__name__": "temperature", "zone": zone, **common}, samples))
            counts = {bound: 1000 for bound in BOUNDS}
            buckets = {bound: [] for bound in BOUNDS}
            for time in times(30):
                for _ in range(numbers.randrange(5)):
                    value = numbers.expovariate(1)
                    for bound in BOUNDS:
                        counts[bound] += value <= float(bound)
                for bound in BOUNDS:
                    buckets[bound].append((time, float(counts[bound])))
            found += [({"__name__": "latency_bucket", "le": bound, **common}, samples) for bound, samples in buckets.items()]
    return found


def messages(found, minutes=30):
    """The series as remote writes, each of so many minutes, the oldest first."""
    for start in range(START, START + MINUTES * 60, minutes * 60):
        parts = []
        for labels, samples in found:
            inside = [sample(value, time) for time, value in samples if start * 1000 <= time < (start + minutes * 60) * 1000]
            if inside:
                parts.append(series(*(label(name, labels[name]) for name in sorted(labels)), *inside))
        yield snappy(b"".join(parts))


class Queries:
    """Makes queries that mean the same in Prometheus 2.42 and 3."""

    def __init__(self, numbers):
        self.numbers = numbers

    def any(self, items):
        return self.numbers.choice(items)

    def duration(self):
        return self.any(["1m", "2m30s", "5m", "7m", "15m", "1h"])

    def shift(self):
        at = START + self.numbers.randrange(MINUTES * 60) + 0.5
        return self.any([""] * 6 + [" offset 3m", " offset -90s", f" @ {at}", " @ end()", " @ start() offset 1m"])

    def matchers(self, name):
        choices = ['job="api"', 'job!="web"', 'instance=~"a.*"', 'instance!~"b:[0-9]"', 'missing=""', 'missing="x"', 'job=~"api|web"',
                   'job=~".+"']
        if name == "requests_total":
            choices += ['code=~"4..|5.."', 'code="200"']
        if name == "temperature":
            choices += ['zone="süd"', 'zone=~"(nor|s).*"']
        picked = self.numbers.sample(choices, self.any([0, 0, 1, 2]))
        return "{" + ", ".join(picked) + "}" if picked else ""

    def selector(self):
        name = self.any(["requests_total", "temperature", "latency_bucket"])
        return name + self.matchers(name)

    def range(self, depth):
        if depth > 0 and self.numbers.random() < 0.25:
            return f"({self.vector(depth - 1)})[{self.any(['5m', '20m', '1h'])}:{self.any(['', '1m', '97s'])}]{self.shift()}"
        return f"{self.selector()}[{self.duration()}]{self.shift()}"

    def grouping(self):
        labels = ", ".join(self.numbers.sample(["job", "instance", "code", "zone", "le", "missing"], self.numbers.randrange(3)))
        return self.any(["", f" by ({labels})", f" without ({labels})"])

    def scalar(self, depth):
        return self.any(["1", "0.5", "-2", "3e2", "time()", "pi()", f"scalar({self.vector(depth - 1)})" if depth > 0 else "7"])

    def vector(self, depth):
        if depth <= 0:
            return self.selector() + self.shift()
        kind = self.numbers.randrange(10)
        if kind == 0:
            # How far a rate is continued to where a series begins has changed since: counters without gaps alone are the same.
            name = self.any(["requests_total", "latency_bucket"])
            return f"{self.any(['rate', 'increase'])}({name}{self.matchers(name)}[{self.duration()}]{self.shift()})"
        if kind < 3:
            function = self.any(["irate", "delta", "idelta", "deriv", "changes", "resets", "avg_over_time", "sum_over_time",
                                 "min_over_time", "max_over_time", "count_over_time", "last_over_time", "stddev_over_time",
                                 "present_over_time", "absent_over_time"])
            return f"{function}({self.range(depth)})"
        if kind == 3:
            return self.any([f"quantile_over_time({self.any(['0.5', '0.9', '0'])}, {self.range(depth)})",
                             f"predict_linear({self.selector()}[{self.duration()}], 600)"])
        if kind < 6:
            operator = self.any(["sum", "avg", "min", "max", "count", "group", "stddev", "stdvar"])
            return f"{operator}{self.grouping()} ({self.vector(depth - 1)})"
        if kind == 6:
            return self.any([f"quantile{self.grouping()} (0.7, {self.vector(depth - 1)})",
                             f"histogram_quantile(0.9, sum by (le, job) (rate(latency_bucket[{self.any(['5m', '15m'])}])))",
                             f"histogram_quantile(0.5, latency_bucket{self.matchers('latency_bucket')})",
                             f"count_values(\"v\", {self.selector()} > bool 5)"])
        if kind == 7:
            function = self.any(["abs", "ceil", "floor", "sgn", "sqrt", "ln", "hour", "day_of_week", "absent", "timestamp"])
            return f"{function}({self.vector(depth - 1)})"
        if kind == 8:
            return self.any([f"label_replace({self.vector(depth - 1)}, \"host\", \"$1\", \"instance\", \"(.*):.*\")",
                             f"clamp({self.vector(depth - 1)}, 0, 20)", f"round({self.vector(depth - 1)}, 0.5)",
                             f"label_join({self.vector(depth - 1)}, \"both\", \"-\", \"job\", \"instance\")"])
        operator = self.any(["+", "-", "*", "/", "%", ">", "<=", "== bool", "!="])
        if self.numbers.random() < 0.5:
            return f"{self.vector(depth - 1)} {operator} {self.scalar(depth)}"
        matching = self.any(["", "", " on (job, instance)", " ignoring (code, zone)", " on (job) group_left"])
        if operator in (">", "<=", "!="):
            # Whether pairs that are filtered out may be many has changed since.
            matching = ""
        return f"({self.vector(depth - 1)}) {self.any([operator + matching, 'and', 'or', 'unless'])} ({self.vector(depth - 1)})"

    def query(self):
        return self.vector(self.any([0, 1, 1, 2, 2, 3]))

"""Random series: counters with resets, gauges with gaps and ends, classic histograms."""

import math
import struct

from inputs.remote_write import label, sample, series, snappy

START = 1_750_000_000
MINUTES = 150
STALE = struct.unpack("<d", (0x7FF0000000000002).to_bytes(8, "little"))[0]
# No subnormal numbers, of which Go's `ln` is wrong.
ODD = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1e308, -1e308, 1e-300, 1.0, -1.0, 2.5]
BOUNDS = ["0.1", "0.5", "1", "5", "+Inf"]


def is_stale(value):
    return struct.pack("<d", value) == struct.pack("<d", STALE)


def series_of(numbers, aligned=False):
    """[(labels, [(time in ms, value)])]. Unless they are `aligned`, no time is a whole second, and queries are at half seconds, so that it does not
    matter on which side windows are open."""
    found = []

    def times(interval_s):
        shift = 500 if aligned and numbers.random() < 0.5 else numbers.randrange(1, 400)
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
            if aligned:
                found.append(({"__name__": "pressure", **common}, [(time, numbers.uniform(900, 1100)) for time in times(30)]))
                found.append(({"__name__": "odd", **common}, [(time, numbers.choice(ODD)) for time in times(60)]))
                for version in ["1", "2"]:
                    samples = [(time, 1.0) for time in times(60) if numbers.random() < 0.7]
                    found.append(({"__name__": "target_info", "version": version, **common}, samples))
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

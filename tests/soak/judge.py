"""Decides whether a quantity is flat, by the trend of its floor: a sawtooth is flat, a staircase is not.

The time after the warm-up is cut into equal parts; a part's floor is the value below which a fifth of its samples are. The trend
is the median of the slopes between all pairs of floors (Theil and Sen), so that single peaks do not change it.
"""

import dataclasses
import itertools
import statistics

MIB = 1 << 20
PARTS = 12
FLOOR_SHARE = 0.2
# Of a life: caches fill, threads begin, the allocator finds its size.
WARM_UP_SHARE = 1 / 3
# A life whose time after the warm-up is shorter is judged with the others of its kind only.
JUDGED_S_MIN = 90
# Lives that are compared with each other; of fewer there is no trend.
LIVES_MIN = 4
SAMPLES_MIN = 2 * PARTS


@dataclasses.dataclass(frozen=True)
class Quantity:
    """What is sampled: its key in a sample, how it is called, how much its floor may grow over a judged time, and why so
    much. `factor` makes a sample the unit."""

    key: str
    title: str
    unit: str
    growth_max: float
    factor: float = 1.0


# Memory: the index of the log of new aggregates (4 MiB at most as configured here), what the allocator keeps of the largest
# request, and the caches of the index, which fill for as long as new names come.
# Handles: connections come and go by twos and threes. Threads: the runtime's blocking threads live for ten seconds.
# Disk: one segment of a log (64 MiB) more or less, and the space that SQLite uses again but does not give back.
MEMORY = [
    Quantity("rss", "resident memory", "MiB", 16, 1 / MIB),
    Quantity("anon", "anonymous memory", "MiB", 16, 1 / MIB),
]
COUNTS = [
    Quantity("handles", "open files and sockets", "", 8),
    Quantity("threads", "threads", "", 8),
]
DISK = Quantity("disk", "disk", "MiB", 96, 1 / MIB)


@dataclasses.dataclass
class Finding:
    """The trend of one quantity over one time. `line`: ((time, value), (time, value)) of the trend, for the chart."""

    quantity: Quantity
    over: str
    typical: float
    growth: float
    line: tuple

    def passed(self):
        return self.growth <= self.quantity.growth_max

    def __str__(self):
        unit = f" {self.quantity.unit}" if self.quantity.unit else ""
        return (f"{'flat' if self.passed() else 'GROWS'}: {self.quantity.title}, {self.over}: {self.typical:.1f}{unit}, "
                f"{self.growth:+.1f} by the trend, {self.quantity.growth_max:g} allowed")


def floors(times, values, parts=PARTS):
    """[(time, floor)] of equal parts of the time; parts without samples are left out."""
    first, length = times[0], (times[-1] - times[0]) / parts or 1
    found = [[] for _ in range(parts)]
    for time, value in zip(times, values):
        found[min(int((time - first) / length), parts - 1)].append(value)
    return [(first + (index + 0.5) * length, sorted(part)[int(len(part) * FLOOR_SHARE)])
            for index, part in enumerate(found) if part]


def slope(points):
    """The median of the slopes between all pairs of points."""
    return statistics.median((b[1] - a[1]) / (b[0] - a[0]) for a, b in itertools.combinations(points, 2))


def finding(quantity, over, times, values):
    """`values` in the quantity's unit."""
    points = floors(times, values)
    rise = slope(points)
    middle = statistics.median(value - rise * time for time, value in points)
    ends = tuple((time, middle + rise * time) for time in (times[0], times[-1]))
    return Finding(quantity, over, statistics.median(values), rise * (times[-1] - times[0]), ends)


def of_life(samples, life):
    return [sample for sample in samples if sample["life"] == life]


def warm(samples):
    """Those after the warm-up."""
    first, last = samples[0]["time"], samples[-1]["time"]
    return [sample for sample in samples if sample["time"] >= first + (last - first) * WARM_UP_SHARE]


def column(samples, quantity):
    return [sample["time"] for sample in samples], [sample[quantity.key] * quantity.factor for sample in samples]


def over_lives(samples, lives, quantity):
    """What restarts leave behind: the lives at the same age, or None where there are too few. The first life is left out: it
    began with an empty store."""
    spans = {life: of_life(samples, life) for life in lives[1:]}
    spans = {life: found for life, found in spans.items() if len(found) > 2}
    if len(spans) < LIVES_MIN:
        return None
    age = min(found[-1]["time"] - found[0]["time"] for found in spans.values())
    points = []
    for found in spans.values():
        begun = found[0]["time"]
        alike = [s[quantity.key] * quantity.factor for s in found if age * WARM_UP_SHARE <= s["time"] - begun <= age]
        points.append((begun, statistics.median(alike)))
    rise = slope(points)
    middle = statistics.median(value - rise * time for time, value in points)
    ends = tuple((time, middle + rise * time) for time in (points[0][0], points[-1][0]))
    typical = statistics.median(value for _, value in points)
    return Finding(quantity, f"{len(points)} lives at the same age", typical, rise * (points[-1][0] - points[0][0]), ends)


def judge(samples):
    """The findings of a run. A sample is {"time": seconds, "life": number, and the quantities by their keys}."""
    lives, found = sorted({sample["life"] for sample in samples}), []
    for life in lives:
        own = warm(of_life(samples, life))
        if len(own) >= SAMPLES_MIN and own[-1]["time"] - own[0]["time"] >= JUDGED_S_MIN:
            found += [finding(quantity, f"life {life}", *column(own, quantity)) for quantity in MEMORY + COUNTS]
    found += [over for quantity in MEMORY + COUNTS if (over := over_lives(samples, lives, quantity))]
    # The store outlives its servers.
    whole = of_life(samples, lives[0])
    rest = [sample for sample in samples if sample["time"] >= warm(whole)[0]["time"]]
    if len(rest) >= SAMPLES_MIN and rest[-1]["time"] - rest[0]["time"] >= JUDGED_S_MIN:
        found.append(finding(DISK, "the whole run", *column(rest, DISK)))
    return found

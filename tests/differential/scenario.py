"""Random archive policies, pushes and queries, made from a seed, which the differential test sends to both servers.

A scenario holds JSON texts, not numbers, to preserve spellings (1E5, -0.0, NaN, ISO or Unix times).

Cases in which Gnocchi is wrong, and gnudi deliberately is not, are left out (docs/compatibility.md lists them): granularities that do
not divide the coarsest one; granularities of which 3600 are not whole seconds; points less than a microsecond before the end of a
bucket; and granularities that are not multiples of 256 ns, for times more than 18 years after the epoch.
"""

import dataclasses
import datetime
import json
import random

# Multiples of less than 256 ns: only near the epoch, see above.
FINE_GRANULARITIES_S = [0.005, 0.01, 0.25]
GRANULARITIES_S = [*FINE_GRANULARITIES_S, 0.1, 0.5, 1, 2, 3.6, 5, 7, 10, 30, 60, 300, 3600, 86400]
PLAIN_METHODS = ["mean", "sum", "last", "max", "min", "std", "median", "first", "count"]
CALENDAR_GROUPS = ["Y", "H", "Q", "M", "W"]
STEP_MAX_S = 10 * 86400
PUSHES_MAX = 6
POINTS_MAX = 40
NS = 1_000_000_000


def all_methods():
    """The 216 aggregation methods."""
    methods = PLAIN_METHODS + [f"{percent}pct" for percent in range(1, 100)]
    return methods + ["rate:" + method for method in methods]


@dataclasses.dataclass
class Scenario:
    """A policy and what happens to one metric of it.

    `steps` are ("push", [(timestamp JSON, value JSON), ...]), or "batch" with the same, and ("query", "a=b&c=d").
    """

    policy: dict
    steps: list

    def describe(self):
        lines = ["policy " + json.dumps(self.policy)]
        for kind, content in self.steps:
            lines.append(f"{kind} {content if kind == 'query' else body_of(content).decode()}")
        return "\n".join(lines)


def body_of(points):
    """The body of a request that pushes these points."""
    measures = [f'{{"timestamp": {timestamp}, "value": {value}}}' for timestamp, value in points]
    return ("[" + ", ".join(measures) + "]").encode()


def gnocchi_can_reload(granularity_s, points):
    """Whether a policy with this item can be read back from Gnocchi's database.

    It stores seconds as floats and compares their product: 3 points of 0.1 s aren't 0.3 s, and from then on every
    request that meets the policy fails.
    """
    timespan_ns = int(granularity_s * NS) * points
    return timespan_ns / NS == granularity_s * points


class Generator:
    """Everything random about one scenario."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        # A bucket that holds both zeros has two right answers for min and max: numpy's sort isn't stable.
        self.zero = self.rng.choice(["0.0", "-0.0", "0", "-0"])
        self.false = "true" if self.zero.startswith("-") else "false"
        self.definition = self.make_definition()
        self.granularities_ns = [int(item["granularity"] * NS) for item in self.definition]
        fine = any(item["granularity"] in FINE_GRANULARITIES_S for item in self.definition)
        later = [] if fine else [1_425_652_437 * NS, 1_600_000_000 * NS + 123_456_789]
        # Gnocchi takes the block at the epoch for none, and expires nothing while it writes there.
        near = [100 * 86400 * NS] if any("points" in item for item in self.definition) else [0, NS, 100 * 86400 * NS]
        self.clock_ns = self.rng.choice(near + later)
        self.methods = self.make_methods()

    def scenario(self):
        policy = {
            "definition": self.definition,
            "aggregation_methods": self.methods,
            "back_window": self.rng.choice([0, 0, 1, 2, 3]),
        }
        steps = []
        for _ in range(self.rng.randint(1, PUSHES_MAX)):
            steps.append((self.rng.choice(["push", "push", "batch"]), self.push()))
            steps += [("query", self.query()) for _ in range(self.rng.randint(1, 4))]
        steps += [("query", f"aggregation={method}") for method in self.methods]
        return Scenario(policy, steps)

    def make_definition(self):
        coarsest = self.rng.choice(GRANULARITIES_S)
        finer = [finer for finer in GRANULARITIES_S
                 if finer < coarsest and int(coarsest * NS) % int(finer * NS) == 0]
        granularities = [coarsest, *self.rng.sample(finer, min(len(finer), self.rng.randint(0, 2)))]
        self.rng.shuffle(granularities)
        definition = []
        for granularity in granularities:
            item = {"granularity": granularity}
            points = self.rng.choice([1, 2, 3, 10, 60, 1000, 5000])
            if self.rng.random() < 0.5 and gnocchi_can_reload(granularity, points):
                item["points"] = points
            definition.append(item)
        return definition

    def make_methods(self):
        if any("points" in item for item in self.definition):
            # Methods that leave buckets out end earlier. What of them Gnocchi expires depends on the order of a set.
            methods = [method for method in all_methods() if method != "std" and not method.startswith("rate:")]
            return sorted(self.rng.sample(methods, self.rng.randint(1, 8)))
        if self.rng.random() < 0.05:
            return self.rng.sample(all_methods(), 60)
        methods = self.rng.sample(PLAIN_METHODS, self.rng.randint(1, 4))
        methods += self.rng.sample(all_methods(), self.rng.randint(0, 4))
        return sorted(set(methods))

    def push(self):
        """Points around the clock, which moves on: mostly later, some late, some equal."""
        steps_ns = self.granularities_ns
        step_ns = self.rng.choice([1, 1000, *steps_ns, steps_ns[0] // 3, min(steps_ns[0] * 100, STEP_MAX_S * NS)])
        spell = self.rng.choice([self.unix_seconds, self.unix_text, self.iso, self.iso_spaced])
        moments_ns = []
        for _ in range(self.rng.choice([1, 2, 5, 10, POINTS_MAX])):
            choice = self.rng.random()
            if choice < 0.1 and moments_ns:
                moments_ns.append(self.rng.choice(moments_ns))
                continue
            if choice < 0.25:
                moment_ns = self.clock_ns - self.rng.randint(0, step_ns * 5)
            elif choice < 0.4:
                moment_ns = self.clock_ns // steps_ns[0] * steps_ns[0]
            else:
                self.clock_ns += self.rng.randint(0, step_ns * 2)
                moment_ns = self.clock_ns
            moments_ns.append(self.off_the_edge(max(moment_ns, 0)))
        if self.rng.random() < 0.3:
            self.rng.shuffle(moments_ns)
        return [(spell(moment_ns), self.value()) for moment_ns in moments_ns]

    def off_the_edge(self, moment_ns):
        """The moment, or a little later where a bucket is just about to end."""
        while any(step_ns - moment_ns % step_ns <= 1000 for step_ns in self.granularities_ns):
            moment_ns += 1000
        return moment_ns

    def unix_seconds(self, moment_ns):
        digits = self.rng.choice([0, 3, 6, 9])
        if digits == 0:
            return str(moment_ns // NS)
        return f"{moment_ns // NS}.{moment_ns % NS:09d}"[: digits - 9 or None]

    def unix_text(self, moment_ns):
        return json.dumps(self.unix_seconds(moment_ns))

    def iso(self, moment_ns, separator="T"):
        seconds, fraction_ns = divmod(moment_ns, NS)
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)
        text = moment.strftime(f"%Y-%m-%d{separator}%H:%M:%S")
        digits = self.rng.choice([0, 1, 3, 6, 9])
        if digits:
            text += "." + f"{fraction_ns:09d}"[:digits]
        zone = self.rng.random()
        if zone < 0.2:
            text += self.rng.choice(["Z", "+00:00"])
        elif zone < 0.3 and seconds > 86400:
            text += self.rng.choice(["+01:00", "-02:00", "+0530"])
        return json.dumps(text)

    def iso_spaced(self, moment_ns):
        return self.iso(moment_ns, " ")

    def value(self):
        choice = self.rng.random()
        if choice < 0.3:
            return str(self.rng.randint(-5, 5) or self.zero)
        if choice < 0.6:
            return repr(self.rng.uniform(-100, 100))
        if choice < 0.7:
            return f"{self.rng.uniform(-9, 9):.3f}{self.rng.choice('eE')}{self.rng.randint(-300, 300):+d}"
        if choice < 0.8:
            return self.rng.choice(["1e5", "1E-7", "123456789012345678", "0.1", "1e16", "5e-324", "1.0e+22", "1e15",
                                    "1e400", "123456789012345678901234567890"])
        if choice < 0.85:
            return self.rng.choice(["NaN", "Infinity", "-Infinity"])
        if choice < 0.9:
            return self.rng.choice(['"12.5"', '" 3 "', '"1e3"', '"nan"', '"inf"', "true", self.false])
        if choice < 0.95:
            return self.zero
        return repr(self.rng.gauss(0, 1) * 10 ** self.rng.randint(-20, 20))

    def query(self):
        parameters = [f"aggregation={self.rng.choice(self.methods)}"]
        granularity = self.rng.choice(self.definition)["granularity"]
        if self.rng.random() < 0.5:
            parameters.append(f"granularity={granularity}")
            if self.rng.random() < 0.4:
                factor = self.rng.choice([1, 2, 3, 10, 60])
                parameters.append(f"resample={self.rng.choice([granularity * factor, *CALENDAR_GROUPS])}")
        calendar = parameters[-1][-1] in CALENDAR_GROUPS
        for bound, chance in (("start", 0.02 if calendar else 0.3), ("stop", 0.3)):
            if self.rng.random() < chance:
                offset_ns = self.rng.randint(-20, 20) * int(granularity * NS)
                moment_ns = max(self.clock_ns + offset_ns, 0)
                parameters.append(f"{bound}={self.bound(moment_ns)}")
        return "&".join(parameters)

    def bound(self, moment_ns):
        text = self.rng.choice([self.unix_seconds, self.iso])(moment_ns).strip('"')
        return text.replace("+", "%2B")

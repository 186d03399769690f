"""One soak: a server, its load, its stops and starts, a sample every two seconds, and the result."""

import collections
import dataclasses
import json
import pathlib
import random
import shutil
import tempfile
import threading
import time

from soak import chart, judge, load, sample
from support.gnudi import Gnudi
from support.process import StartFailed

MINUTES = 60.0
RATE = 80.0
CLIENTS = 4
WATCHER_RATE = 1.0
OUTPUT = pathlib.Path(__file__).resolve().parents[2] / "target" / "soak"
SAMPLE_S = 2.0
# How much longer a life may be for the sake of its first sample, on a machine that stands still.
SAMPLED_S_MAX = 60
# Shares of the time: a long life, in which a leak shows, and short ones, in which restarts show what they leave behind.
LIVES = [0.5, 0.1, 0.1, 0.1, 0.1, 0.1]
# Of requests that the server had no room for.
REFUSED_SHARE_MAX = 0.01
# Of those that the rate allows: a busy machine does less, and one that does next to nothing proves nothing.
REQUESTS_SHARE_MIN = 0.03
# By default 256 MiB of new aggregates are gathered, with an index of up to 30 MB, before they become a file: hours under this load.
# Each life must see many of these rounds, and the janitor's.
CONFIG = """\
[storage]
recent_bytes_max = 16777216
dirty_bytes_max = 4194304
[metricd]
metric_cleanup_delay = 5
"""


@dataclasses.dataclass
class Report:
    """What a run did and found."""

    seed: int
    minutes: float
    samples: list = dataclasses.field(default_factory=list)
    # (time, what happened)
    events: list = dataclasses.field(default_factory=list)
    faults: list = dataclasses.field(default_factory=list)
    requests: int = 0
    refused: int = 0
    findings: list = dataclasses.field(default_factory=list)
    directory: pathlib.Path = None

    def passed(self):
        return not self.faults and all(finding.passed() for finding in self.findings)

    def __str__(self):
        ends = collections.Counter(what for _, what in self.events)
        lines = [f"soak: {self.minutes:g} minutes, {self.requests} requests ({self.refused} refused for lack of room), "
                 f"{', '.join(f'{count} x {what}' for what, count in sorted(ends.items()))}, seed {self.seed}"]
        lines += [str(finding) for finding in self.findings]
        lines += [f"fault: {fault}" for fault in self.faults]
        lines.append(f"{'passed' if self.passed() else 'FAILED'}; {self.directory}/report.html")
        return "\n".join(lines)

    def write(self, directory):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        data = {name: getattr(self, name) for name in ("seed", "minutes", "requests", "refused", "events", "faults", "samples")}
        (self.directory / "samples.json").write_text(json.dumps(data), encoding="utf-8")
        (self.directory / "report.html").write_text(chart.page(self), encoding="utf-8")


class Sampler(threading.Thread):
    """Takes a sample every SAMPLE_S while there is a server."""

    def __init__(self, run):
        super().__init__(name="sampler", daemon=True)
        self.run_, self.stop = run, threading.Event()

    def run(self):
        while not self.stop.wait(SAMPLE_S):
            run, pid = self.run_, self.run_.pid
            if pid is None:
                continue
            try:
                found = sample.of_process(pid)
            except OSError:
                continue
            found |= {"time": round(run.age(), 2), "life": run.life, "disk": sample.disk_bytes(run.server.data_dir),
                      "requests": run.requests()}
            run.report.samples.append(found)


class Run:
    """The moving parts of a soak."""

    def __init__(self, directory, report, rate):
        self.report, self.rate = report, rate
        self.server = Gnudi(directory, config=CONFIG, arguments=["--skip-archive-policies-creation"])
        self.rng, self.up = random.Random(report.seed), threading.Event()
        self.life, self.pid, self.callers = 0, None, []
        self.began = time.monotonic()

    def age(self):
        return time.monotonic() - self.began

    def requests(self):
        return sum(caller.calls for caller in self.callers)

    def event(self, what):
        self.report.events.append((round(self.age(), 2), what))

    def begin_life(self):
        self.server.start()
        self.life, self.pid = self.life + 1, self.server.process.pid
        self.up.set()

    def end_life(self, hard):
        """Under load. A clean stop must end with 0."""
        self.up.clear()
        self.pid = None
        if hard:
            self.server.kill()
            self.event("kill -9")
            return
        status = self.server.stop()
        self.event("SIGTERM")
        if status != 0:
            self.report.faults.append(f"life {self.life}: SIGTERM ended it with {status}")

    def is_sampled(self):
        """Whether this life has a sample."""
        return any(found["life"] == self.life for found in self.report.samples)

    def start_load(self):
        for number in range(CLIENTS):
            self.callers.append(load.Client(f"client-{number}", self.server, self.up, self.rate / CLIENTS, self.report.seed))
        self.callers.append(load.Watcher("watcher", self.server, self.up, WATCHER_RATE, self.report.seed))
        for caller in self.callers:
            caller.start()

    def live(self, seconds):
        """Lets the load run; ends early once nothing is to be learnt any more, and not before there is a sample."""
        end = time.monotonic() + seconds
        while time.monotonic() < end or (time.monotonic() < end + SAMPLED_S_MAX and not self.is_sampled()):
            time.sleep(min(0.5, max(0.05, end - time.monotonic())))
            if not self.server.process.running():
                raise StartFailed(f"the server ended by itself with {self.server.process.child.returncode}: "
                                  f"{self.server.log()[-1500:]}")
            if all(not caller.is_alive() for caller in self.callers):
                return

    def stop_load(self):
        for caller in self.callers:
            caller.stop.set()
        for caller in self.callers:
            caller.join(60)
            self.report.faults += caller.faults
            if caller.is_alive():
                self.report.faults.append(f"{caller.name} does not come to its end")

    def verify_all(self):
        """Everything that was acknowledged and is remembered, once more."""
        for caller in self.callers[:CLIENTS]:
            caller.client, caller.clock = None, load.Clock(1000)
            for series in caller.series():
                try:
                    caller.verify(series)
                except (load.Wrong, load.Gone, load.Refused) as error:
                    self.report.faults.append(f"{caller.name}, at the end: {error}")

    def look_at_log(self):
        for word in ("panicked", " ERROR "):
            lines = [line for line in self.server.log().splitlines() if word in line]
            if lines:
                self.report.faults.append(f"{len(lines)} lines of the log with {word.strip()}, such as {lines[0][:400]}")


def lives(minutes, shares):
    return [minutes * 60 * share for share in shares]


def play(run, spans):
    """The lives one after the other: every second one ends by kill -9, each in the middle of the load. The last is followed by
    a start that verifies what is left."""
    run.begin_life()
    load.prepare(run.server.client())
    run.start_load()
    for number, seconds in enumerate(spans):
        run.live(seconds)
        run.end_life(hard=number % 2 == 1)
        if number + 1 < len(spans):
            run.begin_life()
    run.server.start()
    run.up.set()
    run.stop_load()
    run.verify_all()
    if run.server.stop() != 0:
        run.report.faults.append("the last stop was not clean")


def soak(seed, minutes=MINUTES, rate=RATE, output=OUTPUT, shares=LIVES):
    """Runs it all; the report is written below `output` whatever comes."""
    report = Report(seed, minutes)
    directory = pathlib.Path(tempfile.mkdtemp(prefix="gnudi-soak-"))
    run = Run(directory, report, rate)
    sampler = Sampler(run)
    sampler.start()
    try:
        play(run, lives(minutes, shares))
    except (StartFailed, AssertionError, OSError) as error:
        report.faults.append(f"{type(error).__name__}: {str(error)[-2000:]}")
    finally:
        run.up.clear()
        for caller in run.callers:
            caller.stop.set()
            caller.given_up.set()
        sampler.stop.set()
        sampler.join(30)
        if run.server.process is not None and run.server.process.running():
            run.server.kill()
        run.look_at_log()
        finish(run, report, minutes, rate)
        pathlib.Path(output).mkdir(parents=True, exist_ok=True)
        shutil.copyfile(run.server.log_path, pathlib.Path(output) / "server.log")
        report.write(output)
        shutil.rmtree(directory, ignore_errors=True)
    return report


def finish(run, report, minutes, rate):
    report.requests = run.requests()
    report.refused = sum(caller.refused for caller in run.callers)
    if report.samples:
        report.findings = judge.judge(report.samples)
    if report.requests < minutes * 60 * rate * REQUESTS_SHARE_MIN:
        report.faults.append(f"{report.requests} requests in {minutes:g} minutes are no load")
    if report.refused > report.requests * REFUSED_SHARE_MAX:
        report.faults.append(f"{report.refused} of {report.requests} requests were refused for lack of room")


def judge_again(path, output):
    """The report of an earlier run's samples, by the limits of today."""
    data = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    report = Report(**{name: data[name] for name in ("seed", "minutes", "requests", "refused", "events", "faults", "samples")})
    report.events = [tuple(event) for event in report.events]
    report.findings = judge.judge(report.samples)
    report.write(output)
    return report

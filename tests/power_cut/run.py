"""Records a workload, tests images of it in parallel, and reports the faults found."""

import collections
import concurrent.futures
import dataclasses
import itertools
import os
import pathlib
import shutil
import tempfile
import threading

from power_cut.check import Fault, check
from power_cut.images import cases, recovery_cases
from power_cut.recording import Recording, record, record_recovery

IMAGES = 300
REQUESTS = 25
# Faults after which a run ends: the first ones tell enough.
FAULTS_MAX = 20
FAULTS_SHOWN = 5
LOST_SHOWN = 6
PROGRESS_IMAGES = 500
# Images that differ from earlier ones are looked for among so many times as many.
TRIES = 6
MEMORY = "/dev/shm"
KEPT = pathlib.Path(__file__).resolve().parents[2] / "target" / "power-cut"


@dataclasses.dataclass
class Report:
    """What a run has tried and found."""

    seed: int
    options: str
    operations: int
    answers: int
    recording_path: pathlib.Path
    tried: int = 0
    strategies: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    # (case, message)
    faults: list = dataclasses.field(default_factory=list)

    def __str__(self):
        lines = [f"power cut: {self.tried} images of {self.operations} operations and {self.answers} answers, "
                 f"{len(self.faults)} faults ({', '.join(f'{n} {s}' for s, n in sorted(self.strategies.items()))})"]
        for case, message in self.faults[:FAULTS_SHOWN]:
            lost = "; ".join(map(str, case.lost[:LOST_SHOWN])) or "nothing"
            lines += [f"image {case.name} ({case.strategy} at tick {case.tick}): {message}",
                      f"  not or not wholly kept ({len(case.lost)}): {lost}",
                      f"  again: cd tests && ../.venv/bin/python -m power_cut --recording {self.recording_path} "
                      f"--seed {self.seed}{self.options} --image {case.name}"]
        return "\n".join(lines)


class Trial:
    """Tries the cases of one recording in a pool of threads, each image once."""

    def __init__(self, recording, report, directory, ignore, jobs, faults_max):
        self.recording, self.report, self.directory, self.ignore = recording, report, directory, ignore
        self.faults_max = faults_max
        self.pool = concurrent.futures.ThreadPoolExecutor(jobs)
        self.room = threading.Semaphore(2 * jobs)
        self.lock, self.seen, self.pending = threading.Lock(), set(), []

    def is_new(self, case):
        """Whether no image like it was tried with the same promises."""
        promises = sum(tick < case.tick for tick in self.answer_ticks)
        signature = (case.image.signature(), promises)
        with self.lock:
            new = signature not in self.seen
            self.seen.add(signature)
        return new

    def run(self, numbers, images, only=None):
        self.answer_ticks = self.recording.answer_ticks()
        with self.pool:
            for batch in numbers:
                for case in cases(self.recording, self.report.seed, batch, self.ignore):
                    if self.report.tried >= images or len(self.report.faults) >= self.faults_max:
                        return
                    if only and "." in only or self.is_new(case):
                        self.room.acquire()
                        self.pending.append(self.pool.submit(self.attempt, case, only))

    def attempt(self, case, only):
        try:
            if not (only and "." in only):
                self.judge(case)
            if case.has_recovery() and only != case.name:
                path = self.directory / f"recovery-{case.name}"
                try:
                    operations = record_recovery(path, self.recording, case.image, case.tick)
                finally:
                    shutil.rmtree(path, ignore_errors=True)
                for inner in recovery_cases(case, operations, self.report.seed, self.ignore):
                    if only in (None, inner.name) and self.is_new(inner):
                        self.judge(inner)
        finally:
            self.room.release()

    def judge(self, case):
        message = None
        try:
            check(self.recording, case, self.directory / f"image-{case.name}")
        except Fault as fault:
            message = str(fault)
        with self.lock:
            self.report.tried += 1
            self.report.strategies[case.strategy] += 1
            if message:
                self.report.faults.append((case, message))
            # A long run says how far it is, and what it has found so far.
            if message and len(self.report.faults) <= FAULTS_SHOWN:
                print(f"fault in image {case.name}: {message}", flush=True)
            if self.report.tried % PROGRESS_IMAGES == 0:
                print(f"{self.report.tried} images, {len(self.report.faults)} faults", flush=True)


def power_cuts(seed, images=IMAGES, only=None, recording=None, fresh=False, durability="disk", ignore=(), jobs=2, keep=KEPT,
               faults_max=FAULTS_MAX, requests=REQUESTS):
    """Tries crash images; answers the report. A recording in which faults were found is kept below `keep`."""
    ignore = list(ignore)
    options = "".join(f" --ignore {kind}" for kind in ignore)
    memory = MEMORY if os.access(MEMORY, os.W_OK) else None
    directory = pathlib.Path(tempfile.mkdtemp(prefix="gnudi-power-cut-", dir=memory))
    try:
        found = (Recording.load(recording / "recording") if recording
                 else record(directory / "recorded", seed, durability, fresh, requests))
        shutil.rmtree(directory / "recorded", ignore_errors=True)
        kept = recording or pathlib.Path(keep) / f"{seed}-{durability}{'-fresh' if fresh else ''}"
        report = Report(seed, options, len(found.operations), len(found.answer_ticks()), kept)
        trial = Trial(found, report, directory, ignore, jobs, faults_max)
        batches = [[int(only.split(".")[0])]] if only else numbers(images)
        trial.run(batches, images, only)
        for future in trial.pending:
            future.result()
        if report.faults and recording is None:
            kept.mkdir(parents=True, exist_ok=True)
            found.save(kept / "recording")
        return report
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def numbers(images):
    """Batches of consecutive numbers."""
    every = itertools.count()
    for _ in range(TRIES):
        yield list(itertools.islice(every, images))

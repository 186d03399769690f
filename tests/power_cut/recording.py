"""A recording: a workload against the real server under strace, with clean stops and kills, and the resulting disk operations."""

import dataclasses
import os
import pathlib
import pickle
import signal
import time

from power_cut import workload
from power_cut.disk import Disk, Image, ROOT
from power_cut.record import START_TIMEOUT_S, VOLATILE, Traced, Translator, calls
from support.gnudi import binary
from support.http import Client
from support.process import Process, free_port, listens

# Where the server's directory lies below the root of the modelled disk.
DATA = "data"
DATA_FRESH = "new/data"
# Longer than two checkpoints are apart.
SETTLE_S = 0.4
# How long a start is looked at all the time, before it is at intervals.
EAGER_S = 2.0


@dataclasses.dataclass
class Recording:
    """Operations and answers in ticks, and the writers who know what each answer promised."""

    seed: int
    durability: str
    data: str
    base: Image
    operations: list = dataclasses.field(default_factory=list)
    writers: list = dataclasses.field(default_factory=list)

    def save(self, path):
        for writer in self.writers:
            writer.connection = None
        with open(path, "wb") as file:
            pickle.dump(self, file)

    @classmethod
    def load(cls, path):
        with open(path, "rb") as file:
            return pickle.load(file)

    def answer_ticks(self):
        return sorted(request.tick for writer in self.writers for request in writer.requests
                      if request.tick is not None)


def command(root, data, config_path, port):
    return [binary(), "serve", "--config-file", config_path, "--data-dir", os.path.join(root, data), "--listen",
            f"127.0.0.1:{port}", "--without", "host", "--skip-archive-policies-creation"]


def wait_healthy(process, port):
    process.wait_ready(Client("127.0.0.1", port, timeout_s=5).answers, START_TIMEOUT_S)


def start(root, data, config_path, log_path):
    """(process, port) of a server without strace."""
    port = free_port()
    process = Process(command(root, data, config_path, port), log_path)
    # A start takes some hundredths of a second, and there are thousands of them.
    end = time.monotonic() + EAGER_S
    while time.monotonic() < end and process.running() and not listens(port):
        time.sleep(0.002)
    wait_healthy(process, port)
    return process, port


class Recorder:
    """Runs servers under strace on one directory, one after the other, and gathers their operations."""

    def __init__(self, directory, data, config_path, base, first_tick=0):
        self.directory, self.data, self.config_path = pathlib.Path(directory), data, config_path
        self.root = self.directory / "disk"
        base.write(self.root)
        self.base, self.translator = base, Translator(self.root, base.tree())
        self.tick, self.runs = first_tick, 0

    def start(self):
        self.port = free_port()
        self.traced = Traced(command(self.root, self.data, self.config_path, self.port),
                             self.directory / f"trace-{self.runs}", self.directory / "log")
        wait_healthy(self.traced.process, self.port)

    def end(self, number):
        """Ends the server by a signal and reads its trace; answers the HTTP answers in it."""
        self.traced.end(number)
        found, self.tick = calls(self.traced.lines(), self.tick)
        os.remove(self.traced.trace_path)
        self.translator.process(found, self.tick)
        self.tick += 1
        self.runs += 1
        self.compare()
        answers, self.translator.answers = self.translator.answers, []
        return answers

    def compare(self):
        """The model with everything kept must be what the real directory holds: else the model is wrong."""
        disk = Disk(self.base)
        disk.advance(list(self.translator.operations), self.tick)
        model = dict(disk.image(dict.fromkeys(disk.open_operations(), True)).files())
        real = {}
        for path in sorted(self.root.rglob("*")):
            if not path.name.endswith(VOLATILE):
                real[str(path.relative_to(self.root))] = None if path.is_dir() else path
        assert model.keys() == real.keys(), f"the model's names differ: {model.keys() ^ real.keys()}"
        for path, content in model.items():
            if content is not None:
                found, wanted = real[path].read_bytes(), content.bytes()
                assert len(found) == len(wanted), f"{path} has {len(found)} bytes, in the model {len(wanted)}"
                assert found == wanted, f"{path} differs from the model at {len(os.path.commonprefix([found, wanted]))}"


def write_config(directory, durability):
    path = pathlib.Path(directory) / "gnudi.conf"
    path.write_text(workload.CONFIG.format(durability=durability), encoding="utf-8")
    return path


def record(directory, seed, durability, fresh, requests):
    """Records a workload: clean stops, kills under load, restarts at once. `fresh`: only the first start, which makes its
    directory and the one above, and a few requests."""
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    base = Image() if fresh else Image({ROOT: {DATA: 1}, 1: {}})
    data = DATA_FRESH if fresh else DATA
    recorder = Recorder(directory, data, write_config(directory, durability), base)
    steady, writers = workload.Writer("steady", seed), []

    def run(number, names, count, kill):
        recorder.start()
        if number == 1:
            writers.append(workload.create_type(number, recorder.port))
        new = [workload.Writer(name, seed) for name in names]
        for writer in [steady, *new]:
            writer.connect(number, recorder.port)
        writers.extend(new)
        answers = []
        if kill:
            workload.run_writers([steady, *new], count, lambda: answers.extend(recorder.end(signal.SIGKILL)))
        else:
            workload.run_writers([steady, *new], count)
            # What is processed at intervals gets its turn.
            time.sleep(SETTLE_S)
            answers.extend(recorder.end(signal.SIGTERM))
        workload.match_answers([steady, *writers], number, answers)

    if fresh:
        run(1, [], 5, kill=True)
    else:
        run(1, ["first"], requests, kill=False)
        run(2, ["second"], requests, kill=True)
        run(3, ["third"], requests, kill=True)
        # Killed as soon as it serves, and before.
        recorder.start()
        recorder.end(signal.SIGKILL)
        run(5, [], requests, kill=False)
        run(6, [], requests, kill=True)
    found = Recording(seed, durability, data, base, recorder.translator.operations, [steady, *writers])
    assert found.answer_ticks(), "a workload of which nothing was acknowledged proves nothing"
    return found


def record_recovery(directory, recording, image, first_tick):
    """The operations of a start on an image, and of the moment after it."""
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    recorder = Recorder(directory, recording.data, write_config(directory, recording.durability), image, first_tick)
    recorder.start()
    time.sleep(SETTLE_S)
    recorder.end(signal.SIGKILL)
    return recorder.translator.operations



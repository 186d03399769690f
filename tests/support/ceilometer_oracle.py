"""gnudi's publishers and Ceilometer's: two processes that get the same JSON lines."""

import json
import os
import pathlib
import subprocess

from support import cloud_venv
from support.gnudi import ROOT, example

THEIRS = ROOT / "tests" / "telemetry" / "theirs.py"


class Side:
    """A process that answers lines."""

    def __init__(self, command, directory):
        directory.mkdir(exist_ok=True)
        self.log = open(directory / f"{pathlib.Path(command[0]).name}.log", "w+")
        environment = {**os.environ, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        self.process = subprocess.Popen(
            [str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
            text=True, encoding="utf-8", cwd=directory, env=environment,
        )

    def ask(self, line):
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            self.log.seek(0)
            raise AssertionError(f"no answer to {json.dumps(line)[:2000]}:\n{self.log.read()[-4000:]}")
        return json.loads(answer)

    def stop(self):
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()
        self.log.close()


def ours(directory):
    return Side([example("gnudi-telemetry", "publishers")], directory)


def theirs(directory):
    return Side([cloud_venv.python(), THEIRS, directory], directory)

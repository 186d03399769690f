"""Runs the page's tests by node, in a real browser; they start their own servers."""

import os
import pathlib
import shutil
import subprocess

from support import gnudi as program
from support.process import free_port

TESTS = pathlib.Path(__file__).resolve().parents[2] / "ui" / "test"
TIMEOUT_S = 600


def names():
    return sorted(path.name.removesuffix(".test.mjs") for path in TESTS.glob("*.test.mjs"))


def run(name):
    """Runs a file of `ui/test` to its end."""
    node("--test", TESTS / f"{name}.test.mjs", GNUDI_BIN=str(program.binary()), GNUDI_PORT=str(free_port()))


def node(*words, **environment):
    """Runs a program of `ui/test` to its end."""
    found = shutil.which("node")
    assert found, "missing: node 18 or newer and npm"
    done = subprocess.run([found, *words], capture_output=True, text=True, timeout=TIMEOUT_S, check=False, env={**os.environ, **environment})
    assert done.returncode == 0, done.stdout + done.stderr

"""Runs tests of the page by node, in a real browser, on servers that they start themselves."""

import os
import pathlib
import shutil
import subprocess

from support import gnudi as program

TESTS = pathlib.Path(__file__).resolve().parents[2] / "ui" / "test"
TIMEOUT_S = 300


def names():
    return sorted(path.name.removesuffix(".test.mjs") for path in TESTS.glob("*.test.mjs"))


def run(name):
    """Runs a file of `ui/test` to its end."""
    node = shutil.which("node")
    assert node, "missing: node 18 or newer and npm"
    done = subprocess.run([node, "--test", TESTS / f"{name}.test.mjs"], capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
                          env={**os.environ, "GNUDI_BIN": str(program.binary())})
    assert done.returncode == 0, done.stdout + done.stderr

"""The page in a real browser: each file of ui/test is run by node, on servers that it starts itself."""

import os
import pathlib
import shutil
import subprocess

import pytest

from support import gnudi as program

TESTS = pathlib.Path(__file__).resolve().parents[2] / "ui" / "test"
TIMEOUT_S = 150


@pytest.mark.parametrize("path", sorted(TESTS.glob("*.test.mjs")), ids=lambda path: path.name)
def test_in_a_browser(path):
    node = shutil.which("node")
    assert node, "missing: node 18 or newer and npm"
    done = subprocess.run([node, "--test", str(path)], capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
                          env={**os.environ, "GNUDI_BIN": str(program.binary())})
    assert done.returncode == 0, done.stdout + done.stderr

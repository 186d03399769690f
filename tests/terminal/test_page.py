"""The examples of docs/terminal.md, run on a server of their own after the page's preparation; `--update` writes what they print."""

import os
import pathlib
import re
import subprocess

import pytest

from support import gnudi as program
from support.gnudi import Gnudi
from terminal.store import server_variables

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "terminal.md"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PREPARATION = re.compile(r"^    api\(\).*\n(?:    .*\n)+", re.MULTILINE)
# What the server chooses, and what depends on the moment.
VARIES = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}")
FIGURES = re.compile(r"\d[\d.,]*( [kMGT]?B\b| bytes)?")


@pytest.fixture
def shell(tmp_path):
    """Runs a line of the page."""
    with Gnudi(tmp_path / "server") as server:
        path = f"{program.binary().parent}:{os.environ['PATH']}"
        environment = {**os.environ, **server_variables(server), "PATH": path}

        def run(line):
            done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, env=environment, timeout=60)
            assert done.returncode == 0, (line, done.stderr)
            return done.stdout

        run(PREPARATION.search(PAGE.read_text()).group().replace("http://127.0.0.1:8041", f"http://127.0.0.1:{server.port}"))
        for name in ("web-1", "web-2"):
            run(f"gnudi measures show --refresh --resource-id {name} cpu")
        yield run


def comparable(command, printed):
    return FIGURES.sub("N", printed) if command == "gnudi status" else VARIES.sub("~", printed)


def test_the_page_says_what_is_printed(shell, pytestconfig):
    text = PAGE.read_text()

    def run_block(match):
        blocks = re.split(r"^\$ ", match.group(1), flags=re.MULTILINE)[1:]
        lines = []
        for block in blocks:
            command, printed = block.split("\n", 1)
            answer = shell(command)
            if not pytestconfig.getoption("update"):
                assert comparable(command, answer) == comparable(command, printed), command
            lines.append(f"$ {command}\n{answer}")
        return "```console\n" + "".join(lines) + "```"

    shown = BLOCK.sub(run_block, text)
    if pytestconfig.getoption("update"):
        PAGE.write_text(shown)
    assert len(BLOCK.findall(text)) >= 4

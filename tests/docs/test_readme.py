"""The commands of README.md, on a server of its own."""

import os
import subprocess

from docs.console import blocks
from support import gnudi as program
from support.gnudi import ROOT


def test_the_readme_says_what_is_printed(gnudi, tmp_path):
    server = gnudi()
    (tmp_path / "gnudi").symlink_to(program.binary())
    address = f"http://127.0.0.1:{server.port}"
    # The machine of a reader may have any time zone.
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "GNOCCHI_ENDPOINT": address, "GNOCCHI_USER": "admin", "TZ": "Europe/Berlin"}
    commands = [command for block in blocks((ROOT / "README.md").read_text()) for command in block]
    for command in commands:
        line = command.text.replace("http://127.0.0.1:8041", address)
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, env=environment, timeout=60)
        assert done.returncode == 0 and done.stdout.splitlines() == command.printed, (line, done)
    assert len(commands) == 4

"""The commands of docs/inputs.md, in the page's order, on a server of its own."""

import json
import re
import subprocess

from support.gnudi import ROOT

COMMAND = re.compile(r"^    \$ (curl .*)$", re.MULTILINE)


def test_the_commands_of_the_page_work_and_seconds_are_kept(gnudi):
    server = gnudi()
    printed = []
    for line in COMMAND.findall((ROOT / "docs" / "inputs.md").read_text()):
        line = line.replace("127.0.0.1:8041", f"127.0.0.1:{server.port}").replace("curl ", "curl --silent --show-error --fail ")
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, (line, done)
        printed.append(done.stdout)
    assert len(printed) == 4
    # The page's rule has given the metric a policy with seconds, before its first measure.
    assert {granularity for _, granularity, _ in json.loads(printed[-1])} == {1.0, 60.0, 3600.0}

"""The commands of docs/backup.md that copy and restore shared engines, in the page's order: the restored data equals the copied data, and
the restored engines work."""

import os
import re
import subprocess

import pytest
from support.gnudi import ROOT
from support.http import create_metric, create_policy, get_patiently

HEADING = "## Backups of shared engines"
COMMAND = re.compile(r"^    (\w[^#\n]*)", re.MULTILINE)
START = 1_700_000_000


class Host:
    """Runs the page's commands: its units are the cloud's processes, and its names stand for the test's database and directories."""

    def __init__(self, cloud, postgres, database, folder, backup):
        self.cloud, self.database = cloud, database
        self.places = {"/mnt/gnudi": str(folder), "/backup": str(backup)}
        self.environment = {**os.environ, "PATH": f"{postgres.programs}:{os.environ['PATH']}", "PGHOST": "127.0.0.1", "PGUSER": "postgres",
                            "PGPORT": str(postgres.port)}

    def run(self, command):
        program, *words = command.split()
        if program == "systemctl":
            for process in [*self.cloud.workers, *self.cloud.apis]:
                if words[0] == "stop":
                    assert process.stop() == 0, process.log()
                else:
                    process.start()
        else:
            subprocess.run([program, *map(self.real, words)], check=True, env=self.environment, timeout=120)

    def real(self, word):
        if word.rpartition("=")[2] == "gnudi":
            return word.removesuffix("gnudi") + self.database
        for shown, real in self.places.items():
            word = word.replace(shown, real)
        return word


@pytest.fixture
def page():
    """Its commands: those of the copy, and those of the way back."""
    section = (ROOT / "docs" / "backup.md").read_text().split(HEADING)[1].split("\n## ")[0]
    commands = [command.strip() for command in COMMAND.findall(section)]
    end = commands.index("systemctl start gnudi-metricd gnudi-api") + 1
    assert len(commands) == 12 and commands[end] == commands[0]
    return commands[:end], commands[end:]


def values(client, metric):
    return get_patiently(client, f"/v1/metric/{metric}/measures?refresh=true")


def post(client, metric, *numbers):
    client.post(f"/v1/metric/{metric}/measures", [{"timestamp": START + 60 * number, "value": number} for number in numbers]).expect(202)


def test_what_was_copied_comes_back(cloud, postgres, tmp_path, page):
    folder, backup = tmp_path / "folder", tmp_path / "backup"
    backup.mkdir()
    url = postgres.create_database("coldcopy")
    made = cloud(f"[indexer]\nurl = {url}\n[storage]\ndriver = file\nfile_basepath = {folder}\n[metricd]\nlease_seconds = 2\n")
    host = Host(made, postgres, "coldcopy", folder, backup)
    client = made.client()
    create_policy(client, "minutes", [("1m", 1000)])
    metric = create_metric(client, "minutes")
    post(client, metric, *range(50))
    copied = values(client, metric)
    # Of these the copy has what waits.
    post(client, metric, *range(50, 60))
    for command in page[0]:
        host.run(command)
    # A second copy to the same place would put the folder into that of the first, beside the new index.
    with pytest.raises(subprocess.CalledProcessError):
        host.run(page[0][1])
    client = made.client()
    assert len(values(client, metric)) == len(copied) + 10
    post(client, metric, *range(60, 70))
    later = create_metric(client, "minutes")
    post(client, later, 1)
    values(client, later)
    for command in page[1]:
        host.run(command)
    client = made.client()
    restored = values(client, metric)
    assert restored[:50] == copied and len(restored) == 60
    client.get(f"/v1/metric/{later}").expect(404)
    post(client, metric, 70)
    assert len(values(client, metric)) == 61

"""A server with a few metrics, and its two clients: `gnudi` and Gnocchi's client."""

import contextlib
import io
import os
import sys

import pytest
from gnocchiclient import shell

from support import gnudi as program
from support.gnudi import Gnudi
from terminal.store import HOUR, make_hosts, server_variables

@pytest.fixture(scope="module")
def server(module_path):
    """Two hosts, each with a metric `cpu`, and `room.temperature` with an hour of measures."""
    with Gnudi(module_path) as started:
        client = started.client()
        make_hosts(client)
        room = {"name": "room.temperature", "unit": "C", "archive_policy_name": "medium"}
        started.room = client.post("/v1/metric", room).expect(201).json()["id"]
        measures = [{"timestamp": f"{HOUR}:{minute:02}:00", "value": 20 + minute % 7 / 2} for minute in range(60)]
        client.post(f"/v1/metric/{started.room}/measures", measures).expect(202)
        client.get(f"/v1/metric/{started.room}/measures?refresh=true").expect(200)
        yield started


@pytest.fixture
def gnudi_prints(server):
    """Runs `gnudi ...` and answers what it prints; `fails=N`: what it complains of, with that exit status."""

    def run(*arguments, fails=0, **variables):
        done = program.run(*arguments, env={**server_variables(server), "TZ": "UTC", **variables}, timeout_s=60)
        assert done.returncode == fails, (done.stdout, done.stderr)
        return done.stderr if fails else done.stdout

    return run


@pytest.fixture
def gnocchi_prints(server, monkeypatch):
    """The same of Gnocchi's client, within this process: it takes seconds to start."""
    for name in [name for name in os.environ if name.startswith(("OS_", "GNOCCHI_"))]:
        monkeypatch.delenv(name)
    for name, value in server_variables(server).items():
        monkeypatch.setenv(name, value)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["gnocchi", *arguments])
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            assert shell.main(list(arguments)) == 0, printed.getvalue()
        return printed.getvalue()

    return run

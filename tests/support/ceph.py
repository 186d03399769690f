"""A small Ceph of one's own in a directory: one monitor and one OSD on the memory store, without authentication."""

import json
import os
import pathlib
import shutil
import subprocess
import uuid

from support.process import Process, free_port, wait_until

PROGRAMS = {
    "ceph-mon": "ceph-mon",
    "ceph-osd": "ceph-osd",
    "monmaptool": "ceph-base",
    "ceph": "ceph-common",
    "rados": "ceph-common",
}


class CephMissing(Exception):
    """A program of Ceph is not on this machine."""


class Ceph:
    """Started with `start()`; `rados()` and `ceph()` run those commands on it. Its directory's name must be short: a socket of
    the OSD lies in it."""

    def __init__(self, directory):
        for program, package in PROGRAMS.items():
            if shutil.which(program) is None:
                raise CephMissing(f"{program} is missing: run scripts/install-test-deps, or install `{package}`")
        self.directory = pathlib.Path(directory)
        self.conf = self.directory / "ceph.conf"
        self.processes = []

    def start(self):
        for name in ["mon", "osd0"]:
            (self.directory / name).mkdir(parents=True)
        fsid, monitor = str(uuid.uuid4()), f"[v2:127.0.0.1:{free_port()},v1:127.0.0.1:{free_port()}]"
        first = free_port()
        options = {
            "fsid": fsid,
            "mon host": monitor,
            "public addr": "127.0.0.1",
            "cluster addr": "127.0.0.1",
            "ms bind port min": min(first, 65000),
            "ms bind port max": min(first, 65000) + 100,
            "auth cluster required": "none",
            "auth service required": "none",
            "auth client required": "none",
            "osd pool default size": 1,
            "osd pool default min size": 1,
            "osd pool default pg autoscale mode": "off",
            "mon allow pool size one": "true",
            "osd crush chooseleaf type": 0,
            "osd objectstore": "memstore",
            "memstore device bytes": 1 << 30,
            "mon data avail crit": 0,
            "admin socket": "",
            "run dir": self.directory,
            "log file": f"{self.directory}/$name.log",
            "mon data": self.directory / "mon",
            "osd data": f"{self.directory}/osd$id",
        }
        self.conf.write_text("[global]\n" + "".join(f"{name} = {value}\n" for name, value in options.items()))
        monmap = self.directory / "monmap"
        self._run("monmaptool", "--create", "--fsid", fsid, "--addv", "a", monitor, monmap)
        self._run("ceph-mon", "-c", self.conf, "--mkfs", "-i", "a", "--monmap", monmap)
        self._start("ceph-mon", "a")
        osd = str(uuid.uuid4())
        self.ceph("osd", "new", osd)
        self._run("ceph-osd", "-c", self.conf, "-i", "0", "--mkfs", "--osd-uuid", osd)
        self._start("ceph-osd", "0")
        wait_until(lambda: json.loads(self.ceph("osd", "stat", "-f", "json"))["num_up_osds"] == 1, 30, "the OSD")
        return self

    def stop(self):
        for process in reversed(self.processes):
            process.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def create_pool(self, name):
        self.ceph("osd", "pool", "create", name, "4", "4")

    def ceph(self, *arguments):
        return self._run("ceph", "-c", self.conf, *arguments)

    def rados(self, *arguments):
        return self._run("rados", "-c", self.conf, *arguments)

    def _start(self, program, name):
        command = [program, "-f", "-c", self.conf, "-i", name]
        self.processes.append(Process(command, self.directory / f"{program}.out"))

    def _run(self, *command):
        done = subprocess.run(
            [*map(str, command)],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
            env={**os.environ, "CEPH_ARGS": ""},
        )
        if done.returncode != 0:
            raise RuntimeError(f"{command}: {done.stderr[-2000:]}")
        return done.stdout

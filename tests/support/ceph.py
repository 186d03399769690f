"""A small Ceph of one's own in a directory: one monitor and OSDs on the memory store, without authentication."""

import json
import os
import pathlib
import shutil
import subprocess
import uuid

from support.process import Process, free_port, required, wait_until

PROGRAMS = {
    "ceph-mon": "ceph-mon",
    "ceph-osd": "ceph-osd",
    "ceph-mgr": "ceph-mgr",
    "monmaptool": "ceph-base",
    "ceph": "ceph-common",
    "rados": "ceph-common",
}


class Ceph:
    """Started with `start()`; `rados()` and `ceph()` run those commands on it. Its directory's name must be short: a socket of
    the OSD lies in it."""

    def __init__(self, directory, osds=1, manager=False):
        """With more than one OSD each object is on two of them. Some commands, such as those of placement groups, need the
        manager."""
        for program, package in PROGRAMS.items():
            required(program, package)
        self.directory = pathlib.Path(directory)
        self.conf = self.directory / "ceph.conf"
        self.osds, self.manager = osds, manager
        self.processes, self.pools = {}, None

    def start(self):
        for name in ["mon", "mgr", *(f"osd{number}" for number in range(self.osds))]:
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
            "ms mon client mode": "crc",
            "osd pool default size": min(self.osds, 2),
            "osd pool default min size": 1,
            "osd pool default pg num": 4,
            "osd pool default pg autoscale mode": "off",
            "mon max pg per osd": 5000,
            "mon allow pool size one": "true",
            "osd crush chooseleaf type": 0,
            "osd objectstore": "memstore",
            "memstore device bytes": 1 << 30,
            "mon data avail crit": 0,
            "admin socket": "",
            "run dir": self.directory,
            "log file": f"{self.directory}/$name.log",
            "mon data": self.directory / "mon",
            "mgr data": self.directory / "mgr",
            # One that ends is noticed by its closed port, and the others go on. (One that is slow is no reason: what is written
            # meanwhile would be on the other alone.)
            "osd heartbeat grace": 300,
            # What the lost one may still answer is a part of that grace, and nobody else answers before it has passed: 6 s.
            "osd pool default read lease ratio": 0.02,
            "mon osd min down reporters": 1,
            "paxos propose interval": 0.05,
            "osd data": f"{self.directory}/osd$id",
        }
        self.conf.write_text("[global]\n" + "".join(f"{name} = {value}\n" for name, value in options.items()))
        monmap = self.directory / "monmap"
        self.run("monmaptool", "--create", "--fsid", fsid, "--addv", "a", monitor, monmap)
        self.run("ceph-mon", "-c", self.conf, "--mkfs", "-i", "a", "--monmap", monmap)
        self._start("ceph-mon", "a")
        for number in range(self.osds):
            osd = str(uuid.uuid4())
            self.ceph("osd", "new", osd)
            self.run("ceph-osd", "-c", self.conf, "-i", number, "--mkfs", "--osd-uuid", osd)
            self._start("ceph-osd", number)
        if self.manager:
            self._start("ceph-mgr", "x")
        wait_until(lambda: self.osds_up() == self.osds, 60, "the OSDs")
        return self

    def osds_up(self):
        return json.loads(self.ceph("osd", "stat", "-f", "json"))["num_up_osds"]

    def lose_osd(self, number):
        """Ends an OSD and what it had in memory; the others go on."""
        self.processes[f"ceph-osd.{number}"].kill()
        wait_until(lambda: self.osds_up() < self.osds, 60, "the loss of an OSD")

    def stop(self):
        if self.pools is not None:
            self.pools.kill()
            self.pools.communicate()
        for process in reversed(self.processes.values()):
            process.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def create_pool(self, name):
        """By a process that stays, since the command takes half a second to load. It tells in a line what became of a pool."""
        if self.pools is None:
            self.pools = subprocess.Popen(["ceph", "-c", self.conf], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                          text=True, env={**os.environ, "CEPH_ARGS": ""})
        self.pools.stdin.write(f"osd pool create {name} 4 4\n")
        self.pools.stdin.flush()
        for line in self.pools.stderr:
            # It is created, or already exists.
            if line.startswith(f"pool '{name}' "):
                return
            if line.startswith("Error"):
                raise RuntimeError(line)
        raise RuntimeError(f"ceph ended with {self.pools.wait(10)}")

    def ceph(self, *arguments):
        return self.run("ceph", "-c", self.conf, *arguments)

    def rados(self, *arguments):
        return self.run("rados", "-c", self.conf, *arguments)

    def _start(self, program, name):
        command = [program, "-f", "-c", self.conf, "-i", str(name)]
        self.processes[f"{program}.{name}"] = Process(command, self.directory / f"{program}.{name}.out")

    def run(self, *command):
        done = subprocess.run(
            [*map(str, command)],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
            env={**os.environ, "CEPH_ARGS": ""},
        )
        if done.returncode != 0:
            raise RuntimeError(f"{command}: {done.stderr[-2000:]}")
        return done.stdout

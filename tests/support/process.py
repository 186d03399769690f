"""Starting, watching and ending one child process; free ports; waiting with a limit.

Independent of the program: see `gnudi.py`, `postgres.py` and `gnocchi.py`.
"""

import contextlib
import fcntl
import functools
import itertools
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time


def running(server):
    """For a fixture: starts a server, and stops it at the end."""
    try:
        yield server.start()
    finally:
        server.stop()


def each_made(make, end):
    """For a fixture: what makes and starts servers or agents, `make(number, ...)` each of them; all end with the test."""
    everything = []

    def start_one(*args, **kwargs):
        everything.append(make(len(everything), *args, **kwargs))
        return everything[-1].start()

    yield start_one
    for one in everything:
        end(one)


class ProgramMissing(Exception):
    """A program that a test needs is not on this machine."""


def required(program, package=None):
    """The path of a program, from the Debian package of its name unless told."""
    path = shutil.which(program)
    if path is None:
        raise ProgramMissing(f"{program} is missing: run scripts/install-test-deps, or install `{package or program}`")
    return path


def at_once(work, arguments):
    """Calls `work` with each of the arguments in a thread of its own, and waits for all."""
    threads = [threading.Thread(target=work, args=(argument,)) for argument in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class StartFailed(Exception):
    """The process ended, or didn't answer, before it was ready. The text carries the end of its log."""


class Ports:
    """Ports of the loopback interface that this process alone gives out.

    They lie below those that Linux gives to outgoing connections. A port that is only looked up (`bind` to 0) can go to
    two servers at a time, one of which then answers the other's client.
    """

    RANGE = range(20_000, 32_000)
    BLOCK = 500

    def __init__(self):
        firsts = list(self.RANGE[:: self.BLOCK])
        random.SystemRandom().shuffle(firsts)
        for first in firsts:
            self.lock_file = open(pathlib.Path(tempfile.gettempdir()) / f"gnudi-test-ports-{first}", "w")
            try:
                fcntl.flock(self.lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.lock_file.close()
                continue
            self.ports = itertools.cycle(range(first, first + self.BLOCK))
            self.guard = threading.Lock()
            return
        raise RuntimeError(f"other test runs have all ports from {self.RANGE[0]} to {self.RANGE[-1]}")

    def next(self, kind):
        with self.guard:
            for port in itertools.islice(self.ports, self.BLOCK):
                with socket.socket(socket.AF_INET, kind) as probe, contextlib.suppress(OSError):
                    probe.bind(("127.0.0.1", port))
                    return port
        raise RuntimeError("no port is free")


@functools.cache
def _ports():
    return Ports()


def free_port():
    """A TCP port of the loopback interface that nobody listens on; it comes again after 500 others."""
    return _ports().next(socket.SOCK_STREAM)


def free_udp_port():
    """As `free_port`, for datagrams."""
    return _ports().next(socket.SOCK_DGRAM)


def listens(port):
    """Whether somebody accepts connections to a port of the loopback interface."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_until(condition, timeout_s, what):
    """Calls `condition` until it answers something true, which is returned; fails after `timeout_s`. Pauses are an eighth of the time
    waited so far: few servers take a tenth of a second to start."""
    began = time.monotonic()
    while True:
        answer = condition()
        if answer:
            return answer
        waited_s = time.monotonic() - began
        if waited_s > timeout_s:
            raise TimeoutError(f"{what}: not within {timeout_s} s")
        time.sleep(min(max(waited_s / 8, 0.005), 0.1))


class Process:
    """One child process in its own process group, with its output in one file."""

    def __init__(self, command, log_path, env=None, cwd=None):
        self.command = [str(part) for part in command]
        self.log_path = str(log_path)
        with open(self.log_path, "ab") as log:
            self.child = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {})},
                cwd=cwd,
                start_new_session=True,
            )

    @property
    def pid(self):
        return self.child.pid

    def running(self):
        return self.child.poll() is None

    def memory_bytes(self, name):
        """A figure of its memory, as the kernel tells it: VmRSS, VmHWM, RssAnon."""
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith(name + ":")).split()[1]) << 10

    def processor_seconds(self):
        """What all its threads have used. It does not depend on other programs."""
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def log(self):
        with open(self.log_path, "rb") as log:
            return log.read().decode("utf-8", "replace")

    def wait_ready(self, ready, timeout_s):
        """Waits until `ready()`; a process that ends first is a `StartFailed` with its log."""

        def ready_or_dead():
            return not self.running() or ready()

        try:
            wait_until(ready_or_dead, timeout_s, self.command[0])
        except TimeoutError as error:
            self.kill()
            raise StartFailed(f"{error}\n{self.log()[-4000:]}") from None
        if not self.running():
            raise StartFailed(f"{self.command[0]} ended with {self.child.returncode}\n{self.log()[-4000:]}")

    def terminate(self, timeout_s=60):
        """SIGTERM, and the exit status. A process that is still there after `timeout_s` fails the test."""
        if self.running():
            self.child.send_signal(signal.SIGTERM)
        try:
            return self.child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(
                f"{self.command[0]} did not end within {timeout_s} s of SIGTERM\n{self.log()[-4000:]}"
            ) from None

    def kill(self):
        """kill -9 of the whole group: what a crash does to the process."""
        # Once an ended process was waited for, another one may have its id.
        if self.child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.child.pid, signal.SIGKILL)
        self.child.wait()


class Program:
    """One of gnudi's programs: `process` once it was started, and its log at `log_path`."""

    process = None

    def log(self):
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def stop(self):
        """SIGTERM; answers the exit status."""
        return self.process.terminate()

    def kill(self):
        self.process.kill()

    def end(self):
        """Kills it if it runs."""
        if self.process is not None and self.process.running():
            self.kill()


class Engine:
    """A server of one process, `process` while it runs."""

    process = None

    def stop(self):
        """Ends it at once: connections to its port are refused then."""
        if self.process is not None:
            self.process.kill()
            self.process = None

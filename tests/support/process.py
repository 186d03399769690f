"""Starting, watching and ending one child process; free ports; waiting with a limit.

Nothing here knows which program runs: `gnudi.py`, `postgres.py` and `gnocchi.py` do.
"""

import os
import signal
import socket
import subprocess
import time


class StartFailed(Exception):
    """The process ended, or didn't answer, before it was ready. The text carries the end of its log."""


def free_port():
    """A TCP port of the loopback interface that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(condition, timeout_s, what):
    """Calls `condition` until it answers something true, which is returned; fails after `timeout_s`."""
    end = time.monotonic() + timeout_s
    pause_s = 0.005
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {timeout_s} s")
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, 0.1)


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

    def terminate(self, timeout_s=15):
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
        try:
            os.killpg(self.child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.child.wait()

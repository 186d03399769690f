"""The `gnocchi` command of gnocchiclient without the third of a second that it takes to load: a process that has loaded all of it
forks for each call, and the fork has the caller's arguments, environment, directory, input and outputs.

`WarmGnocchi` makes a directory with the programs `gnocchi`, which asks that process, and `openstack`, the installed one.
"""

import contextlib
import importlib
import importlib.metadata
import json
import os
import pathlib
import signal
import socket
import sys
import time
import traceback

from support.process import Process

START_TIMEOUT_S = 60
PLUGINS = ["keystoneauth1.plugin", "cliff.formatter.list", "cliff.formatter.show"]
PROGRAM = """\
#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect({path!r})
    asked = json.dumps([sys.argv, dict(os.environ), os.getcwd()]).encode()
    socket.send_fds(connection, [len(asked).to_bytes(4, "big")], [0, 1, 2])
    connection.sendall(asked)
    status = connection.recv(1)
sys.exit(status[0] if status else 70)
"""


class WarmGnocchi:
    """Its directory's name must be short: a socket lies in it."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.process = None

    def start(self):
        self.directory.mkdir()
        path = self.directory / "socket"
        program = self.directory / "gnocchi"
        program.write_text(PROGRAM.format(python=sys.executable, path=str(path)))
        program.chmod(0o755)
        (self.directory / "openstack").symlink_to(pathlib.Path(sys.executable).with_name("openstack"))
        self.process = Process([sys.executable, "-m", "support.warm_gnocchi", path], self.directory / "log",
                               cwd=pathlib.Path(__file__).resolve().parents[1])
        self.process.wait_ready(path.exists, START_TIMEOUT_S)
        return self

    def stop(self):
        self.process.kill()


def serve(path):
    """Loads the command with all its parts, and forks for each connection."""
    for group in PLUGINS:
        for entry in importlib.metadata.entry_points(group=group):
            # One whose library is not installed is not there for the command either.
            with contextlib.suppress(ImportError, AttributeError):
                entry.load()
    from gnocchiclient import shell, utils

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{path}.new")
    listener.listen(64)
    os.rename(f"{path}.new", path)
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            call(connection, shell.main, utils)
        connection.close()


def call(connection, main, utils):
    """In the fork: becomes the caller, tells it the exit status, and ends."""
    size, descriptors, _, _ = socket.recv_fds(connection, 4, 3)
    text = b""
    while len(text) < int.from_bytes(size, "big"):
        text += connection.recv(1 << 20)
    sys.argv, environment, directory = json.loads(text)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(environment)
    # The module reads the time zone when it is loaded.
    time.tzset()
    importlib.reload(utils)
    os.chdir(directory)
    try:
        sys.exit(main())
    except SystemExit as end:
        status = 0 if end.code is None else end.code
        if not isinstance(status, int):
            print(status, file=sys.stderr)
            status = 1
    except BaseException:  # pylint: disable=broad-except
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    connection.send(bytes([status & 255]))
    os._exit(status & 255)


if __name__ == "__main__":
    serve(sys.argv[1])

"""Parses strace's output of a process: the names that it created and the directories that it synced before its first response."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import threading

STRACE = shutil.which("strace")
NAMING = ["mkdir", "mkdirat", "rename", "renameat", "renameat2", "link", "linkat"]
SYNCING = ["fsync", "fdatasync"]
WRITING = ["write", "writev", "sendto", "sendmsg"]
# A call that another thread's line interrupts is written in two parts.
UNFINISHED = re.compile(r"^(\d+)\s+(.*) <unfinished \.\.\.>$")
RESUMED = re.compile(r"^(\d+)\s+<\.\.\. \w+ resumed>(.*)$")
CALL = re.compile(r"^\d+\s+(\w+)\((.*)\)\s+= (-?\d+)")
BEGUN = re.compile(r"^\d+\s+(\w+)\((.*)")
TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')
DESCRIPTOR = re.compile(r"^\d+<([^>]*)>")
ANSWERED = re.compile(r'"HTTP/1\.1 2\d\d ')


def traced(command, output, inject=None, path=None):
    """The command under strace, which writes to the file `output`. `inject`: what it does to calls, in its own words; with `path`
    only to those that concern that file, and no others are seen."""
    calls = ",".join(NAMING + SYNCING + WRITING)
    # -y: the path of each descriptor.
    options = ["-f", "-y", "-s", "100", "-e", f"trace={calls}", "-e", "signal=none", "-o", output]
    options += ["-P", path] if path else []
    return [STRACE, *options, *(["-e", f"inject={inject}"] if inject else []), *command]


@contextlib.contextmanager
def injected(pid, inject, paths=(), threads=False):
    """What strace does to calls of a process, or thread, that runs: `inject` in its own words, of calls that concern `paths`, if given;
    `threads`: of all its threads."""
    call = inject.partition(":")[0]
    options = ["-f"] if threads else []
    for path in paths:
        options += ["-P", os.fspath(path)]
    command = [STRACE, *options, "-e", f"trace={call}", "-e", f"inject={inject}", "-e", "signal=none", "-p", str(pid)]
    tracer = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        # It says so once it has attached.
        told = tracer.stderr.readline()
        assert "attached" in told, told
        # What else it says must not fill the pipe.
        threading.Thread(target=tracer.stderr.read, daemon=True).start()
        yield
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.wait(15)


def kill(process):
    """Kills what is traced, and waits until strace has written all that it saw."""
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    for child in children:
        os.kill(int(child), signal.SIGKILL)
    process.child.wait(15)


def calls(output):
    """(name, arguments as a text) of each call that succeeded, in the order in which they ended; of those that write, in the
    order in which they began, whatever came of them."""
    begun = {}
    for line in output.read_text(errors="replace").splitlines():
        match = BEGUN.match(line)
        if match and match[1] in WRITING:
            yield match[1], match[2]
            continue
        if match := UNFINISHED.match(line):
            begun[match[1]] = match[2]
            continue
        if match := RESUMED.match(line):
            line = f"{match[1]} {begun.pop(match[1], '')}{match[2]}"
        match = CALL.match(line)
        if match and int(match[3]) >= 0:
            yield match[1], match[2]


def not_durable(output, data_dir, cwd, found=()):
    """Of the names made in `data_dir` and on the way to it, and those `found` there, the ones whose directory was not synced
    between their making and the first answer 2xx."""
    data_dir, names = os.path.realpath(data_dir), {str(path) for path in found}
    for name, arguments in calls(output):
        if name in WRITING:
            if ANSWERED.search(arguments):
                return sorted(names)
        elif name in SYNCING:
            synced = DESCRIPTOR.match(arguments)[1]
            names = {path for path in names if os.path.dirname(path) != synced}
        else:
            path = os.path.normpath(os.path.join(os.path.realpath(cwd), TEXT.findall(arguments)[-1]))
            if f"{path}/".startswith(f"{data_dir}/") or data_dir.startswith(f"{path}/"):
                names.add(path)
    raise AssertionError("no answer 2xx was seen")

"""Records the file operations of a process: parses strace's lines to calls, and converts calls to operations on a disk.

strace sees the beginning and the end of each call. If one call returns before another begins, the trace has them in that order; ticks
number the beginnings and ends. Writes that strace cannot show (through a mapping or io_uring) are refused: a recording without them would
prove nothing.
"""

import dataclasses
import os
import re
import signal

from power_cut.disk import ROOT, Operation
from support.process import Process, wait_until

FILE_CALLS = ("open openat creat close dup dup2 dup3 lseek write pwrite64 writev pwritev pwritev2 truncate ftruncate "
              "fallocate rename renameat renameat2 unlink unlinkat link linkat symlink symlinkat mkdir mkdirat rmdir fsync "
              "fdatasync sync syncfs sync_file_range")
ANSWER_CALLS = "sendto sendmsg"
# None of them may touch a file that is modelled.
BLIND_CALLS = "mmap msync io_uring_setup io_submit copy_file_range sendfile splice vmsplice"
TRACED = ",".join(f"{FILE_CALLS} {ANSWER_CALLS} {BLIND_CALLS}".split())
# The longest data of one call that is shown; a longer one fails the recording.
DATA_BYTES_MAX = 256 << 20
START_TIMEOUT_S = 60

LINE = re.compile(r"(?P<pid>\d+) +(?P<rest>.*)", re.DOTALL)
COMPLETE = re.compile(r"(?P<name>\w+)\((?P<arguments>.*)\) += (?P<answer>-?\w+|\?)", re.DOTALL)
BEGUN = re.compile(r"(?P<name>\w+)\((?P<arguments>.*?),? ?<unfinished \.\.\.>", re.DOTALL)
# Of a call that another thread's line interrupted and a kill ended: `<... pwrite64 resumed> <unfinished ...>) = ?`.
RESUMED = re.compile(r"<\.\.\. (?P<name>\w+) resumed>(?P<arguments>.*?)(?: <unfinished \.\.\.>)?\) += (?P<answer>-?\w+|\?)", re.DOTALL)
TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"(\.\.\.)?')
DESCRIPTOR = re.compile(r"(?P<number>AT_FDCWD|\d+)(?:<(?P<target>(?:->|[^>])*)>)?")
PEER = re.compile(r"->\[?[^\]]*?:(\d+)\]$")
STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})")
# SQLite's shared memory is a mapping that each start builds anew: no image has it.
VOLATILE = "-shm"


class NotModelled(Exception):
    """The process did something to its files that the model of the disk does not know."""


@dataclasses.dataclass
class Call:
    """A system call: its text and where it stands. `ended` is None for one that the end of the process cut short."""

    name: str
    arguments: str
    began: int
    ended: int = None
    answer: str = "?"

    def texts(self):
        found = []
        for text, cut in TEXT.findall(self.arguments):
            if cut:
                raise NotModelled(f"{self.name} with more than {DATA_BYTES_MAX} bytes")
            found.append(bytes.fromhex(text.replace("\\x", "")))
        return found

    def numbers(self):
        """The arguments that are plain numbers, in order; those in brackets and texts left out."""
        plain = re.sub(r"\[.*\]|\"[^\"]*\"", "", self.arguments, flags=re.DOTALL)
        return [int(part) for part in plain.split(",") if re.fullmatch(r" *-?\d+ *", part)]

    def descriptors(self):
        """(number or AT_FDCWD, what it stands for) of each descriptor."""
        plain = re.sub(r'"[^"]*"(\.\.\.)?', '""', self.arguments)
        return [(m["number"], decoded(m["target"] or "")) for m in DESCRIPTOR.finditer(plain) if m["target"]]


def decoded(target):
    return re.sub(r"\\x([0-9a-f]{2})", lambda match: chr(int(match[1], 16)), target)


def calls(lines, first_tick=0):
    """The calls of a trace in the order of their ends, and the next tick. Those that never ended come last."""
    tick, open_calls, found = first_tick, {}, []
    for line in lines:
        match = LINE.match(line)
        if match is None:
            continue
        pid, rest = match["pid"], match["rest"]
        if resumed := RESUMED.match(rest):
            call = open_calls.pop(pid)
            call.arguments += resumed["arguments"]
            call.answer, call.ended = resumed["answer"], tick
            tick += 1
        elif begun := BEGUN.match(rest):
            open_calls[pid] = Call(begun["name"], begun["arguments"], tick)
            tick += 1
            continue
        elif complete := COMPLETE.match(rest):
            call = Call(complete["name"], complete["arguments"], tick, tick + 1, complete["answer"])
            tick += 2
        else:
            continue
        # Of a call that a signal ended nobody knows the answer.
        if call.answer == "?":
            call.ended = None
            open_calls[f"{pid} {tick}"] = call
        else:
            found.append(call)
    return found + list(open_calls.values()), tick


@dataclasses.dataclass
class Answer:
    """The head of an HTTP response as it was handed to the system."""

    port: int
    status: int
    tick: int


@dataclasses.dataclass
class Handle:
    """An open file of a modelled inode."""

    inode: int
    append: bool
    position: int = 0


class Translator:
    """Makes operations of the calls of one process after the other; knows names and sizes as the page cache has them."""

    def __init__(self, root, tree):
        """`root` is the real path of the modelled directory; `tree` a [`power_cut.disk.Tree`] of what it holds."""
        self.root, self.tree = os.path.realpath(root), tree
        self.operations, self.answers = [], []
        self.handles = {}

    def process(self, found, end_tick):
        """Adds the calls of one process, which ended at `end_tick`."""
        self.handles = {}
        for call in self.in_effect_order(found, end_tick):
            if call.name in BLIND_CALLS.split():
                self.refuse(call)
            elif call.name == "close":
                self.handles.pop(self.number(call), None)
            elif call.answer.startswith("-") and call.name not in ("sendto", "sendmsg"):
                continue
            else:
                getattr(self, "on_" + call.name)(call)

    def in_effect_order(self, found, end_tick):
        """A descriptor is free from the beginning of its close on; all else counts when it ends."""
        for call in found:
            if call.ended is None:
                call.ended, call.answer = end_tick, self.outcome(call)
        kept = [call for call in found if call.answer != "?"]
        return sorted(kept, key=lambda call: call.began if call.name == "close" else call.ended)

    def outcome(self, call):
        """The answer of a call that the process did not live to see the end of: the real directory says what became of it.
        An HTTP answer may have arrived. A sync has promised nothing."""
        if "<TCP:" in call.arguments:
            return "0"
        if call.name in ("pwrite64", "pwritev", "fallocate", "ftruncate"):
            target = dict(call.descriptors()).get(str(self.number(call)), "")
            if target.startswith(self.root + "/") and os.path.exists(target):
                return self.extent(call, target)
        if call.name in ("rename", "unlink", "mkdir", "openat"):
            path = os.path.join(self.directory_of(call), os.fsdecode(call.texts()[0]))
            there = os.path.lexists(path)
            if call.name in ("rename", "unlink"):
                return "?" if there else "0"
            return "0" if there and ("O_TRUNC" not in call.arguments or os.path.getsize(path) == 0) else "?"
        return "?"

    @staticmethod
    def extent(call, path):
        """How much of an unfinished write is in the file, or whether it has got its length."""
        if call.name in ("fallocate", "ftruncate"):
            wanted = sum(call.numbers()[-2:]) if call.name == "fallocate" else call.numbers()[-1]
            return "0" if os.path.getsize(path) == wanted else "?"
        data = b"".join(call.texts())
        with open(path, "rb") as file:
            file.seek(call.numbers()[-1])
            written = len(os.path.commonprefix([data, file.read(len(data))]))
        return str(written) if written else "?"

    def directory_of(self, call):
        return next((target for _, target in call.descriptors()), "/")

    def refuse(self, call):
        if call.name == "mmap" and not ("MAP_SHARED" in call.arguments and "PROT_WRITE" in call.arguments):
            return
        ours = [target for _, target in call.descriptors() if target.startswith(self.root + "/")]
        if call.name.startswith("io_uring") or any(not target.endswith(VOLATILE) for target in ours):
            raise NotModelled(f"{call.name} on {ours}: writes that strace does not show")

    def number(self, call):
        match = DESCRIPTOR.match(call.arguments)
        return int(match["number"]) if match and match["number"].isdigit() else None

    def handle(self, call):
        """The open file that a call is about; None for one outside of the modelled directory."""
        number = self.number(call)
        handle = self.handles.get(number)
        target = dict(call.descriptors()).get(str(number), "")
        if handle is None and target.startswith(self.root + "/") and not target.endswith(VOLATILE):
            raise NotModelled(f"{call.name} on {target}, whose descriptor came from nowhere")
        return handle

    def names(self, call):
        """(directory's inode, name) of each path; None for one outside of the modelled directory."""
        bases = [target for _, target in call.descriptors()] or [os.getcwd()]
        found = []
        for index, text in enumerate(call.texts()):
            base = bases[min(index, len(bases) - 1)]
            path = os.path.normpath(os.path.join(base, os.fsdecode(text)))
            ours = path == self.root or path.startswith(self.root + "/")
            found.append(self.tree.place(os.path.relpath(path, self.root)) if ours else None)
        return found

    def add(self, call, kind, **fields):
        if "directory" not in fields and fields["inode"] is not None:
            fields["name"] = self.tree.path(fields["inode"])
        operation = Operation(kind, call.began, call.ended, **fields)
        self.tree.apply(operation)
        self.operations.append(operation)

    def on_openat(self, call):
        place = self.names(call)[0]
        if place is None or place[1].endswith(VOLATILE):
            return
        if "O_TMPFILE" in call.arguments:
            raise NotModelled("O_TMPFILE")
        directory, name = place
        inode = ROOT if name == "." else self.tree.child(directory, name)
        if inode is None:
            inode = self.tree.new_inode()
            self.add(call, "create", directory=directory, name=name, inode=inode)
        elif "O_TRUNC" in call.arguments and self.tree.sizes[inode] > 0:
            self.add(call, "truncate", inode=inode, size=0)
        self.handles[int(call.answer)] = Handle(inode, "O_APPEND" in call.arguments)

    on_open = on_creat = on_openat

    def on_dup(self, call):
        handle = self.handle(call)
        if handle is not None:
            self.handles[int(call.answer)] = handle

    on_dup2 = on_dup3 = on_dup

    def on_lseek(self, call):
        handle = self.handle(call)
        if handle is not None:
            handle.position = int(call.answer)

    def on_write(self, call):
        handle = self.handle(call)
        if handle is None:
            self.on_sendto(call)
            return
        offset = self.tree.sizes[handle.inode] if handle.append else handle.position
        handle.position = offset + int(call.answer)
        self.write(call, handle, offset)

    on_writev = on_write

    def on_pwrite64(self, call):
        handle = self.handle(call)
        if handle is None:
            return
        # After the vector's length or the data's: pwritev2 has flags behind the offset.
        numbers = call.numbers()
        self.write(call, handle, numbers[-2] if call.name == "pwritev2" else numbers[-1])

    on_pwritev = on_pwritev2 = on_pwrite64

    def write(self, call, handle, offset):
        data = b"".join(call.texts())[: int(call.answer)]
        assert len(data) == int(call.answer), f"{call.name}: {len(data)} bytes shown of {call.answer}"
        if data:
            self.add(call, "write", inode=handle.inode, offset=offset, data=data)

    def on_ftruncate(self, call):
        handle = self.handle(call)
        if handle is not None:
            self.add(call, "truncate", inode=handle.inode, size=call.numbers()[-1])

    def on_truncate(self, call):
        place = self.names(call)[0]
        if place is not None:
            self.add(call, "truncate", inode=self.tree.child(*place), size=call.numbers()[-1])

    def on_fallocate(self, call):
        handle = self.handle(call)
        if handle is None:
            return
        if "FALLOC_FL" in call.arguments:
            raise NotModelled(f"fallocate with a mode: {call.arguments}")
        offset, length = call.numbers()[-2:]
        if offset + length > self.tree.sizes[handle.inode]:
            self.add(call, "truncate", inode=handle.inode, size=offset + length)

    def on_rename(self, call):
        source, target = self.names(call)
        if source is None and target is None:
            return
        if source is None or target is None or source[0] != target[0] or "RENAME_" in call.arguments:
            raise NotModelled(f"a rename between directories: {call.texts()}")
        self.add(call, "rename", directory=source[0], source=source[1], name=target[1],
                 inode=self.tree.child(*source))

    on_renameat = on_renameat2 = on_rename

    def on_unlink(self, call):
        place = self.names(call)[0]
        if place is not None and not place[1].endswith(VOLATILE):
            self.add(call, "unlink", directory=place[0], name=place[1])

    on_unlinkat = on_rmdir = on_unlink

    def on_mkdir(self, call):
        place = self.names(call)[0]
        if place is not None:
            self.add(call, "mkdir", directory=place[0], name=place[1], inode=self.tree.new_inode())

    on_mkdirat = on_mkdir

    def on_link(self, call):
        source, target = self.names(call)
        if target is not None:
            self.add(call, "create", directory=target[0], name=target[1], inode=self.tree.child(*source))

    on_linkat = on_link

    def on_symlink(self, call):
        if any(self.names(call)):
            raise NotModelled("a symbolic link")

    on_symlinkat = on_symlink

    def on_fsync(self, call):
        handle = self.handle(call)
        if handle is not None:
            self.add(call, "sync", inode=handle.inode)

    on_fdatasync = on_fsync

    def on_sync(self, call):
        self.add(call, "sync", inode=None)

    on_syncfs = on_sync

    def on_sync_file_range(self, call):
        """It promises nothing after a power cut."""

    def on_sendto(self, call):
        peer = next((PEER.search(target) for _, target in call.descriptors()), None)
        texts = call.texts() if peer else []
        status = STATUS.match(texts[0]) if texts else None
        if status:
            self.answers.append(Answer(int(peer[1]), int(status[1]), call.began))

    on_sendmsg = on_sendto


class Traced:
    """A process under strace: started, watched, ended; its trace is a file."""

    def __init__(self, command, trace_path, log_path):
        self.trace_path = trace_path
        self.process = Process(["strace", "-f", "-yy", "-xx", "-s", str(DATA_BYTES_MAX), "--seccomp-bpf", "-o",
                                trace_path, "-e", f"trace={TRACED}", *command], log_path)

    def pid(self):
        """Of the program itself."""
        children = f"/proc/{self.process.pid}/task/{self.process.pid}/children"

        def child():
            with open(children, encoding="ascii") as file:
                return file.read().split()
        return int(wait_until(child, START_TIMEOUT_S, "strace to start the program")[0])

    def end(self, number):
        """Sends a signal to the program, and waits until strace has written all."""
        os.kill(self.pid(), number)
        self.process.child.wait(START_TIMEOUT_S)

    def kill(self):
        self.end(signal.SIGKILL)

    def lines(self):
        with open(self.trace_path, encoding="ascii", errors="replace") as file:
            yield from file

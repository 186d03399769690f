"""The possible contents of a disk after a power cut.

The rules are POSIX's, without the stronger guarantees of any file system. Bytes are durable once an fsync or fdatasync of their file
that began after they were written has ended; names once their directory was synced in the same way. Anything else may be there or not,
in any order, for each 512-byte sector separately. Assumptions: a sector is old or new, never mixed; the newest content of a sector
contains the older writes, since the page cache writes it as a whole; a rename within a directory is there or not; the lengths of one file
become durable in their order.
"""

import dataclasses
import hashlib
import os

SECTOR_BYTES = 512
ROOT = 0
# Stands among the kept sectors of a torn write for the length of the file.
LENGTH = -1


@dataclasses.dataclass(eq=False)
class Operation:
    """One change, or sync, of a file or directory. `began` and `ended` are ticks of the recording.

    create, mkdir: `directory`, `name`, `inode`. rename: `directory`, `source`, `name`, `inode`. unlink: `directory`, `name`.
    write: `inode`, `offset`, `data`. truncate, which may also make longer: `inode`, `size`. sync: `inode`, or None for all. Where
    there is no directory, `name` is the path that the file had.
    """

    kind: str
    began: int
    ended: int
    inode: int = None
    directory: int = None
    name: str = None
    source: str = None
    offset: int = 0
    data: bytes = b""
    size: int = 0

    def is_name(self):
        return self.directory is not None

    def sectors(self):
        """The numbers of the sectors that a write touches."""
        return range(self.offset // SECTOR_BYTES, (self.offset + len(self.data) - 1) // SECTOR_BYTES + 1)

    def __str__(self):
        what = f"{self.source} -> {self.name}" if self.source else self.name or "all"
        extent = {"write": f" {len(self.data)} at {self.offset}", "truncate": f" to {self.size}"}
        return f"{self.kind} {what}{extent.get(self.kind, '')} @{self.began}"


class Tree:
    """Names and lengths as the page cache has them: every operation counts at once."""

    def __init__(self):
        self.entries, self.sizes, self.parents = {ROOT: {}}, {ROOT: 0}, {ROOT: (None, "")}

    def new_inode(self):
        return max(self.sizes) + 1

    def child(self, directory, name):
        return self.entries[directory].get(name)

    def place(self, path):
        """(directory's inode, last name) of a relative path; the root is (ROOT, ".")."""
        *parents, name = path.split("/")
        directory = ROOT
        for parent in parents:
            directory = self.entries[directory][parent]
        return directory, name

    def path(self, inode):
        directory, name = self.parents[inode]
        return name if directory in (None, ROOT) else f"{self.path(directory)}/{name}"

    def apply(self, operation):
        kind, inode = operation.kind, operation.inode
        if kind in ("create", "mkdir", "rename", "unlink"):
            change_names(self.entries[operation.directory], operation)
        if kind in ("create", "mkdir", "rename"):
            self.parents[inode] = (operation.directory, operation.name)
            self.sizes.setdefault(inode, 0)
        if kind == "mkdir":
            self.entries[inode] = {}
        if kind in ("write", "truncate"):
            self.sizes[inode] = size_after(self.sizes[inode], operation)


def change_names(entries, operation):
    """Carries out an operation on the names of one directory; what it takes for granted may be missing."""
    if operation.kind == "unlink":
        entries.pop(operation.name, None)
        return
    if operation.kind == "rename":
        entries.pop(operation.source, None)
    entries[operation.name] = operation.inode


def size_after(size, operation):
    return operation.size if operation.kind == "truncate" else max(size, operation.offset + len(operation.data))


class Content:
    """Sectors and length of a file; what was never written is zeros."""

    def __init__(self, sectors=None, size=0):
        self.sectors, self.size = sectors or {}, size

    @classmethod
    def of(cls, data):
        content = cls()
        if data:
            content.write(Operation("write", 0, 0, inode=0, data=data), lambda sector: True)
        content.size = len(data)
        return content

    def write(self, operation, wanted):
        data, offset = operation.data, operation.offset
        for sector in operation.sectors():
            if not wanted(sector):
                continue
            start = sector * SECTOR_BYTES
            low, high = max(start, offset), min(start + SECTOR_BYTES, offset + len(data))
            piece = data[low - offset:high - offset]
            if len(piece) < SECTOR_BYTES:
                old = self.sectors.get(sector, bytes(SECTOR_BYTES))
                piece = old[:low - start] + piece + old[high - start:]
            self.sectors[sector] = piece

    def cut(self, size, wanted):
        """Zeros from `size` on."""
        for sector in [s for s in self.sectors if (s + 1) * SECTOR_BYTES > size and wanted(s)]:
            keep = size - sector * SECTOR_BYTES
            if keep <= 0:
                del self.sectors[sector]
            else:
                self.sectors[sector] = self.sectors[sector][:keep].ljust(SECTOR_BYTES, b"\0")

    def after(self, pending, kept):
        """The content with those of the `pending` operations that are `kept`: {operation: True or a set of sectors}."""
        newest, length_index, size, sizes = {}, -1, self.size, []
        for index, operation in enumerate(pending):
            choice = kept.get(operation)
            sizes.append(size_after(size, operation))
            if choice and operation.kind == "write":
                newest.update((s, index) for s in operation.sectors() if choice is True or s in choice)
            if choice and sizes[index] != size and (choice is True or LENGTH in choice):
                length_index = index
            size = sizes[index]
        result = Content(dict(self.sectors), self.size)
        for index, operation in enumerate(pending):
            if operation.kind == "write":
                result.write(operation, lambda sector, index=index: newest.get(sector, -1) >= index)
            else:
                result.cut(operation.size,
                           lambda sector, index=index: max(newest.get(sector, -1), length_index) >= index)
        if length_index >= 0:
            result.size = sizes[length_index]
        return result

    def bytes(self):
        whole = bytearray(self.size)
        for sector, piece in self.sectors.items():
            room = self.size - sector * SECTOR_BYTES
            if room > 0:
                whole[sector * SECTOR_BYTES:sector * SECTOR_BYTES + min(room, SECTOR_BYTES)] = piece[:room]
        return bytes(whole)


class Disk:
    """A disk with a cache: what is durable, and what is pending, at one tick of a recording.

    `ignore(operation, of a directory)`: syncs that this disk does not carry out, as a faulty program would not have asked for
    them.
    """

    def __init__(self, base=None, ignore=lambda operation, is_directory: False):
        """`base` is an [`Image`] that is durable."""
        self.contents = dict(base.contents) if base else {}
        self.entries = {inode: dict(names) for inode, names in base.entries.items()} if base else {ROOT: {}}
        self.pending, self.in_flight = [], []
        self.ignore = ignore

    def advance(self, operations, tick):
        """Takes up what ended before `tick` of `operations`, in the order of their ends, from the front; the rest stays."""
        while operations and operations[0].ended < tick:
            operation = operations.pop(0)
            if operation.kind == "mkdir":
                self.entries.setdefault(operation.inode, {})
            if operation.kind == "create":
                self.contents.setdefault(operation.inode, Content())
            if operation.kind != "sync":
                self.pending.append(operation)
            elif not self.ignore(operation, operation.inode in self.entries):
                self.sync(operation.inode, operation.began)
        # Calls are as long as the machine was busy: a few, and those soon.
        self.in_flight = [o for o in operations[:64] if o.began < tick and o.kind != "sync"]

    def copy(self):
        """The disk as it is, without the calls under way."""
        other = Disk(Image(self.entries, self.contents), self.ignore)
        other.pending = list(self.pending)
        return other

    def sync(self, inode, began):
        """Makes durable what was complete when the sync began."""
        covered = [o for o in self.pending if o.ended < began
                   and (inode is None or inode == (o.directory if o.is_name() else o.inode))]
        everything = dict.fromkeys(covered, True)
        for operation in covered:
            if operation.is_name():
                change_names(self.entries[operation.directory], operation)
        for touched in {o.inode for o in covered if not o.is_name()}:
            own = [o for o in covered if o.inode == touched and not o.is_name()]
            self.contents[touched] = self.contents[touched].after(own, everything)
        self.pending = [o for o in self.pending if o not in everything]

    def open_operations(self):
        """What a power cut now may leave or not."""
        return self.pending + self.in_flight

    def image(self, kept):
        """What is left if of the open operations those `kept` have reached the disk: {operation: True or a set of sectors}."""
        entries = {inode: dict(names) for inode, names in self.entries.items()}
        changes = {}
        for operation in self.open_operations():
            if operation.is_name():
                if operation.kind == "mkdir":
                    entries.setdefault(operation.inode, {})
                if kept.get(operation):
                    change_names(entries[operation.directory], operation)
            else:
                changes.setdefault(operation.inode, []).append(operation)
        contents = dict(self.contents)
        for inode, pending in changes.items():
            contents[inode] = contents.get(inode, Content()).after(pending, kept)
        return Image(entries, contents)


class Image:
    """The content of a disk: directories by inode, files by inode."""

    def __init__(self, entries=None, contents=None):
        self.entries, self.contents = entries or {ROOT: {}}, contents or {}

    def files(self, directory=ROOT, prefix=""):
        """(relative path, content; None for a directory) of all that has a name, sorted."""
        for name, inode in sorted(self.entries[directory].items()):
            if inode in self.entries:
                yield prefix + name, None
                yield from self.files(inode, f"{prefix}{name}/")
            else:
                yield prefix + name, self.contents.get(inode, Content())

    def tree(self):
        """The names and lengths, for a recording that begins on this image."""
        tree = Tree()
        for inode, names in self.entries.items():
            tree.entries[inode] = dict(names)
            tree.sizes.setdefault(inode, 0)
            for name, child in names.items():
                tree.parents[child] = (inode, name)
        for inode, content in self.contents.items():
            tree.sizes[inode] = content.size
        return tree

    def signature(self):
        digest = hashlib.blake2b(digest_size=16)
        for path, content in self.files():
            digest.update(f"{path} {content.size if content else 'directory'}\n".encode())
            for sector in sorted(content.sectors) if content else ():
                digest.update(sector.to_bytes(8, "little") + content.sectors[sector])
        return digest.hexdigest()

    def write(self, target):
        """Makes the directory `target` hold the image."""
        os.makedirs(target)
        for path, content in self.files():
            path = os.path.join(target, path)
            if content is None:
                os.mkdir(path)
                continue
            with open(path, "wb", buffering=0) as file:
                for start, data in runs(content.sectors):
                    os.pwrite(file.fileno(), data, start)
                os.ftruncate(file.fileno(), content.size)


def runs(sectors):
    """(offset, bytes) of neighbouring sectors, so that an image is written in few calls."""
    start, pieces = None, []
    for sector in sorted(sectors):
        if start is not None and sector != start + len(pieces):
            yield start * SECTOR_BYTES, b"".join(pieces)
            start, pieces = None, []
        start = sector if start is None else start
        pieces.append(sectors[sector])
    if pieces:
        yield start * SECTOR_BYTES, b"".join(pieces)

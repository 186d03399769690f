"""The model of the disk and the parser of strace's output, on small examples."""

import pytest

from power_cut.disk import LENGTH, ROOT, SECTOR_BYTES, Content, Disk, Image, Operation, Tree
from power_cut.images import choose, cuts, new_disk
from power_cut.record import NotModelled, Translator, calls

A, B = b"a" * SECTOR_BYTES, b"b" * SECTOR_BYTES
FILE = 5


class Script:
    """Operations one after the other, two ticks each."""

    def __init__(self, base=None):
        self.base, self.operations, self.tick = base or Image({ROOT: {"f": FILE}}, {FILE: Content()}), [], 0

    def do(self, kind, **fields):
        self.operations.append(Operation(kind, self.tick, self.tick + 1, **fields))
        self.tick += 2
        return self.operations[-1]

    def write(self, offset, data, inode=FILE):
        return self.do("write", inode=inode, offset=offset, data=data)

    def disk(self, **options):
        disk = Disk(self.base, **options)
        disk.advance(list(self.operations), self.tick)
        return disk


def read(image, path="f"):
    content = dict(image.files()).get(path)
    return None if content is None else content.bytes()


def test_what_was_not_synced_may_be_there_or_not():
    script = Script()
    write = script.write(0, b"hello")
    disk = script.disk()
    assert read(disk.image({})) == b""
    assert read(disk.image({write: True})) == b"hello"


def test_a_sync_covers_what_was_complete_when_it_began():
    script = Script()
    script.write(0, b"old")
    late = Operation("write", 2, 5, inode=FILE, offset=3, data=b"new")
    script.operations += [Operation("sync", 3, 4, inode=FILE), late]
    script.tick = 6
    disk = script.disk()
    assert read(disk.image({})) == b"old"
    assert read(disk.image({late: True})) == b"oldnew"


def test_a_call_under_way_may_have_happened():
    script = Script()
    write = script.write(0, b"hello")
    disk = Disk(script.base)
    disk.advance(list(script.operations), 1)
    assert disk.open_operations() == [write]
    assert read(disk.image({write: True})) == b"hello"


def test_a_torn_write_loses_whole_sectors():
    script = Script()
    write = script.write(0, A + A + A)
    disk = script.disk()
    assert read(disk.image({write: {0, 2, LENGTH}})) == A + bytes(SECTOR_BYTES) + A
    # Sectors without the length are there for nobody.
    assert read(disk.image({write: {0, 2}})) == b""


def test_the_newest_content_of_a_sector_has_the_older_ones():
    """Two appends in one sector: the page cache writes both, or the first alone, never the second alone."""
    script = Script()
    first, second = script.write(0, b"one"), script.write(3, b"two")
    disk = script.disk()
    assert read(disk.image({first: True})) == b"one"
    assert read(disk.image({second: True})) == b"onetwo"


def test_sectors_of_different_writes_are_independent():
    script = Script()
    script.write(0, A)
    second = script.write(SECTOR_BYTES, B)
    assert read(script.disk().image({second: True})) == bytes(SECTOR_BYTES) + B


def test_a_file_cut_short_and_written_again_has_no_old_bytes():
    script = Script(Image({ROOT: {"f": FILE}}, {FILE: Content.of(A + B)}))
    cut = script.do("truncate", inode=FILE, size=10)
    longer = script.do("truncate", inode=FILE, size=2 * SECTOR_BYTES)
    disk = script.disk()
    assert read(disk.image({})) == A + B
    assert read(disk.image({cut: True})) == A[:10]
    # Lengths become durable in their order: the later one has the earlier.
    assert read(disk.image({longer: True})) == A[:10].ljust(2 * SECTOR_BYTES, b"\0")


def test_names_are_durable_by_the_sync_of_their_directory_only():
    script = Script(Image())
    script.do("create", directory=ROOT, name="f", inode=FILE)
    script.write(0, b"hello")
    script.do("sync", inode=FILE)
    disk = script.disk()
    assert list(disk.image({}).files()) == []
    script.do("sync", inode=ROOT)
    assert read(script.disk().image({})) == b"hello"


def test_a_rename_is_there_or_not():
    script = Script(Image({ROOT: {"f": FILE, "f.tmp": 6}}, {FILE: Content.of(b"old"), 6: Content.of(b"new")}))
    rename = script.do("rename", directory=ROOT, source="f.tmp", name="f", inode=6)
    disk = script.disk()
    assert (read(disk.image({})), read(disk.image({}), "f.tmp")) == (b"old", b"new")
    assert (read(disk.image({rename: True})), read(disk.image({rename: True}), "f.tmp")) == (b"new", None)


def test_a_kill_keeps_what_is_pending():
    """The copy of a disk goes on by itself: a restart may sync what the process before has written."""
    script = Script()
    write = script.write(0, b"hello")
    disk = script.disk()
    after = disk.copy()
    after.advance([Operation("sync", script.tick, script.tick + 1, inode=FILE)], script.tick + 2)
    assert (read(after.image({})), after.pending) == (b"hello", [])
    assert (read(disk.image({})), disk.pending) == (b"", [write])


def test_a_directory_without_its_name_takes_all_in_it_along():
    script = Script(Image())
    mkdir = script.do("mkdir", directory=ROOT, name="d", inode=8)
    script.do("create", directory=8, name="f", inode=FILE)
    script.write(0, b"hello")
    script.do("sync", inode=FILE)
    script.do("sync", inode=8)
    disk = script.disk()
    assert list(disk.image({}).files()) == []
    assert read(disk.image({mkdir: True}), "d/f") == b"hello"


def test_unlinked_files_may_come_back():
    script = Script(Image({ROOT: {"f": FILE}}, {FILE: Content.of(b"old")}))
    unlink = script.do("unlink", directory=ROOT, name="f")
    disk = script.disk()
    assert read(disk.image({})) == b"old"
    assert list(disk.image({unlink: True}).files()) == []


def test_syncs_that_are_ignored_make_nothing_durable():
    script = Script(Image())
    script.do("create", directory=ROOT, name="f", inode=FILE)
    script.do("sync", inode=ROOT)
    disk = new_disk(script.base, ["dirsync"])
    disk.advance(list(script.operations), script.tick)
    assert list(disk.image({}).files()) == []


def test_images_are_written_as_they_are(tmp_path):
    image = Image({ROOT: {"d": 8, "f": FILE}, 8: {"g": 6}}, {FILE: Content.of(A + b"x"), 6: Content(size=1 << 20)})
    image.write(tmp_path / "disk")
    assert (tmp_path / "disk" / "f").read_bytes() == A + b"x"
    assert (tmp_path / "disk" / "d" / "g").read_bytes() == bytes(1 << 20)
    same = Image({ROOT: {"d": 8, "f": FILE}, 8: {"g": 6}}, {FILE: Content.of(A + b"x"), 6: Content(size=1 << 20)})
    assert same.signature() == image.signature()


def test_strategies_keep_what_they_say():
    import random
    opened = [Script().write(0, A), Script().do("mkdir", directory=ROOT, name="d", inode=8)]
    rng = random.Random(1)
    assert choose("durable", opened, rng) == {}
    assert choose("everything", opened, rng) == dict.fromkeys(opened, True)
    assert choose("names", opened, rng) == {opened[1]: True}
    assert choose("contents", opened, rng) == {opened[0]: True}
    assert len(choose("missing", opened, rng)) == len(choose("only", opened, rng)) == 1
    assert cuts(opened) == [1, 2]


def text(value):
    return '"' + "".join(f"\\x{byte:02x}" for byte in value.encode()) + '"'


def path(value):
    return "<" + text(value)[1:-1] + ">"


def translate(lines, root):
    translator = Translator(root, Tree())
    found, end = calls(lines)
    translator.process(found, end)
    return translator


def opened(name, number=3, flags="O_RDWR|O_CREAT"):
    return f"7 openat(AT_FDCWD{path('/')}, {text(name)}, {flags}, 0666) = {number}{path(name)}"


def test_calls_become_operations(tmp_path):
    name = f"{tmp_path}/f"
    found = translate([
        opened(name),
        f"7 pwrite64(3{path(name)}, {text('hello')}, 5, 4096) = 5",
        f"8 pwritev(3{path(name)}, [{{iov_base={text('ab')}, iov_len=2}}, {{iov_base={text('c')}, iov_len=1}}], 2, 0) = 2",
        f"7 fallocate(3{path(name)}, 0, 0, 8192) = 0",
        f"7 fdatasync(3{path(name)}) = 0",
        f"7 rename({text(name)}, {text(name + '2')}) = 0",
        f"7 unlink({text(name + '2')}) = 0",
    ], tmp_path).operations
    assert [o.kind for o in found] == ["create", "write", "write", "truncate", "sync", "rename", "unlink"]
    assert (found[1].offset, found[1].data) == (4096, b"hello")
    # Two of three bytes were taken.
    assert (found[2].offset, found[2].data) == (0, b"ab")
    assert found[3].size == 8192
    assert (found[5].source, found[5].name) == ("f", "f2")


def test_appends_go_to_the_end(tmp_path):
    name = f"{tmp_path}/f"
    append = f"7 write(3{path(name)}, {text('abc')}, 3) = 3"
    found = translate([opened(name, flags="O_WRONLY|O_CREAT|O_APPEND"), append, append], tmp_path).operations
    assert [o.offset for o in found[1:]] == [0, 3]


def test_calls_of_several_threads_keep_their_beginnings_and_ends(tmp_path):
    name = f"{tmp_path}/f"
    found = translate([
        opened(name),
        f"7 fdatasync(3{path(name)} <unfinished ...>",
        f"8 pwrite64(3{path(name)}, {text('x')}, 1, 0) = 1",
        "7 <... fdatasync resumed>) = 0",
    ], tmp_path).operations
    sync, write = found[2], found[1]
    assert (sync.kind, write.kind) == ("sync", "write")
    assert sync.began < write.began < write.ended < sync.ended


def test_a_descriptor_is_free_when_its_close_begins(tmp_path):
    one, two = f"{tmp_path}/one", f"{tmp_path}/two"
    found = translate([
        opened(one),
        f"7 close(3{path(one)} <unfinished ...>",
        opened(two).replace("7 ", "8 ", 1),
        "7 <... close resumed>) = 0",
        f"8 pwrite64(3{path(two)}, {text('x')}, 1, 0) = 1",
    ], tmp_path).operations
    assert found[2].inode == found[1].inode != found[0].inode


@pytest.mark.parametrize("last", ["7 +++ killed by SIGKILL +++", "7 <... pwrite64 resumed> <unfinished ...>) = ?"])
def test_a_kill_leaves_what_the_real_directory_has(tmp_path, last):
    """Calls that the process did not see the end of: a write that came halfway, a sync, a rename that did not happen."""
    name = f"{tmp_path}/f"
    (tmp_path / "f").write_bytes(b"a hel")
    found = translate([
        opened(name),
        f"8 pwrite64(3{path(name)}, {text('a ')}, 2, 0) = 2",
        f"7 pwrite64(3{path(name)}, {text('hello')}, 5, 2 <unfinished ...>",
        f"8 fdatasync(3{path(name)}) = ?",
        f"9 rename({text(name)}, {text(name + '2')} <unfinished ...>",
        last,
    ], tmp_path).operations
    assert [(o.kind, o.data) for o in found] == [("create", b""), ("write", b"a "), ("write", b"hel")]


def test_answers_have_their_place(tmp_path):
    answer = text("HTTP/1.1 202 Accepted")
    line = "9 writev(29<TCP:[127.0.0.1:18999->127.0.0.1:53842]>, [{iov_base=" + answer + ", iov_len=21}], 1) = 21"
    (found,) = translate([opened(f"{tmp_path}/f"), line], tmp_path).answers
    assert (found.port, found.status, found.tick) == (53842, 202, 2)


@pytest.mark.parametrize("call", [
    "mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_SHARED, 3{}, 0) = 0x7f0000000000",
    "io_uring_setup(8, 0x7f0000000000) = 4",
    "copy_file_range(9, NULL, 3{}, NULL, 100, 0) = 100",
])
def test_writes_that_strace_does_not_show_are_refused(tmp_path, call):
    name = f"{tmp_path}/f"
    with pytest.raises(NotModelled):
        translate([opened(name), "7 " + call.format(path(name))], tmp_path)


def test_sqlites_shared_memory_is_no_data(tmp_path):
    name = f"{tmp_path}/index-shm"
    call = f"7 mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_SHARED, 3{path(name)}, 0) = 0x7f0000000000"
    assert translate([opened(name), call], tmp_path).operations == []


def test_a_descriptor_from_nowhere_is_refused(tmp_path):
    with pytest.raises(NotModelled):
        translate([f"7 pwrite64(3{path(f'{tmp_path}/f')}, {text('x')}, 1, 0) = 1"], tmp_path)

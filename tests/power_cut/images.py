"""Chooses the images of a disk to test: at each call, some of the writes that are not durable are kept, and the rest is lost.

An image is determined by its number, the recording and the seed.
"""

import dataclasses
import random

from power_cut.disk import LENGTH, Disk, Image

# After one power cut in RECOVERY_EVERY the recovery itself is recorded and cut. One image in KILL_EVERY is of a kill -9: all that
# was in the page cache is still there, the restart finds names and bytes that are not durable, and then the power is cut.
RECOVERY_EVERY = 24
KILL_EVERY = 12
RECOVERY_IMAGES = 6
KILLED = "killed"
# Cuts directly behind an answer tell most: what it promised has had no time to become durable by chance.
BEHIND_ANSWERS = 0.35
GOLDEN = 0.6180339887498949
STRATEGIES = ["durable", "everything", "missing", "missing", "torn", "torn", "only", "names", "contents", "subset", "subset",
              "prefix"]


@dataclasses.dataclass
class Case:
    """One image to try, and the tick up to which answers count."""

    name: str
    number: int
    tick: int
    strategy: str
    image: Image
    # What was open and not kept, or kept in part, for the message.
    lost: list
    # After a kill: the disk with what is still to be written.
    disk: Disk = None

    def rng(self, what):
        return random.Random(f"{what} {self.name}")

    def has_recovery(self):
        return "." not in self.name and (self.disk is not None or self.number % RECOVERY_EVERY == RECOVERY_EVERY - 1)


def ignoring(kinds):
    """For `Disk`: which syncs a faulty program would have left out. dirsync: of directories; wal: of SQLite's log, as with
    synchronous = NORMAL; datasync: of all files."""
    def ignore(operation, is_directory):
        is_wal = (operation.name or "").endswith("-wal")
        return ("dirsync" in kinds and is_directory or "wal" in kinds and is_wal
                or "datasync" in kinds and not is_directory)
    return ignore


def new_disk(base, kinds):
    return Disk(base, ignoring(kinds))


def torn(operation, rng):
    """A random part of a write; of anything else all or nothing."""
    if operation.kind != "write":
        return rng.random() < 0.5
    share = rng.choice([0.2, 0.5, 0.8])
    return frozenset(s for s in [LENGTH, *operation.sectors()] if rng.random() < share)


def choose(strategy, opened, rng):
    """What is kept of the open operations: {operation: True or a set of sectors}."""
    kept = dict.fromkeys(opened, True)
    if strategy == "durable" or not opened:
        return {}
    if strategy == "missing":
        del kept[rng.choice(opened)]
    elif strategy == "torn":
        writes = [operation for operation in opened if operation.kind == "write"]
        victim = rng.choice(writes or opened)
        kept[victim] = torn(victim, rng)
    elif strategy == "only":
        kept = {rng.choice(opened): True}
    elif strategy == "names":
        kept = {operation: True for operation in opened if operation.is_name()}
    elif strategy == "contents":
        kept = {operation: True for operation in opened if not operation.is_name()}
    elif strategy == "subset":
        share = rng.choice([0.1, 0.5, 0.9])
        kept = {operation: torn(operation, rng) if rng.random() < 0.3 else True
                for operation in opened if rng.random() < share}
    elif strategy == "prefix":
        kept = dict.fromkeys(opened[:rng.randrange(len(opened) + 1)], True)
    return kept


def cuts(operations):
    """The ticks at which something has just begun or ended."""
    return sorted({tick + 1 for operation in operations for tick in (operation.began, operation.ended)})


def plan(number, seed, all_cuts, answer_cuts, name_cuts):
    """(tick, strategy) of an image: evenly over the recording for consecutive numbers."""
    rng = random.Random(f"{seed} {number}")
    place = (number * GOLDEN + seed * GOLDEN ** 2) % 1
    if name_cuts and number % KILL_EVERY == KILL_EVERY // 2:
        # A restart trusts names: most is at stake where one is new.
        return rng.choice(name_cuts), KILLED
    ticks = answer_cuts if answer_cuts and rng.random() < BEHIND_ANSWERS else all_cuts
    return ticks[int(place * len(ticks))], rng.choice(STRATEGIES)


def sweep(disk, operations, planned, seed):
    """The cases of a plan, [(name, number, tick, strategy)], in the order of their ticks."""
    rest = sorted(operations, key=lambda operation: operation.ended)
    for name, number, tick, strategy in sorted(planned, key=lambda entry: entry[2]):
        disk.advance(rest, tick)
        if strategy == KILLED:
            # What was under way at the kill did not happen.
            image = disk.image(dict.fromkeys(disk.pending, True))
            yield Case(name, number, tick, strategy, image, disk.in_flight, disk.copy())
            continue
        opened = disk.open_operations()
        kept = choose(strategy, opened, random.Random(f"{seed} {name} kept"))
        lost = [operation for operation in opened if kept.get(operation) is not True]
        yield Case(name, number, tick, strategy, disk.image(kept), lost)


def cases(recording, seed, numbers, kinds=()):
    """The cases of these numbers."""
    all_cuts = cuts(recording.operations)
    answer_cuts = [tick + 1 for tick in recording.answer_ticks()]
    name_cuts = [operation.ended + 1 for operation in recording.operations
                 if operation.kind in ("rename", "unlink", "mkdir")]
    planned = [(str(number), number, *plan(number, seed, all_cuts, answer_cuts, name_cuts)) for number in numbers]
    return sweep(new_disk(recording.base, kinds), recording.operations, planned, seed)


def recovery_cases(case, operations, seed, kinds=()):
    """Power cuts within the recovery after another one or after a kill; the same answers count. The first is at its end, with
    only what is durable."""
    ticks = cuts(operations)
    planned = [(f"{case.name}.0", 0, ticks[-1], "durable")]
    for index in range(1, RECOVERY_IMAGES):
        tick, strategy = plan(index, case.number, ticks, [], [])
        planned.append((f"{case.name}.{index}", index, tick, strategy))
    disk = case.disk or new_disk(case.image, kinds)
    for found in sweep(disk, operations, planned, seed):
        yield dataclasses.replace(found, tick=case.tick)

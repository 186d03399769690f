"""Copies of a store's directory, and damage in their files."""

import os
import shutil

FLIPPED_BYTES = 16


def copy_file(source, target):
    """Copies a file without the space that is only reserved in it: a server lays out 128 MB of logs, of which a test fills one."""
    with open(source, "rb") as old, open(target, "wb") as new:
        end, length = 0, os.fstat(old.fileno()).st_size
        new.truncate(length)
        while (start := next_data(old, end)) is not None:
            end = os.lseek(old.fileno(), start, os.SEEK_HOLE)
            old.seek(start)
            new.seek(start)
            new.write(old.read(end - start))
    shutil.copystat(source, target)
    return target


def next_data(file, position):
    """Where the next bytes are that were ever written; None behind the last."""
    try:
        return os.lseek(file.fileno(), position, os.SEEK_DATA)
    except OSError:
        return None


def copy_store(source, target):
    """Copies a data directory, without the space that a server keeps for itself."""
    shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("reserve"), copy_function=copy_file)


def flip(path, offset, count=FLIPPED_BYTES):
    """Inverts some bytes."""
    with open(path, "r+b") as file:
        file.seek(offset)
        old = file.read(count)
        file.seek(offset)
        file.write(bytes(byte ^ 0xFF for byte in old))


def used_length(path):
    """Where the trailing zeros of a preallocated file begin."""
    return len(path.read_bytes().rstrip(b"\0"))

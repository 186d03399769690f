"""Shared by the tests of backups: makes and finds backups."""

from support.gnudi import run

# Flushes and merges go on all the time.
CONFIG = "[storage]\nrecent_bytes_max = 200000\ndirty_bytes_max = 200000\n"
TIMEOUT_S = 120


def back_up(server, place):
    """Makes a backup and answers what the command printed."""
    done = run("backup", place, "--data-dir", server.data_dir, timeout_s=TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    return done.stdout


def backups(place):
    """The backups in a place, oldest first."""
    return sorted(path for path in place.iterdir() if path.is_dir() and path.suffix != ".partial")

"""Runs programs with a test's own /etc, /var/log and home directory, in the layout of packages and images. Needs root."""

import os
import pathlib
import shutil
import subprocess

# What the C library and Python look at, whatever the test lays out.
KEPT = ["group", "hosts", "localtime", "nsswitch.conf", "passwd", "ssl"]
MOUNT = 'for place in /etc /var/log $1; do mount --bind "$0/${place##*/}" "$place" || exit; done; shift; exec "$@"'


def possible():
    """Whether this process may mount."""
    return subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0


class Mounts:
    """`etc`, `log` and `home` are the directories that programs see as /etc, /var/log and $HOME, `share` is /usr/share if they
    are to see one of the test's own."""

    def __init__(self, directory, has_share=False):
        self.directory, self.has_share = pathlib.Path(directory), has_share
        self.etc, self.share, self.log, self.home = (self.directory / name for name in ("etc", "share", "log", "home"))
        for path in (self.etc, self.share, self.log, self.home):
            path.mkdir(parents=True)
        for name in KEPT:
            source = pathlib.Path("/etc") / name
            if source.is_dir():
                shutil.copytree(source, self.etc / name, symlinks=True)
            elif source.exists():
                shutil.copy(source, self.etc / name)

    def command(self, *words):
        """The words of the command that runs others so; it becomes the program, with its process id."""
        more = "/usr/share" if self.has_share else ""
        return ["unshare", "--mount", "sh", "-c", MOUNT, str(self.directory), more, *map(str, words)]

    def environment(self, **others):
        return {**os.environ, "HOME": str(self.home), **others}

"""A separate Debian or Ubuntu for installing packages: namespaces and a root directory, without a container engine.

`of_this_host` is this machine's system under an overlay, available at once; `fresh` is a minimal Debian by mmdebstrap. The network is a
loopback interface only, so that ports are free; apt installs from package files.
"""

import contextlib
import os
import pathlib
import shlex
import shutil
import subprocess
import time

MIRROR = "http://deb.debian.org/debian"
SUITE = "bookworm"
# What the packages depend on: fetched with the tree, since there is no network in it.
NEEDED = "adduser,ca-certificates,debconf,init-system-helpers,libgcc-s1,man-db,bash-completion"
ENTER_TIMEOUT_S = 60

MOUNT = """
set -e
mount --make-rprivate /
{root}
mount -t proc proc {tree}/proc
mount --rbind /dev {tree}/dev
mount -t tmpfs tmpfs {tree}/run
mount -t tmpfs tmpfs {tree}/tmp
ip link set lo up
touch {ready}
exec sleep infinity
"""
OVERLAY = "mount -t overlay overlay -o lowerdir=/,upperdir={base}/upper,workdir={base}/work {tree}"


@contextlib.contextmanager
def of_this_host(directory):
    """This machine's system; what is written stays in `directory`."""
    base = pathlib.Path(directory)
    for name in ("upper", "work", "tree"):
        (base / name).mkdir(parents=True)
    tree = base / "tree"
    yield from _held(base, tree, OVERLAY.format(base=base, tree=tree))


@contextlib.contextmanager
def fresh(directory):
    """Debian's essential packages and what gnudi's depend on, from Debian's mirrors."""
    base = pathlib.Path(directory)
    tree = base / "tree"
    base.mkdir(parents=True)
    subprocess.run(["mmdebstrap", "--quiet", "--mode=root", "--variant=apt", f"--include={NEEDED}", SUITE, tree, MIRROR], check=True)
    yield from _held(base, tree, "")


def _held(base, tree, root):
    ready = base / "ready"
    script = MOUNT.format(tree=shlex.quote(str(tree)), root=root, ready=ready)
    log = (base / "mounts.log").open("wb")
    holder = subprocess.Popen(["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "sh", "-c", script],
                              stdout=log, stderr=log)
    try:
        give_up = time.monotonic() + ENTER_TIMEOUT_S
        while not ready.exists():
            assert holder.poll() is None and time.monotonic() < give_up, (base / "mounts.log").read_text()
            time.sleep(0.02)
        inner = pathlib.Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text().split()[0]
        made = Tree(tree, inner)
        # Nothing is started by the installation, wherever this runs.
        made.write("/usr/sbin/policy-rc.d", "#!/bin/sh\nexit 101\n", mode=0o755)
        # There is no network to fetch from, and apt is quicker without lists; an index of man pages takes seconds each time.
        made.shell("rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/lib/man-db/auto-update")
        yield made
    finally:
        holder.kill()
        holder.wait()
        shutil.rmtree(tree, ignore_errors=True)


class Tree:
    """A system that packages are installed in. `pid`: of the process that holds its namespaces."""

    def __init__(self, path, pid):
        self.path, self.pid = path, pid

    def command(self, *words, directory="/"):
        """What runs a command in it, as root."""
        enter = ["nsenter", f"--target={self.pid}", "--mount", "--net", "--pid"]
        return [*enter, "chroot", str(self.path), "env", "-C", directory, *map(str, words)]

    def run(self, *words, check=True, timeout_s=300, **options):
        """Runs a command in it to its end; answers the completed process."""
        done = subprocess.run(self.command(*words), capture_output=True, text=True, check=False, timeout=timeout_s,
                              stdin=subprocess.DEVNULL, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"},
                              **options)
        assert not check or done.returncode == 0, f"{shlex.join(map(str, words))}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    def shell(self, line, **options):
        """What a line of shell prints."""
        return self.run("bash", "-c", line, **options).stdout

    def write(self, path, text, mode=0o644):
        """Makes a file, with the directories above it."""
        self.shell(f"mkdir -p {shlex.quote(str(pathlib.Path(path).parent))}; printf %s {shlex.quote(text)} >{path}; chmod {mode:o} {path}")

    def exists(self, path):
        """Whether a file, a directory or a link that leads nowhere is there."""
        return self.run("sh", "-c", f"[ -e {path} ] || [ -L {path} ]", check=False).returncode == 0

    def owner(self, path):
        """`user:group mode` of a path."""
        return self.run("stat", "-c", "%U:%G %a", path).stdout.strip()

    def put(self, *packages):
        """Copies package files in; answers their places."""
        places = []
        for package in packages:
            place = f"/var/cache/{package.name}"
            with package.open("rb") as source:
                subprocess.run(self.command("sh", "-c", f"cat >{place}"), stdin=source, check=True)
            places.append(place)
        return places

    def install(self, *packages, options=()):
        """Installs package files by apt, which takes them and what conflicts with them in one step."""
        return self.run("apt-get", "install", "--yes", "--quiet", "--no-install-recommends", *options, *self.put(*packages))

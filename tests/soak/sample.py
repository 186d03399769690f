"""The resource usage of a server at a moment: memory, handles, threads, and the disk use of its data directory."""

import os

KIB = 1024
BLOCK_BYTES = 512


def of_process(pid):
    """{"rss": bytes, "anon": bytes, "threads": ..., "handles": ...}; raises OSError once the process is gone."""
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        fields = dict(line.split(":", 1) for line in file if ":" in line)
    try:
        return {"rss": int(fields["VmRSS"].split()[0]) * KIB, "anon": int(fields["RssAnon"].split()[0]) * KIB,
                "threads": int(fields["Threads"]), "handles": len(os.listdir(f"/proc/{pid}/fd"))}
    except KeyError:
        # A process that has just ended has no memory.
        raise ProcessLookupError(pid) from None


def disk_bytes(directory):
    """The blocks of all files below a directory; files may come and go meanwhile."""
    total = 0
    for parent, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.lstat(os.path.join(parent, name)).st_blocks * BLOCK_BYTES
            except FileNotFoundError:
                pass
    return total

"""Measures how long one client waits while many others send."""

import threading
import time

ATTEMPTS = 3


def soonest_s(measure, limit_s):
    """The least of up to three durations that `measure` answers, the last one if it is below the limit: a machine that stands still makes
    one of them long, a fault of the server all of them."""
    durations_s = []
    while len(durations_s) < ATTEMPTS and (not durations_s or durations_s[-1] >= limit_s):
        durations_s.append(measure())
    return min(durations_s)


def longest_wait_s(server, send, senders, path, status):
    """The longest of the requests for `path` that follow each other while this many threads `send`, which answers the status that each of
    them must get."""
    statuses = []
    threads = [threading.Thread(target=lambda: statuses.append(send())) for _ in range(senders)]
    for thread in threads:
        thread.start()
    longest_s = 0
    while any(thread.is_alive() for thread in threads):
        began = time.monotonic()
        server.client(timeout_s=60).get(path).expect(200)
        longest_s = max(longest_s, time.monotonic() - began)
        time.sleep(0.02)
    assert statuses == [status] * senders
    return longest_s

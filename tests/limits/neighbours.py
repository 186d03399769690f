"""Measures how long one client waits while many others send."""

import threading
import time


def longest_wait_s(server, send, senders, path):
    """The longest of the requests for `path` that follow each other while this many threads `send`."""
    threads = [threading.Thread(target=send) for _ in range(senders)]
    for thread in threads:
        thread.start()
    longest_s = 0
    while any(thread.is_alive() for thread in threads):
        began = time.monotonic()
        server.client(timeout_s=60).get(path).expect(200)
        longest_s = max(longest_s, time.monotonic() - began)
        time.sleep(0.02)
    return longest_s

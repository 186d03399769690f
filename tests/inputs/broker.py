"""A broker that speaks AMQP 1.0, as small as it can be: a queue per address, in memory, anonymous logins.

    python -m inputs.broker PORT

Receivers say their address as the source of their link, senders as the target of theirs.
"""

import collections
import sys

from proton.handlers import MessagingHandler
from proton.reactor import Container


class Broker(MessagingHandler):
    """Hands each message to one receiver of its address, when there is one with credit."""

    def __init__(self, url):
        super().__init__(auto_accept=True)
        self.url = url
        self.messages = collections.defaultdict(collections.deque)
        self.receivers = collections.defaultdict(list)

    def on_start(self, event):
        self.acceptor = event.container.listen(self.url)

    def on_link_opening(self, event):
        if event.link.is_sender:
            address = event.link.remote_source.address
            event.link.source.address = address
            self.receivers[address].append(event.link)
        else:
            event.link.target.address = event.link.remote_target.address

    def on_link_closing(self, event):
        self.forget(event.link)

    def on_disconnected(self, event):
        link = event.connection.link_head(0)
        while link:
            self.forget(link)
            link = link.next(0)

    def forget(self, link):
        for links in self.receivers.values():
            if link in links:
                links.remove(link)

    def on_sendable(self, event):
        self.hand_out(event.link.source.address)

    def on_message(self, event):
        # Who names no target (collectd) has each message say where it goes, with a slash in front.
        address = event.link.target.address or event.message.address.lstrip("/")
        self.messages[address].append(event.message)
        self.hand_out(address)

    def hand_out(self, address):
        for link in self.receivers[address]:
            while link.credit and self.messages[address]:
                link.send(self.messages[address].popleft())


if __name__ == "__main__":
    Container(Broker(f"127.0.0.1:{sys.argv[1]}")).run()

"""A minimal broker for AMQP 1.0: a queue per address, in memory, anonymous logins.

    python -m inputs.broker PORT [CERTIFICATE KEY]

Receivers name the address as the source of their link, senders as the target. If a receiver leaves without accepting a message, the next
receiver gets it. Each message that is sent to a receiver, accepted or rejected by one is a line of the output.
"""

import collections
import sys

from proton.handlers import MessagingHandler
from proton.reactor import Container


class Broker(MessagingHandler):
    """Hands each message to one receiver of its address, when there is one with credit."""

    def __init__(self, url, credentials):
        super().__init__(auto_accept=True)
        self.url, self.credentials = url, credentials
        self.messages = collections.defaultdict(collections.deque)
        self.receivers = collections.defaultdict(list)
        # By tag: the link, the address and the message.
        self.unaccepted = {}
        self.sent = 0

    def on_start(self, event):
        if self.credentials:
            event.container.ssl.server.set_credentials(*self.credentials, None)
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

        for tag in reversed([tag for tag, (owner, *_) in self.unaccepted.items() if owner == link]):
            _, address, message = self.unaccepted.pop(tag)
            self.messages[address].appendleft(message)

    def on_accepted(self, event):
        if self.unaccepted.pop(event.delivery.tag, None):
            print("accepted", event.delivery.tag, flush=True)

    def on_rejected(self, event):
        if self.unaccepted.pop(event.delivery.tag, None):
            print("rejected", event.delivery.tag, event.delivery.remote.condition.name, flush=True)

    def on_released(self, event):
        if event.delivery.tag in self.unaccepted:
            _, address, message = self.unaccepted.pop(event.delivery.tag)
            self.messages[address].appendleft(message)
            self.hand_out(address)

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
                self.sent += 1
                message, tag = self.messages[address].popleft(), str(self.sent)
                self.unaccepted[tag] = link, address, message
                link.send(message, tag=tag)
                print("sent", tag, flush=True)


if __name__ == "__main__":
    port, *credentials = sys.argv[1:]
    Container(Broker(f"{'amqps' if credentials else 'amqp'}://127.0.0.1:{port}", credentials)).run()

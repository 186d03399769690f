"""Stand-ins in the cloud: a Neutron without networks, and the receiver of an alarm."""

import json

from support.http_stand_in import HttpStandIn

#: Lists that Nova asks for.
EMPTY = {"ports", "networks", "security-groups", "floatingips", "extensions", "subnets"}


class StandIn(HttpStandIn):
    """`called` has what was posted to it."""

    def __init__(self, port=0):
        super().__init__(port)
        self.called = []

    def respond(self, method, path, headers, body):
        if method == "POST":
            self.called.append(json.loads(body))
            return 200, {}, {}
        last = path.partition("?")[0].rstrip("/").rpartition("/")[2]
        if last in EMPTY:
            return 200, {}, {last.replace("-", "_"): []}
        return 404, {}, {"NeutronError": {"type": "NotFound", "message": path, "detail": ""}}

"""The callers in the tests of authentication: users of two projects of one Keystone, each with a token."""

import dataclasses

from support import keystone as identity
from support.http import Client

NOBODY = ["no token", "bad token", "expired token"]
CALLERS = [*NOBODY, "other project", "reader", "member", "service", "admin"]


@dataclasses.dataclass
class People:
    """Projects and users; `tokens` by caller. `maker` is the member of the project `alpha` who made what the tests ask for."""

    alpha: identity.Project
    beta: identity.Project
    service_project: identity.Project
    operator: identity.User
    tokens: dict


def people(keystone):
    """Makes projects, users and tokens in a running Keystone."""
    alpha, beta, services = (keystone.project(identity.unique(name)) for name in ["alpha", "beta", "services"])
    user = lambda name, project, *roles: keystone.user(identity.unique(name), roles={project: roles})
    maker, member = user("maker", alpha, "member", "reader"), user("member", alpha, "member", "reader")
    reader, other = user("reader", alpha, "reader"), user("other", beta, "member", "reader")
    operator = user("gnocchi", services, "service", "admin")
    service = user("ceilometer", services, "service")
    tokens = {
        "no token": None,
        "bad token": "gAAAAABnonsense",
        "expired token": keystone.expired_token(member, alpha),
        "other project": keystone.token(other, beta),
        "reader": keystone.token(reader, alpha),
        "member": keystone.token(member, alpha),
        "service": keystone.token(service, services),
        "admin": keystone.token(keystone.admin(), keystone.admin_project()),
        "maker": keystone.token(maker, alpha),
    }
    return People(alpha, beta, services, operator, tokens)


def config(keystone, everybody, more=""):
    """Of a server, gnudi or Gnocchi, that asks this Keystone."""
    return f"[api]\nauth_mode = keystone\n{more}" + keystone.authtoken(everybody.operator, everybody.service_project)


class Caller(Client):
    """A client with a token, or with none."""

    def __init__(self, server, token, timeout_s=120):
        super().__init__("127.0.0.1", server.port, user=None, timeout_s=timeout_s)
        self.token = token

    def request(self, method, path, body=None, headers=None):
        sent = {} if self.token is None else {"X-Auth-Token": self.token}
        return super().request(method, path, body, headers={**sent, **(headers or {})})

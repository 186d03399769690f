"""Prints a fernet token with any expiry, also one that Keystone would not issue. Runs in the cloud's virtual environment.

Arguments: Keystone's configuration file, the user's id, the project's id, the expiry (`2020-01-01T00:00:00.000000Z`).
"""

import secrets
import sys

import keystone.conf
from keystone.token import token_formatters


def main():
    config, user, project, end = sys.argv[1:]
    keystone.conf.configure()
    keystone.conf.CONF(["--config-file", config], project="keystone")
    print(token_formatters.TokenFormatter().create_token(
        user, end, [secrets.token_urlsafe(16)], token_formatters.ProjectScopedPayload, methods=["password"],
        project_id=project,
    ))


if __name__ == "__main__":
    main()

"""Tells CloudKitty that a project's usage is rated up to a time (ISO), so that it begins there, and not with the month: its API cannot.

    python begin_rating.py PROJECT TIME
"""

import datetime
import sys

from cloudkitty import service, storage_state


def main():
    project, time = sys.argv[1:]
    service.prepare_service([])
    storage_state.StateManager().set_last_processed_timestamp(project, datetime.datetime.fromisoformat(time))


main()

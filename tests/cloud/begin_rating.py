"""Tells CloudKitty that a project's usage is rated up to a time (ISO), so that it begins there instead of at the start of the month. Its
API has no call for this.

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

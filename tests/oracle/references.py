"""Reads files as Ceilometer's configuration: each line on standard input is a path; each line on standard output is the file's
`sample_source` as JSON, or null if Ceilometer refuses to start with the file."""

import json
import sys

from ceilometer import service

answers, sys.stdout = sys.stdout, sys.stderr
for line in sys.stdin:
    try:
        source = service.prepare_service(argv=[], config_files=[line.strip()]).sample_source
    except AttributeError:
        # oslo.config's for an option, as for one of those that it refers to.
        source = None
    print(json.dumps(source), file=answers, flush=True)

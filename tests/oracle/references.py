"""Ceilometer's configuration: the path of a file a line on standard input; on standard output a line of JSON with the file's
`sample_source`, or null where Ceilometer refuses to start with it."""

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

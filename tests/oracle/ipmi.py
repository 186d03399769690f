"""`ceilometer-polling` that runs ipmitool itself, where the real one has a helper with more rights run it."""

import sys

import ceilometer.privsep.ipmitool
from oslo_concurrency import processutils

from ceilometer.cmd import polling

ceilometer.privsep.ipmitool.ipmi = lambda *command: processutils.execute(*command)
sys.exit(polling.main())

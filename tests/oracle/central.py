"""`ceilometer-polling` that finds Cinder as it finds Glance.

Ceilometer 27 hands its configuration to openstacksdk, which looks there for a section [cinder]; Ceilometer knows none, and so
polls no volumes at all. All else is its own.
"""

import sys
import types

from ceilometer import cinder_client
from ceilometer.cmd import polling


class Connection(cinder_client.connection.Connection):
    def __init__(self, oslo_conf, service_types, **kwargs):
        super().__init__(**kwargs)


cinder_client.connection = types.SimpleNamespace(Connection=Connection)
sys.exit(polling.main())

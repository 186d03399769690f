"""`ceilometer-polling` with two corrections: it finds Cinder as it finds Glance, and it finds names of users and projects as documented.

Ceilometer 27 gives its configuration to openstacksdk, which reads a section [cinder] that Ceilometer does not define, so that no volumes
are polled. And it looks names up with attributes that its Keystone client lacks since it is openstacksdk's instead of keystoneclient's:
here the client has them again. Everything else is the original.
"""

import sys
import types

from ceilometer import cinder_client, keystone_client
from ceilometer.cmd import polling
from keystoneclient.v3 import client as keystoneclient


class Connection(cinder_client.connection.Connection):
    def __init__(self, oslo_conf, service_types, **kwargs):
        super().__init__(**kwargs)


class Client(keystone_client.Client):
    def __init__(self, session, interface, region_name):
        super().__init__(session, interface=interface, region_name=region_name)
        former = keystoneclient.Client(session=session, interface=interface, region_name=region_name)
        assert not hasattr(self, "projects") and not hasattr(self, "users"), "no need to mend it any more"
        self.projects, self.users = former.projects, former.users


cinder_client.connection = types.SimpleNamespace(Connection=Connection)
keystone_client.Client = Client
sys.exit(polling.main())

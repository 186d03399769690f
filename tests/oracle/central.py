"""`ceilometer-polling` that finds Cinder as it finds Glance, and names as it says that it does.

Ceilometer 27 hands its configuration to openstacksdk, which looks there for a section [cinder]; Ceilometer knows none, and so
polls no volumes at all. And it looks names of users and projects up with attributes of its client of Keystone that this has no
more since it is openstacksdk's: here they are those of keystoneclient, which it was. All else is its own.
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

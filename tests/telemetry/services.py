"""Small stand-ins for Nova, Glance, Cinder, Neutron, Swift and a made-up service: their responses, in pages where the real ones have pages.
They are paths of one server, as in clouds with one proxy for all services."""

import hashlib
import hmac
import json
import threading
import time
import urllib.parse

from support.http_stand_in import HttpStandIn

PROJECT = "c0ffee00c0ffee00c0ffee00c0ffee00"


def image(number, **more):
    return {"id": f"1b0c{number:04}-0000-4000-8000-000000000000", "name": f"image {number} \u00e9", "status": "active",
            "visibility": "public", "size": 10_000_000_000 + number, "container_format": "bare", "disk_format": "qcow2",
            "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-02T00:00:00Z", "min_disk": 1, "min_ram": 512,
            "protected": number == 1, "checksum": "d41d8cd98f00b204e9800998ecf8427e", "tags": ["a", "b"], "virtual_size": None,
            "owner": PROJECT, "os_distro": "debian", "os_hidden": False, "schema": "/v2/schemas/image", "hw_boot_menu": "true",
            "hw_vif_multiqueue_enabled": "no", "hw_cpu_cores": "04", "hw_cpu_threads": "many", "instance_type_rxtx_factor": "1",
            "hw_qemu_guest_agent": "yes", **more}


def volume(number, **more):
    return {"id": f"2b0c{number:04}-0000-4000-8000-000000000000", "name": f"volume {number}", "status": "in-use", "size": number,
            "volume_type": "lvm", "volume_type_id": "t-1", "availability_zone": "nova", "snapshot_id": None,
            "source_volid": None, "user_id": "u-1", "os-vol-tenant-attr:tenant_id": PROJECT, "bootable": "true",
            "os-vol-mig-status-attr:migstat": None, "os-vol-host-attr:host": "c1@lvm#pool", "metadata": {"a": "b"},
            "attachments": [{"server_id": "s-1", "device": "/dev/vda"}], "encrypted": False, "multiattach": False,
            "volume_image_metadata": {"image_id": "i-1"}, **more}


SNAPSHOT = {"id": "snapshot-1", "name": None, "volume_id": "v-1", "status": "available", "description": "d", "size": 3,
            "metadata": {"k": "v"}, "os-extended-snapshot-attributes:progress": "100%", "user_id": "u-2",
            "os-extended-snapshot-attributes:project_id": PROJECT}
BACKUP = {"id": "backup-1", "name": "b", "is_incremental": False, "object_count": 22, "container": "backups", "volume_id": "v-1",
          "status": "available", "description": None, "size": 5, "user_id": "u-3", "os-backup-project-attr:project_id": PROJECT}
POOLS = [
    {"name": "c1@lvm#thin", "capabilities": {
        "pool_name": "thin", "total_capacity_gb": 100.5, "free_capacity_gb": 60, "provisioned_capacity_gb": 30.25,
        "allocated_capacity_gb": 40, "reserved_percentage": 15, "thin_provisioning_support": True,
        "max_over_subscription_ratio": "20.0"}},
    {"name": "c1@ceph#thick", "capabilities": {
        "total_capacity_gb": 10, "free_capacity_gb": 10, "provisioned_capacity_gb": 0, "allocated_capacity_gb": 0,
        "reserved_percentage": 0, "thin_provisioning_support": False}},
]
CINDERS = [{"binary": "cinder-volume", "host": "c1@lvm", "status": "enabled", "state": "up", "zone": "nova"},
           {"binary": "cinder-backup", "host": "c2", "status": "disabled", "state": "down", "zone": "nova"}]


def address(number, **more):
    return {"id": f"address-{number}", "router_id": "r-1", "status": "ACTIVE", "floating_network_id": "n-1",
            "fixed_ip_address": "10.0.0.1", "port_id": "p-1", "floating_ip_address": f"192.0.2.{number}", "tenant_id": PROJECT,
            "project_id": PROJECT, "description": "", **more}


VPNS = [{"id": "vpn-1", "admin_state_up": True, "description": "", "name": "v", "status": "PENDING_CREATE", "subnet_id": None,
         "router_id": "r-1", "flavor_id": None, "external_v4_ip": "192.0.2.9", "external_v6_ip": "2001:db8::9",
         "project_id": PROJECT, "tenant_id": PROJECT}]
CONNECTIONS = [{"id": "ipsec-1", "name": "c", "description": "", "peer_address": "192.0.2.10", "peer_id": "192.0.2.10",
                "peer_cidrs": ["10.9.0.0/24"], "peer_ep_group_id": None, "psk": "never told", "initiator": "bi-directional",
                "ikepolicy_id": "i", "ipsecpolicy_id": "s", "vpnservice_id": "vpn-1", "mtu": 1500, "admin_state_up": True,
                "status": "ACTIVE", "project_id": PROJECT, "tenant_id": PROJECT}]
FIREWALLS = [{"id": f"firewall-{status}", "admin_state_up": True, "description": "", "name": "f", "status": status,
              "ingress_firewall_policy_id": "p-1", "egress_firewall_policy_id": None, "project_id": PROJECT, "ports": [],
              "shared": False} for status in ("ACTIVE", "DOWN", "error")]
POLICIES = [{"id": "policy-1", "name": "p", "description": "", "firewall_rules": ["r-1", "r-2"], "shared": False, "audited": True,
             "project_id": PROJECT}]
CONTAINERS = [{"name": "photos", "count": 3, "bytes": 12345678901, "last_modified": "2026-01-01T00:00:00",
               "storage_policy": "ssd"},
              {"name": "caf\u00e9 1", "count": 0, "bytes": 0, "last_modified": "2026-01-01T00:00:00"}]
ACCOUNT = {"X-Account-Object-Count": "3", "X-Account-Bytes-Used": "12345678901", "X-Account-Container-Count": "2"}


def server(number, identifier, **more):
    """One of Nova's, as it lists them."""
    return {"id": identifier, "name": f"web {number} \u00e9", "tenant_id": PROJECT, "user_id": "u-1", "hostId": "h-1",
            "status": "ACTIVE", "metadata": {"metering.stack.id": "s-1", "other": "never told"},
            "image": {"id": image(1)["id"], "links": [{"rel": "bookmark", "href": "http://192.0.2.1/images/1"}]},
            "flavor": {"id": "42", "links": []}, "OS-EXT-STS:vm_state": "active", "OS-EXT-STS:task_state": None,
            "OS-EXT-STS:power_state": 1, "OS-EXT-SRV-ATTR:host": "cmp1", "OS-EXT-AZ:availability_zone": "nova",
            "OS-EXT-SRV-ATTR:instance_name": f"instance-{number:08}", **more}


FLAVOR = {"id": "42", "name": "m1.small", "ram": 2048, "vcpus": 2, "disk": 20, "OS-FLV-EXT-DATA:ephemeral": 4, "swap": "",
          "rxtx_factor": 1.0, "links": []}


def thing(number, **more):
    return {"id": f"thing-{number}", "name": f"t{number}", "status": "up", "figures": {"count": 7 * number, "kind": "k"},
            "owner": {"id": "p-9"}, "maker": "u-9", "title": "x", "user_id": "u-7", "project_id": "p-7",
            "parts": [{"kind": "left", "size": number}, {"kind": "right", "size": number + 0.5}, {"kind": "none", "size": 0}],
            **more}


XML = "<stats xmlns='x'><node id='n1' zone='z'><load>0.5</load></node><node id='n2' zone='y'><load>1.5</load></node></stats>"
#: A catalogue's types, and the paths below which they lie.
PATHS = {"compute": "/compute/v2.1", "image": "/image", "volumev3": "/volume/v3/$(project_id)s", "network": "/network",
         "object-store": "/object-store/v1/AUTH_$(project_id)s", "custom": "/custom/v1", "radosgw": "/rgw/v1"}
#: Of radosgw's administrator.
ACCESS_KEY, SECRET_KEY = "an access key", "a secret/key+"
BUCKETS = [{"bucket": "photos", "usage": {"rgw.main": {"num_objects": 3, "size_kb": 12345678}}},
           {"bucket": "caf\u00e9 1", "usage": {"rgw.main": {"num_objects": 1, "size_kb": 0}}},
           {"bucket": "empty", "usage": {}}]
USAGE = {"entries": [], "summary": [{"user": "u", "categories": [], "total": {"ops": 17, "bytes_sent": 1}},
                                    {"user": "v", "categories": [], "total": {"ops": 5, "bytes_sent": 0}}]}


def is_signed(headers, target):
    """Whether a GET has the signature that Amazon's services ask for (AWS Signature Version 4)."""
    algorithm, _, rest = headers.get("Authorization", "").partition(" ")
    if algorithm != "AWS4-HMAC-SHA256":
        return False
    fields = dict(field.strip().split("=", 1) for field in rest.split(","))
    access, date, region, service, end = fields["Credential"].split("/")
    path, _, query = target.partition("?")
    names = fields["SignedHeaders"].split(";")
    canonical = "\n".join(["GET", path, "&".join(sorted(query.split("&"))), *(f"{name}:{headers[name]}" for name in names), "",
                           fields["SignedHeaders"], hashlib.sha256(b"").hexdigest()])
    scope = f"{date}/{region}/{service}/{end}"
    text = "\n".join([algorithm, headers["x-amz-date"], scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{SECRET_KEY}".encode()
    for part in (date, region, service, end):
        key = hmac.digest(key, part.encode(), "sha256")
    return access == ACCESS_KEY and hmac.digest(key, text.encode(), "sha256").hex() == fields["Signature"]


#: Under which name answers have their lists, where that is not the end of the path.
KEYS = {"volumes/detail": "volumes", "snapshots/detail": "snapshots", "backups/detail": "backups",
        "scheduler-stats/get_pools": "pools", "os-services": "services", "vpn/ipsec-site-connections": "ipsec_site_connections"}


class Services(HttpStandIn):
    """One server for all. `accounts`: projects that have an account of Swift's."""

    def __init__(self, accounts):
        super().__init__()
        self.accounts = set(accounts)
        #: Those of them that Swift cannot reach.
        self.unreachable = set()
        self.containers = CONTAINERS
        #: The last page of a list has a link to its second one.
        self.is_circular = False
        #: How often pages after the first are refused: the item that such a page follows is deleted.
        self.pages_lost = 0
        #: Of this host, and of others: these are in no list.
        self.servers, self.elsewhere = [], []
        self.delay_s = 0.0
        #: Nova answers, but not what it is asked.
        self.is_broken = False
        self.under_way = self.most_under_way = 0
        self.asked = []
        self.lock = threading.Lock()
        self.lists = {
            ("image", "images"): [[image(1)], [image(2, name=None, tags=[], owner=None)], [image(3, status="queued", size=None)]],
            ("volume", "volumes/detail"): [
                [volume(1), volume(2, attachments=[], volume_image_metadata=None)], [volume(3, name="")]],
            ("volume", "snapshots/detail"): [[SNAPSHOT]],
            ("volume", "backups/detail"): [[BACKUP]],
            ("volume", "scheduler-stats/get_pools"): [POOLS],
            ("volume", "os-services"): [CINDERS],
            ("network", "floatingips"): [[address(1), address(2, status="DOWN", router_id=None)], [address(3, status="odd")]],
            ("network", "vpn/vpnservices"): [VPNS],
            ("network", "vpn/ipsec-site-connections"): [CONNECTIONS],
            ("network", "fwaas/firewall_groups"): [FIREWALLS],
            ("network", "fwaas/firewall_policies"): [POLICIES],
            ("custom", "things"): [[thing(1), thing(2, status="odd")], [thing(3, status="gone")]],
        }

    def respond(self, method, path, headers, body):
        with self.lock:
            self.under_way += 1
            self.most_under_way = max(self.most_under_way, self.under_way)
            self.asked.append(f"{method} {path}")
        time.sleep(self.delay_s)
        answer = self.answer(path, headers)
        # Before the answer: who has it may ask again at once.
        with self.lock:
            self.under_way -= 1
        return answer

    def answer(self, target, headers):
        """Status, headers, body."""
        path, _, query = target.partition("?")
        query = dict(urllib.parse.parse_qsl(query))
        _, service, *rest = path.rstrip("/").split("/")
        if versions := self._versions(service, rest):
            return 200, {}, json.dumps(versions).encode()
        if service == "admin":
            return self._radosgw(rest, query, is_signed(headers, target))
        if "X-Auth-Token" not in headers:
            return 401, {}, b"{}"
        if service == "object-store":
            return self._account(rest, query)
        if service == "custom" and rest[1:] == ["stats"]:
            return 200, {"Content-Type": "text/xml"}, XML.encode()
        ones = {("compute", "v2.1", "servers", "detail"): {"servers": self.servers},
                ("compute", "v2.1", "flavors"): {"flavors": [{"id": "41", "name": "m1.tiny"}, {"id": "42", "name": "m1.small"}]},
                ("compute", "v2.1", "flavors", "42"): {"flavor": FLAVOR},
                ("image", "v2", "images", image(1)["id"]): image(1),
                ("custom", "v1", "makers", "u-9"): {"maker": {"id": "u-9", "name": "Ada", "room": "r1", "title": None}},
                ("custom", "v1", "rooms", "r1"): {"room": {"id": "r1", "size": 4}}}
        ones |= {("compute", "v2.1", "servers", one["id"]): {"server": one} for one in [*self.servers, *self.elsewhere]}
        if self.is_broken and service == "compute":
            return 503, {}, b""
        if one := ones.get((service, *rest)):
            return 200, {}, json.dumps(one).encode()
        # The version, and the project in Cinder's paths.
        name = "/".join(rest[2 if service == "volume" else 1:])
        pages = self.lists.get((service, name))
        if pages is None:
            return 404, {}, b'{"itemNotFound": {"code": 404, "message": "no such thing"}}'
        if "marker" in query and self.pages_lost > 0:
            self.pages_lost -= 1
            return 404, {}, b'{"itemNotFound": {"code": 404, "message": "marker not found"}}'
        return 200, {}, json.dumps(self._page(service, name, pages, int(query.get("marker", 0)), path)).encode()

    def _account(self, rest, query):
        project = rest[-1].removeprefix("AUTH_")
        if project not in self.accounts:
            return 404, {}, b""
        if project in self.unreachable:
            return 503, {}, b""
        return 200, ACCOUNT, json.dumps([] if "marker" in query else self.containers).encode()

    def _radosgw(self, rest, query, is_signed):
        if not is_signed:
            return 403, {}, b'{"Code": "SignatureDoesNotMatch"}'
        is_known = query["uid"] in self.accounts
        if rest == ["bucket"] and query.get("stats") == "true":
            return 200, {}, json.dumps(BUCKETS if is_known else []).encode()
        return 200, {}, json.dumps(USAGE if is_known else {"entries": [], "summary": []}).encode()

    def _page(self, service, name, pages, number, path):
        key = KEYS.get(name, name.rsplit("/", 1)[-1].replace("-", "_"))
        page = {key: pages[number]}
        if number + 1 < len(pages) or (self.is_circular and number > 1):
            following = f"?marker={number + 1 if number + 1 < len(pages) else 1}"
            if service == "image":
                # Glance does not know below which path it lies.
                page["next"] = f"/v2/images{following}"
            elif service == "custom":
                page["links"] = {"next": f"{self.url}{path}{following}"}
            else:
                page[f"{key}_links"] = [{"rel": "next", "href": f"{self.url}{path}{following}"}]
        return page

    def _versions(self, service, rest):
        """What clients ask for before all else."""
        def version(number, path, **more):
            return {"id": number, "status": "CURRENT", "links": [{"rel": "self", "href": f"{self.url}{path}"}], **more}

        found = {
            ("image",): [version("v2.16", "/image/v2/")],
            ("network",): [version("v2.0", "/network/v2.0/")],
            ("volume",): [version("v3.0", "/volume/v3/", version="3.71", min_version="3.0")],
            ("volume", "v3"): [version("v3.0", "/volume/v3/", version="3.71", min_version="3.0")],
        }.get((service, *rest))
        return found and {"versions": found}

"""The part of libvirt's Python binding that Ceilometer uses, directly on the C library: the real binding would have to be compiled."""

import ctypes as c

VIR_DOMAIN_METADATA_ELEMENT = 2
VIR_DOMAIN_SHUTOFF = 5
VIR_ERR_INTERNAL_ERROR = 1
VIR_ERR_SYSTEM_ERROR = 38
VIR_ERR_NO_DOMAIN_METADATA = 80
VIR_FROM_RPC = 7
VIR_FROM_REMOTE = 13

MEMORY_TAGS = {0: "swap_in", 1: "swap_out", 4: "unused", 5: "available", 6: "actual", 7: "rss", 8: "usable"}


class Error(c.Structure):
    _fields_ = [("code", c.c_int), ("domain", c.c_int), ("message", c.c_char_p)]


class Info(c.Structure):
    _fields_ = [("state", c.c_ubyte), ("max", c.c_ulong), ("memory", c.c_ulong), ("vcpus", c.c_ushort),
                ("time", c.c_ulonglong)]


class MemoryStat(c.Structure):
    _fields_ = [("tag", c.c_int), ("value", c.c_ulonglong)]


class Value(c.Union):
    _fields_ = [("i", c.c_int), ("u", c.c_uint), ("l", c.c_longlong), ("ul", c.c_ulonglong)]


class Parameter(c.Structure):
    _fields_ = [("field", c.c_char * 80), ("kind", c.c_int), ("value", Value)]


class Record(c.Structure):
    _fields_ = [("domain", c.c_void_p), ("parameters", c.POINTER(Parameter)), ("count", c.c_int)]


lib = c.CDLL("libvirt.so.0")
for name in ("virConnectOpenReadOnly", "virDomainLookupByUUIDString"):
    getattr(lib, name).restype = c.c_void_p
for name in ("virDomainGetName", "virDomainGetXMLDesc", "virDomainGetMetadata"):
    getattr(lib, name).restype = c.c_char_p
lib.virGetLastError.restype = c.POINTER(Error)
HANDLER = c.CFUNCTYPE(None, c.c_void_p, c.c_void_p)(lambda *_: None)
lib.virSetErrorFunc(None, HANDLER)


class libvirtError(Exception):
    def __init__(self):
        error = lib.virGetLastError().contents
        self.code, self.domain = error.code, error.domain
        super().__init__(error.message.decode())

    def get_error_code(self):
        return self.code

    def get_error_domain(self):
        return self.domain


def good(answer):
    if answer is None or (isinstance(answer, int) and answer < 0):
        raise libvirtError()
    return answer


def numbers(parameters, count):
    kinds = {1: "i", 2: "u", 3: "l", 4: "ul"}
    return {
        item.field.decode(): getattr(item.value, kinds[item.kind])
        for item in (parameters[index] for index in range(count))
        if item.kind in kinds
    }


class Domain:
    def __init__(self, handle):
        self.handle = c.c_void_p(handle)

    def UUIDString(self):
        text = c.create_string_buffer(37)
        good(lib.virDomainGetUUIDString(self.handle, text))
        return text.value.decode()

    def name(self):
        return good(lib.virDomainGetName(self.handle)).decode()

    def XMLDesc(self, flags=0):
        return good(lib.virDomainGetXMLDesc(self.handle, flags)).decode()

    def metadata(self, kind, uri, flags=0):
        return good(lib.virDomainGetMetadata(self.handle, kind, uri.encode(), flags)).decode()

    def info(self):
        info = Info()
        good(lib.virDomainGetInfo(self.handle, c.byref(info)))
        return [info.state, info.max, info.memory, info.vcpus, info.time]

    def state(self):
        return [self.info()[0], 0]

    def memoryStats(self):
        stats = (MemoryStat * 64)()
        count = good(lib.virDomainMemoryStats(self.handle, stats, 64, 0))
        return {MEMORY_TAGS[stat.tag]: stat.value for stat in stats[:count] if stat.tag in MEMORY_TAGS}

    def blockStats(self, disk):
        stats = (c.c_longlong * 5)()
        good(lib.virDomainBlockStats(self.handle, disk.encode(), stats, c.c_size_t(c.sizeof(stats))))
        return list(stats)

    def blockStatsFlags(self, disk, flags=0):
        parameters, count = (Parameter * 64)(), c.c_int(64)
        good(lib.virDomainBlockStatsFlags(self.handle, disk.encode(), parameters, c.byref(count), flags))
        return numbers(parameters, count.value)

    def blockInfo(self, disk):
        info = (c.c_ulonglong * 3)()
        good(lib.virDomainGetBlockInfo(self.handle, disk.encode(), info, 0))
        return list(info)

    def interfaceStats(self, device):
        stats = (c.c_longlong * 8)()
        good(lib.virDomainInterfaceStats(self.handle, device.encode(), stats, c.c_size_t(c.sizeof(stats))))
        return list(stats)


class Connection:
    def __init__(self, uri):
        self.handle = c.c_void_p(good(lib.virConnectOpenReadOnly(uri.encode())))

    def isAlive(self):
        return True

    def listAllDomains(self):
        domains = c.POINTER(c.c_void_p)()
        count = good(lib.virConnectListAllDomains(self.handle, c.byref(domains), 0))
        return [Domain(domains[index]) for index in range(count)]

    def lookupByUUIDString(self, uuid):
        return Domain(good(lib.virDomainLookupByUUIDString(self.handle, uuid.encode())))

    def domainListGetStats(self, domains, stats):
        handles = (c.c_void_p * (len(domains) + 1))(*[domain.handle for domain in domains], None)
        records = c.POINTER(c.POINTER(Record))()
        count = good(lib.virDomainListGetStats(handles, stats, c.byref(records), 0))
        records = [records[index].contents for index in range(count)]
        return [(domains[0], numbers(record.parameters, record.count)) for record in records]


def openReadOnly(uri):
    return Connection(uri)

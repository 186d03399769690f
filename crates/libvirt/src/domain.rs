//! A domain: a virtual machine, or a container.

use std::{
    ffi::{CStr, c_char, c_uint},
    sync::Arc,
};

use crate::{
    Result, Statistics,
    connection::Link,
    library::{Api, Handle, MemoryStat, StatsRecord, TypedParameter, c_string},
    statistics::parameters,
};

/// A domain; it keeps its connection open.
#[derive(Debug)]
pub struct Domain {
    link: Arc<Link>,
    handle: Handle,
}

// SAFETY: libvirt locks its domains internally; any threads may use one concurrently.
unsafe impl Send for Domain {}
// SAFETY: as above.
unsafe impl Sync for Domain {}

/// `virDomainInfo`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DomainInfo {
    /// `virDomainState`: 0 none, 1 running, 2 blocked, 3 paused, 4 shutting down, 5 shut off, 6 crashed, 7 suspended.
    pub state: u8,
    pub memory_max_kib: u64,
    pub memory_kib: u64,
    pub vcpus: u16,
    pub cpu_time_ns: u64,
}

/// The balloon driver's figures, in KiB; `None` for those it does not report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStatistics {
    pub swap_in: Option<u64>,
    pub swap_out: Option<u64>,
    pub unused: Option<u64>,
    pub available: Option<u64>,
    pub actual: Option<u64>,
    pub rss: Option<u64>,
    pub usable: Option<u64>,
}

/// `virDomainBlockStatsStruct`: since the domain was started; -1 if unknown.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockStatistics {
    pub read_requests: i64,
    pub read_bytes: i64,
    pub write_requests: i64,
    pub write_bytes: i64,
    pub errors: i64,
}

/// `virDomainBlockInfo`: in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockInfo {
    pub capacity: u64,
    pub allocation: u64,
    pub physical: u64,
}

/// `virDomainInterfaceStatsStruct`: since the domain was started; -1 if unknown.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterfaceStatistics {
    pub rx_bytes: i64,
    pub rx_packets: i64,
    pub rx_errors: i64,
    pub rx_drop: i64,
    pub tx_bytes: i64,
    pub tx_packets: i64,
    pub tx_errors: i64,
    pub tx_drop: i64,
}

/// `VIR_DOMAIN_METADATA_ELEMENT`
const METADATA_ELEMENT: i32 = 2;
/// More than any release reports.
const MEMORY_STATS_MAX: usize = 64;
/// More than any release reports.
const BLOCK_PARAMETERS_MAX: usize = 64;
/// `VIR_UUID_STRING_BUFLEN`
const UUID_BYTES: usize = 37;

impl Drop for Domain {
    fn drop(&mut self) {
        // SAFETY: the handle belongs to this domain and has no other users.
        unsafe { (self.link.api.virDomainFree)(self.handle) };
    }
}

impl Domain {
    /// Takes ownership of the handle.
    pub(crate) fn new(link: Arc<Link>, handle: Handle) -> Self {
        Domain { link, handle }
    }

    fn api(&self) -> &Api {
        &self.link.api
    }

    pub fn name(&self) -> Result<String> {
        // SAFETY: the domain is alive; the text belongs to the domain and is copied immediately.
        unsafe {
            let name = (self.api().virDomainGetName)(self.handle);
            if name.is_null() {
                return Err(self.api().failed("read a domain's name"));
            }
            Ok(CStr::from_ptr(name).to_string_lossy().into_owned())
        }
    }

    pub fn uuid(&self) -> Result<String> {
        let mut text = [0 as c_char; UUID_BYTES];
        // SAFETY: the domain is alive, and the buffer has the required size.
        unsafe {
            let code = (self.api().virDomainGetUUIDString)(self.handle, text.as_mut_ptr());
            self.api().checked(code, "read a domain's UUID")?;
            Ok(CStr::from_ptr(text.as_ptr()).to_string_lossy().into_owned())
        }
    }

    pub fn info(&self) -> Result<DomainInfo> {
        let mut info = DomainInfo::default();
        // SAFETY: the domain is alive, and `info` has the type that the function writes.
        let code = unsafe { (self.api().virDomainGetInfo)(self.handle, &raw mut info) };
        self.api().checked(code, "read a domain's info")?;
        Ok(info)
    }

    /// The element of the domain's metadata with this namespace.
    pub fn metadata(&self, namespace: &str) -> Result<String> {
        let uri = c_string(namespace, "the namespace")?;
        // SAFETY: the domain is alive, and the namespace a C string that outlives the call.
        let text =
            unsafe { (self.api().virDomainGetMetadata)(self.handle, METADATA_ELEMENT, uri.as_ptr(), 0) };
        self.api().take_text(text, "read a domain's metadata")
    }

    /// The domain's XML description.
    pub fn xml(&self) -> Result<String> {
        // SAFETY: the domain is alive.
        let text = unsafe { (self.api().virDomainGetXMLDesc)(self.handle, 0) };
        self.api().take_text(text, "read a domain's description")
    }

    pub fn memory_statistics(&self) -> Result<MemoryStatistics> {
        let mut stats = [MemoryStat::default(); MEMORY_STATS_MAX];
        let room = MEMORY_STATS_MAX as c_uint;
        // SAFETY: the domain is alive, and the array has the given length.
        let count = unsafe { (self.api().virDomainMemoryStats)(self.handle, stats.as_mut_ptr(), room, 0) };
        let count = self.api().checked(count, "read a domain's memory statistics")?;
        // virDomainMemoryStatTags
        let find = |tag| stats.iter().take(count).find(|stat| stat.tag == tag).map(|stat| stat.value);
        Ok(MemoryStatistics {
            swap_in: find(0),
            swap_out: find(1),
            unused: find(4),
            available: find(5),
            actual: find(6),
            rss: find(7),
            usable: find(8),
        })
    }

    /// The statistics of a disk, given by its target device, such as `vda`.
    pub fn block_statistics(&self, disk: &str) -> Result<BlockStatistics> {
        let name = c_string(disk, "the disk")?;
        let mut stats = BlockStatistics::default();
        let size = size_of::<BlockStatistics>();
        // SAFETY: the domain is alive, the disk a C string, and the size that of `stats`.
        let code =
            unsafe { (self.api().virDomainBlockStats)(self.handle, name.as_ptr(), &raw mut stats, size) };
        self.api().checked(code, format_args!("read the statistics of disk {disk}"))?;
        Ok(stats)
    }

    /// Further statistics of a disk: `rd_total_times` and `wr_total_times` in nanoseconds, and others.
    pub fn block_parameters(&self, disk: &str) -> Result<Statistics> {
        let name = c_string(disk, "the disk")?;
        let mut buffer = [TypedParameter::EMPTY; BLOCK_PARAMETERS_MAX];
        let mut count = BLOCK_PARAMETERS_MAX as i32;
        // SAFETY: the domain is alive, the disk a C string, and the array has the given length.
        let code = unsafe {
            (self.api().virDomainBlockStatsFlags)(
                self.handle,
                name.as_ptr(),
                buffer.as_mut_ptr(),
                &raw mut count,
                0,
            )
        };
        self.api().checked(code, format_args!("read the figures of disk {disk}"))?;
        // SAFETY: libvirt has written `count` of them, at most the array's length.
        Ok(unsafe { parameters(buffer.as_ptr(), count.min(BLOCK_PARAMETERS_MAX as i32)) })
    }

    pub fn block_info(&self, disk: &str) -> Result<BlockInfo> {
        let name = c_string(disk, "the disk")?;
        let mut info = BlockInfo::default();
        // SAFETY: the domain is alive, the disk a C string, and `info` has the type that the function writes.
        let code =
            unsafe { (self.api().virDomainGetBlockInfo)(self.handle, name.as_ptr(), &raw mut info, 0) };
        self.api().checked(code, format_args!("read the size of disk {disk}"))?;
        Ok(info)
    }

    pub fn interface_statistics(&self, device: &str) -> Result<InterfaceStatistics> {
        let name = c_string(device, "the interface")?;
        let mut stats = InterfaceStatistics::default();
        let size = size_of::<InterfaceStatistics>();
        // SAFETY: the domain is alive, the device a C string, and the size that of `stats`.
        let code =
            unsafe { (self.api().virDomainInterfaceStats)(self.handle, name.as_ptr(), &raw mut stats, size) };
        self.api().checked(code, format_args!("read the statistics of interface {device}"))?;
        Ok(stats)
    }

    /// All statistics of this domain.
    pub fn statistics(&self) -> Result<Statistics> {
        let mut domains = [self.handle, std::ptr::null_mut()];
        let mut records: *mut *mut StatsRecord = std::ptr::null_mut();
        // SAFETY: one live domain, then NULL; `records` takes one pointer.
        let count =
            unsafe { (self.api().virDomainListGetStats)(domains.as_mut_ptr(), 0, &raw mut records, 0) };
        let count = self.api().checked(count, "read a domain's statistics")?;
        if records.is_null() {
            return Ok(Statistics::default());
        }
        // SAFETY: there are `count` records, of this domain, with as many parameters as each says; they are valid until the
        // list is freed, once, and nothing returned points into them.
        unsafe {
            let all = std::slice::from_raw_parts(records, count);
            let first = all.first().map(|record| parameters((**record).parameters, (**record).count));
            (self.api().virDomainStatsRecordListFree)(records);
            Ok(first.unwrap_or_default())
        }
    }
}

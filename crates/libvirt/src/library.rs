//! The C functions: their types as libvirt's headers declare them, found by name in the shared library.

use std::{
    ffi::{
        CStr, CString, c_char, c_int, c_long, c_longlong, c_uchar, c_uint, c_ulong, c_ulonglong, c_ushort,
        c_void,
    },
    path::Path,
    sync::Arc,
};

use libloading::Library;

use crate::{Error, Result};

/// `virConnectPtr`, `virDomainPtr`.
pub(crate) type Handle = *mut c_void;
/// `virErrorFunc`
type ErrorFunction = unsafe extern "C" fn(user: *mut c_void, error: *mut VirError);

/// `virError`, as far as it is read: the library owns it, so that its end need not be known.
#[repr(C)]
pub(crate) struct VirError {
    code: c_int,
    domain: c_int,
    message: *const c_char,
}

/// `virDomainInfo`
#[repr(C)]
#[derive(Default)]
pub(crate) struct Info {
    pub(crate) state: c_uchar,
    pub(crate) memory_max: c_ulong,
    pub(crate) memory: c_ulong,
    pub(crate) vcpus: c_ushort,
    pub(crate) cpu_time: c_ulonglong,
}

/// `virDomainMemoryStatStruct`
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct MemoryStat {
    pub(crate) tag: c_int,
    pub(crate) value: c_ulonglong,
}

/// `virDomainBlockStatsStruct`
#[repr(C)]
#[derive(Default)]
pub(crate) struct BlockStats {
    pub(crate) read_requests: c_longlong,
    pub(crate) read_bytes: c_longlong,
    pub(crate) write_requests: c_longlong,
    pub(crate) write_bytes: c_longlong,
    pub(crate) errors: c_longlong,
}

/// `virDomainBlockInfo`
#[repr(C)]
#[derive(Default)]
pub(crate) struct BlockSizes {
    pub(crate) capacity: c_ulonglong,
    pub(crate) allocation: c_ulonglong,
    pub(crate) physical: c_ulonglong,
}

/// `virDomainInterfaceStatsStruct`: received bytes, packets, errors, drops, then the same of what was sent.
#[repr(C)]
#[derive(Default)]
pub(crate) struct InterfaceStats(pub(crate) [c_longlong; 8]);

/// `virTypedParameter`; the value is a union of eight bytes, read by the kind.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct TypedParameter {
    pub(crate) field: [c_char; 80],
    pub(crate) kind: c_int,
    pub(crate) value: u64,
}

impl TypedParameter {
    pub(crate) const EMPTY: Self = TypedParameter { field: [0; 80], kind: 0, value: 0 };
}

/// `virDomainStatsRecord`
#[repr(C)]
pub(crate) struct StatsRecord {
    pub(crate) domain: Handle,
    pub(crate) parameters: *mut TypedParameter,
    pub(crate) count: c_int,
}

// The layouts that C compilers give these on the machines gnudi is built for (64 bits).
const _: () = assert!(size_of::<TypedParameter>() == 96 && std::mem::offset_of!(TypedParameter, value) == 88);
const _: () = assert!(size_of::<c_long>() == 8);

macro_rules! functions {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $answer:ty)?;)*) => {
        #[expect(non_snake_case, reason = "libvirt's own names")]
        /// Pointers to the functions; they stay valid as long as the process lives, since the library is never unloaded.
        pub(crate) struct Api {
            $(pub(crate) $name: unsafe extern "C" fn($($argument: $type),*) $(-> $answer)?,)*
        }

        impl Api {
            fn resolve(library: &Library) -> Result<Self, libloading::Error> {
                Ok(Api {
                    $(
                        // SAFETY: the type is the one that libvirt's headers declare for a function of this name, and
                        // the name is libvirt's own; its versions keep both.
                        $name: *unsafe { library.get(stringify!($name)) }?,
                    )*
                })
            }
        }
    };
}

functions! {
    fn virInitialize() -> c_int;
    fn virSetErrorFunc(user: *mut c_void, function: ErrorFunction);
    fn virGetLastError() -> *mut VirError;
    fn virConnectOpenReadOnly(uri: *const c_char) -> Handle;
    fn virConnectClose(connection: Handle) -> c_int;
    fn virConnectIsAlive(connection: Handle) -> c_int;
    fn virConnectListAllDomains(connection: Handle, domains: *mut *mut Handle, flags: c_uint) -> c_int;
    fn virConnectGetAllDomainStats(
        connection: Handle, stats: c_uint, records: *mut *mut *mut StatsRecord, flags: c_uint,
    ) -> c_int;
    fn virDomainListGetStats(
        domains: *mut Handle, stats: c_uint, records: *mut *mut *mut StatsRecord, flags: c_uint,
    ) -> c_int;
    fn virDomainStatsRecordListFree(records: *mut *mut StatsRecord);
    fn virDomainFree(domain: Handle) -> c_int;
    fn virDomainLookupByUUIDString(connection: Handle, uuid: *const c_char) -> Handle;
    fn virDomainGetName(domain: Handle) -> *const c_char;
    fn virDomainGetUUIDString(domain: Handle, uuid: *mut c_char) -> c_int;
    fn virDomainGetInfo(domain: Handle, info: *mut Info) -> c_int;
    fn virDomainGetMetadata(domain: Handle, kind: c_int, uri: *const c_char, flags: c_uint) -> *mut c_char;
    fn virDomainGetXMLDesc(domain: Handle, flags: c_uint) -> *mut c_char;
    fn virDomainMemoryStats(domain: Handle, stats: *mut MemoryStat, count: c_uint, flags: c_uint) -> c_int;
    fn virDomainBlockStats(domain: Handle, disk: *const c_char, stats: *mut BlockStats, size: usize) -> c_int;
    fn virDomainBlockStatsFlags(
        domain: Handle, disk: *const c_char, parameters: *mut TypedParameter, count: *mut c_int, flags: c_uint,
    ) -> c_int;
    fn virDomainGetBlockInfo(domain: Handle, disk: *const c_char, info: *mut BlockSizes, flags: c_uint) -> c_int;
    fn virDomainInterfaceStats(
        domain: Handle, device: *const c_char, stats: *mut InterfaceStats, size: usize,
    ) -> c_int;
}

unsafe extern "C" {
    /// The C library's: libvirt gives strings and arrays that its callers free.
    pub(crate) fn free(pointer: *mut c_void);
}

/// The loaded library.
#[derive(Clone)]
pub struct Libvirt(Arc<Api>);

impl Libvirt {
    /// The name that every release since 2005 gives it.
    pub const NAME: &str = "libvirt.so.0";

    /// Loads the library by its name, or from a path. It stays loaded until the process ends.
    pub fn load(library: &Path) -> Result<Self> {
        let unusable = |reason: String| Error::Library {
            library: library.to_owned(),
            reason: reason.replace('\n', " "),
        };
        let missing = |error: libloading::Error| {
            // The linker's own words are the source; the error itself says only which call failed.
            unusable(std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string))
        };
        // SAFETY: its initialisers are those of virsh and its like, and ask nothing of the process. Whoever gives another
        // file has decided to run what is in it.
        let loaded = unsafe { Library::new(library) }.map_err(missing)?;
        let api = Api::resolve(&loaded).map_err(missing)?;
        // Never unloaded: the pointers in `api` stay valid.
        std::mem::forget(loaded);
        // SAFETY: may be called any number of times, on any thread.
        if unsafe { (api.virInitialize)() } < 0 {
            return Err(unusable("it cannot be initialised".to_owned()));
        }
        // SAFETY: the function lives as long as the process and touches nothing. Without one, libvirt writes each error to
        // the standard error output.
        unsafe { (api.virSetErrorFunc)(std::ptr::null_mut(), silent) };
        Ok(Libvirt(Arc::new(api)))
    }

    pub(crate) fn api(&self) -> &Arc<Api> {
        &self.0
    }
}

/// Errors are read where they arise.
unsafe extern "C" fn silent(_: *mut c_void, _: *mut VirError) {}

impl std::fmt::Debug for Libvirt {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Libvirt")
    }
}

impl Api {
    /// The thread's last error. To be called right after the call that failed, on its thread.
    pub(crate) fn failed(&self, operation: impl Into<String>) -> Error {
        let operation = operation.into();
        // SAFETY: the error is the thread's own and stays until the thread's next call into libvirt.
        unsafe {
            let error = (self.virGetLastError)();
            if error.is_null() {
                return Error::Failed {
                    operation,
                    code: 0,
                    domain: 0,
                    message: "no reason given".to_owned(),
                };
            }
            let message = if (*error).message.is_null() {
                "no reason given".to_owned()
            } else {
                CStr::from_ptr((*error).message).to_string_lossy().into_owned()
            };
            Error::Failed { operation, code: (*error).code, domain: (*error).domain, message }
        }
    }

    /// Takes a text that its receiver frees.
    pub(crate) fn take_text(text: *mut c_char) -> String {
        // SAFETY: the text ends with NUL, and is freed once, here.
        unsafe {
            let owned = CStr::from_ptr(text).to_string_lossy().into_owned();
            free(text.cast());
            owned
        }
    }
}

/// As libvirt takes it.
pub(crate) fn c_string(text: &str, what: &'static str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::Nul { what })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_told_with_its_package() {
        let message = Libvirt::load(Path::new("libvirt-that-nobody-has.so")).unwrap_err().to_string();
        assert!(message.contains("libvirt-that-nobody-has.so") && message.contains("libvirt0"), "{message}");
        assert!(!message.contains('\n'), "{message}");
    }

    #[test]
    fn another_library_is_not_taken_for_it() {
        let error = Libvirt::load(Path::new("libc.so.6")).unwrap_err().to_string();
        assert!(error.contains("libc.so.6") && error.contains("virInitialize"), "{error}");
    }
}

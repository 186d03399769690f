//! The C functions with the types of libvirt's headers, looked up by name in the shared library.

use std::{
    ffi::{CStr, CString, c_char, c_int, c_long, c_uint, c_ulonglong, c_void},
    fmt::Display,
    path::Path,
    sync::Arc,
};

use libloading::Library;

use crate::{BlockInfo, BlockStatistics, DomainInfo, Error, InterfaceStatistics, Result};

/// `virConnectPtr`, `virDomainPtr`.
pub(crate) type Handle = *mut c_void;
/// `virErrorFunc`
type ErrorFunction = unsafe extern "C" fn(user: *mut c_void, error: *mut VirError);

/// `virError`, the fields that are read: the library owns it, so that its full size need not be known.
#[repr(C)]
pub(crate) struct VirError {
    code: c_int,
    domain: c_int,
    message: *const c_char,
}

/// `virDomainMemoryStatStruct`
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct MemoryStat {
    pub(crate) tag: c_int,
    pub(crate) value: c_ulonglong,
}

/// `virTypedParameter`; the value is a union of eight bytes, read by type.
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
    domain: Handle,
    pub(crate) parameters: *mut TypedParameter,
    pub(crate) count: c_int,
}

// The layouts of C compilers on gnudi's platforms (64 bits).
const _: () = assert!(size_of::<TypedParameter>() == 96 && std::mem::offset_of!(TypedParameter, value) == 88);
const _: () = assert!(size_of::<c_long>() == 8);

macro_rules! functions {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $answer:ty)?;)*) => {
        #[expect(non_snake_case, reason = "libvirt's own names")]
        /// Function pointers; valid for the life of the process, since the library is never unloaded.
        pub(crate) struct Api {
            $(pub(crate) $name: unsafe extern "C" fn($($argument: $type),*) $(-> $answer)?,)*
        }

        impl Api {
            fn resolve(library: &Library) -> Result<Self, libloading::Error> {
                Ok(Api {
                    $(
                        // SAFETY: the type is the one that libvirt's headers declare for this function; it does not
                        // change between versions.
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
    fn virDomainListGetStats(
        domains: *mut Handle, stats: c_uint, records: *mut *mut *mut StatsRecord, flags: c_uint,
    ) -> c_int;
    fn virDomainStatsRecordListFree(records: *mut *mut StatsRecord);
    fn virDomainFree(domain: Handle) -> c_int;
    fn virDomainLookupByUUIDString(connection: Handle, uuid: *const c_char) -> Handle;
    fn virDomainGetName(domain: Handle) -> *const c_char;
    fn virDomainGetUUIDString(domain: Handle, uuid: *mut c_char) -> c_int;
    fn virDomainGetInfo(domain: Handle, info: *mut DomainInfo) -> c_int;
    fn virDomainGetMetadata(domain: Handle, kind: c_int, uri: *const c_char, flags: c_uint) -> *mut c_char;
    fn virDomainGetXMLDesc(domain: Handle, flags: c_uint) -> *mut c_char;
    fn virDomainMemoryStats(domain: Handle, stats: *mut MemoryStat, count: c_uint, flags: c_uint) -> c_int;
    fn virDomainBlockStats(domain: Handle, disk: *const c_char, stats: *mut BlockStatistics, size: usize) -> c_int;
    fn virDomainBlockStatsFlags(
        domain: Handle, disk: *const c_char, parameters: *mut TypedParameter, count: *mut c_int, flags: c_uint,
    ) -> c_int;
    fn virDomainGetBlockInfo(domain: Handle, disk: *const c_char, info: *mut BlockInfo, flags: c_uint) -> c_int;
    fn virDomainInterfaceStats(
        domain: Handle, device: *const c_char, stats: *mut InterfaceStatistics, size: usize,
    ) -> c_int;
}

unsafe extern "C" {
    /// The C library's `free`: callers of libvirt free the strings and arrays that it returns.
    pub(crate) fn free(pointer: *mut c_void);
}

/// The loaded library.
#[derive(Clone)]
pub struct Libvirt(Arc<Api>);

impl Libvirt {
    /// The library's name in every release since 2005.
    pub const NAME: &str = "libvirt.so.0";

    /// Loads the library by its name, or from a path. It stays loaded until the process ends.
    pub fn load(library: &Path) -> Result<Self> {
        let unusable = |reason: String| Error::Library {
            library: library.to_owned(),
            reason: reason.replace('\n', " "),
        };
        let missing = |error: libloading::Error| {
            // The dynamic linker's message is the source; the error itself only names the failed call.
            unusable(std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string))
        };
        // SAFETY: its initialisers are those that run in virsh etc. A caller who gives another file has decided to run
        // its code.
        let loaded = unsafe { Library::new(library) }.map_err(missing)?;
        let api = Api::resolve(&loaded).map_err(missing)?;
        // Never unloaded: the pointers in `api` stay valid.
        std::mem::forget(loaded);
        // SAFETY: may be called repeatedly, on any thread.
        if unsafe { (api.virInitialize)() } < 0 {
            return Err(unusable("it cannot be initialised".to_owned()));
        }
        // SAFETY: the function is static and touches nothing. Without a handler, libvirt prints each error to standard
        // error.
        unsafe { (api.virSetErrorFunc)(std::ptr::null_mut(), silent) };
        Ok(Libvirt(Arc::new(api)))
    }

    pub(crate) fn api(&self) -> &Arc<Api> {
        &self.0
    }
}

/// Errors are returned, not printed.
unsafe extern "C" fn silent(_: *mut c_void, _: *mut VirError) {}

impl std::fmt::Debug for Libvirt {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Libvirt")
    }
}

impl Api {
    /// The thread's last error. Call it directly after the failed call, on the same thread.
    pub(crate) fn failed(&self, operation: impl Display) -> Error {
        let operation = operation.to_string();
        // SAFETY: the error belongs to the thread and is valid until its next call into libvirt.
        unsafe {
            let (code, domain, message) = match (self.virGetLastError)().as_ref() {
                Some(error) => (error.code, error.domain, error.message),
                None => (0, 0, std::ptr::null()),
            };
            let message = if message.is_null() {
                "no reason given".to_owned()
            } else {
                CStr::from_ptr(message).to_string_lossy().into_owned()
            };
            Error::Failed { operation, code, domain, message }
        }
    }

    /// The count that a call returned, or its error if that is negative; to be called like [`Api::failed`].
    pub(crate) fn checked(&self, count: c_int, operation: impl Display) -> Result<usize> {
        usize::try_from(count).map_err(|_| self.failed(operation))
    }

    /// Copies a text that a call returned and the caller must free, and frees it. If it is null, the call's error; to be
    /// called like [`Api::failed`].
    pub(crate) fn take_text(&self, text: *mut c_char, operation: &str) -> Result<String> {
        if text.is_null() {
            return Err(self.failed(operation));
        }
        // SAFETY: the text ends with NUL, and is freed once, here.
        unsafe {
            let owned = CStr::from_ptr(text).to_string_lossy().into_owned();
            free(text.cast());
            Ok(owned)
        }
    }
}

/// A C string for libvirt.
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

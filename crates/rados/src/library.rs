//! The C functions with the types of `rados/librados.h`, looked up by name in the shared library.

use std::{
    ffi::{c_char, c_int, c_uchar, c_void},
    path::Path,
    sync::Arc,
};

use libloading::Library;

use crate::{Error, Result};

/// `rados_t`, `rados_ioctx_t`, `rados_completion_t`, `rados_write_op_t`, `rados_read_op_t`, `rados_omap_iter_t`,
/// `rados_list_ctx_t`.
pub(crate) type Handle = *mut c_void;
/// `rados_callback_t`
pub(crate) type Callback = unsafe extern "C" fn(completion: Handle, argument: *mut c_void);

/// `LIBRADOS_CREATE_EXCLUSIVE`
pub(crate) const CREATE_EXCLUSIVE: c_int = 1;
/// `LIBRADOS_OPERATION_FULL_TRY`
pub(crate) const FULL_TRY: c_int = 64;

macro_rules! functions {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $answer:ty)?;)*) => {
        /// Function pointers; valid for the life of the process, since the library is never unloaded.
        pub(crate) struct Api {
            $(pub(crate) $name: unsafe extern "C" fn($($argument: $type),*) $(-> $answer)?,)*
        }

        impl Api {
            fn resolve(library: &Library) -> Result<Self, libloading::Error> {
                Ok(Api {
                    $(
                        // SAFETY: the type is the one that librados.h declares for this function; it does not change
                        // between versions.
                        $name: *unsafe { library.get(stringify!($name)) }?,
                    )*
                })
            }
        }
    };
}

functions! {
    fn rados_create2(cluster: *mut Handle, cluster_name: *const c_char, name: *const c_char, flags: u64) -> c_int;
    fn rados_conf_read_file(cluster: Handle, path: *const c_char) -> c_int;
    fn rados_conf_set(cluster: Handle, option: *const c_char, value: *const c_char) -> c_int;
    fn rados_connect(cluster: Handle) -> c_int;
    fn rados_shutdown(cluster: Handle);
    fn rados_mon_command(
        cluster: Handle, command: *const *const c_char, commands: usize, input: *const c_char, input_len: usize,
        output: *mut *mut c_char, output_len: *mut usize, status: *mut *mut c_char, status_len: *mut usize,
    ) -> c_int;
    fn rados_buffer_free(buffer: *mut c_char);
    fn rados_getaddrs(cluster: Handle, addresses: *mut *mut c_char) -> c_int;
    fn rados_ioctx_create(cluster: Handle, pool: *const c_char, context: *mut Handle) -> c_int;
    fn rados_ioctx_destroy(context: Handle);
    fn rados_ioctx_set_namespace(context: Handle, namespace: *const c_char);
    fn rados_nobjects_list_open(context: Handle, list: *mut Handle) -> c_int;
    fn rados_nobjects_list_next(
        list: Handle, object: *mut *const c_char, locator: *mut *const c_char, namespace: *mut *const c_char,
    ) -> c_int;
    fn rados_nobjects_list_close(list: Handle);

    fn rados_aio_create_completion2(argument: *mut c_void, complete: Callback, completion: *mut Handle) -> c_int;
    fn rados_aio_get_return_value(completion: Handle) -> c_int;
    fn rados_aio_release(completion: Handle);

    fn rados_create_write_op() -> Handle;
    fn rados_release_write_op(operation: Handle);
    fn rados_write_op_create(operation: Handle, exclusive: c_int, category: *const c_char);
    fn rados_write_op_write_full(operation: Handle, data: *const c_char, len: usize);
    fn rados_write_op_remove(operation: Handle);
    fn rados_write_op_omap_set2(
        operation: Handle, keys: *const *const c_char, values: *const *const c_char, key_lens: *const usize,
        value_lens: *const usize, count: usize,
    );
    fn rados_aio_write_op_operate(
        operation: Handle, context: Handle, completion: Handle, object: *const c_char, mtime: *mut i64, flags: c_int,
    ) -> c_int;

    fn rados_create_read_op() -> Handle;
    fn rados_release_read_op(operation: Handle);
    fn rados_read_op_read(
        operation: Handle, offset: u64, len: usize, data: *mut c_char, data_len: *mut usize, code: *mut c_int,
    );
    fn rados_read_op_stat(operation: Handle, size: *mut u64, mtime: *mut i64, code: *mut c_int);
    fn rados_read_op_omap_get_vals2(
        operation: Handle, start_after: *const c_char, prefix: *const c_char, count_max: u64, iterator: *mut Handle,
        more: *mut c_uchar, code: *mut c_int,
    );
    fn rados_aio_read_op_operate(
        operation: Handle, context: Handle, completion: Handle, object: *const c_char, flags: c_int,
    ) -> c_int;
    fn rados_omap_get_next2(
        iterator: Handle, key: *mut *mut c_char, value: *mut *mut c_char, key_len: *mut usize, value_len: *mut usize,
    ) -> c_int;
    fn rados_omap_get_end(iterator: Handle);
}

/// The loaded library.
#[derive(Clone)]
pub struct Librados(Arc<Api>);

impl Librados {
    /// The library's name in every release of Ceph since 2012.
    pub const NAME: &str = "librados.so.2";

    /// Loads the library by its name, or from a path. It stays loaded until the process ends: it has its own threads.
    pub fn load(library: &Path) -> Result<Self> {
        let missing = |error: libloading::Error| {
            // The dynamic linker's message is the source; the error itself only names the failed call.
            let reason =
                std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            Error::Library { library: library.to_owned(), reason: reason.replace('\n', " ") }
        };
        // SAFETY: its initialisers are those that run in Ceph's own clients. A caller who gives another file has
        // decided to run its code.
        let library = unsafe { Library::new(library) }.map_err(missing)?;
        let api = Api::resolve(&library).map_err(missing)?;
        // Never unloaded: the pointers in `api` stay valid.
        std::mem::forget(library);
        Ok(Librados(Arc::new(api)))
    }

    pub(crate) fn api(&self) -> &Arc<Api> {
        &self.0
    }
}

impl std::fmt::Debug for Librados {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Librados")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_told_with_its_package() {
        let error = Librados::load(Path::new("librados-that-nobody-has.so")).unwrap_err();
        let message = error.to_string();
        assert!(
            message.contains("librados-that-nobody-has.so") && message.contains("librados2"),
            "{message}"
        );
        assert!(!message.contains('\n'), "{message}");
        assert_eq!(error.kind(), std::io::ErrorKind::Unsupported);
    }

    #[test]
    fn another_library_is_not_taken_for_it() {
        let error = Librados::load(Path::new("libc.so.6")).unwrap_err().to_string();
        assert!(error.contains("libc.so.6") && error.contains("rados_create2"), "{error}");
    }
}

//! A connection to a cluster, and commands to its monitors.

use std::{
    ffi::{CStr, CString, c_char, c_int},
    os::unix::ffi::OsStrExt as _,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use crate::{
    Error, Librados, Pool, Result,
    library::{Api, Handle},
};

/// How to reach a cluster, and the user.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// `ceph.conf`; without one, all settings are in `options`.
    pub conf: Option<PathBuf>,
    /// The user's name without "client.".
    pub user: String,
    /// The file with the user's key, if not as in `conf`.
    pub keyring: Option<PathBuf>,
    /// Further options, applied last: ("mon host", "10.0.0.1"), ("key", "AQ...").
    pub options: Vec<(String, String)>,
    /// Timeout of the first response of a monitor; whole seconds, at least one.
    pub connect_timeout: Duration,
    /// Timeout of an operation or command; whole seconds, at least one.
    pub operation_timeout: Duration,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        ConnectOptions {
            conf: None,
            user: "admin".to_owned(),
            keyring: None,
            options: Vec::new(),
            connect_timeout: Duration::from_secs(30),
            operation_timeout: Duration::from_mins(2),
        }
    }
}

/// A connection; clones share it. It is closed with the last clone and the last [`Pool`] from it.
#[derive(Clone, Debug)]
pub struct Cluster(Arc<Connection>);

pub(crate) struct Connection {
    pub(crate) api: Arc<Api>,
    handle: Handle,
}

// SAFETY: librados locks its cluster handles internally; any threads may use one concurrently.
unsafe impl Send for Connection {}
// SAFETY: as above.
unsafe impl Sync for Connection {}

impl std::fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Connection")
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: the handle is from rados_create2 and has no other users (each pool holds this connection, and has
        // waited for its operations). This does not run on a thread of librados: a job holds no connection.
        unsafe { (self.api.rados_shutdown)(self.handle) }
    }
}

/// A C string for librados: a name, a key or a prefix. `what` names it in the error for a NUL byte.
pub(crate) fn c_string(text: impl AsRef<[u8]>, what: &'static str) -> Result<CString> {
    CString::new(text.as_ref()).map_err(|_| Error::Nul { what })
}

/// Converts a negative code to an error.
pub(crate) fn check(code: c_int, operation: impl FnOnce() -> String) -> Result<()> {
    if code < 0 { Err(Error::failed(operation(), code)) } else { Ok(()) }
}

impl Cluster {
    /// Connects; blocks until a monitor has responded, or until the timeout.
    pub fn connect(librados: &Librados, options: &ConnectOptions) -> Result<Self> {
        let api = Arc::clone(librados.api());
        let name = c_string(format!("client.{}", options.user), "the user's name")?;
        let mut handle: Handle = std::ptr::null_mut();
        // SAFETY: both names are C strings that outlive the call, and `handle` takes one pointer.
        let code = unsafe { (api.rados_create2)(&raw mut handle, c"ceph".as_ptr(), name.as_ptr(), 0) };
        check(code, || format!("create a client for {}", name.to_string_lossy()))?;
        // From here on dropping it frees the handle, connected or not.
        let connection = Connection { api, handle };
        connection.configure(options)?;
        // SAFETY: the handle is alive and not yet connected.
        let code = unsafe { (connection.api.rados_connect)(connection.handle) };
        check(code, || match &options.conf {
            Some(conf) => format!("connect to the cluster of {}", conf.display()),
            None => "connect to the cluster".to_owned(),
        })?;
        Ok(Cluster(Arc::new(connection)))
    }

    /// Opens a pool; `NotFound` if it does not exist.
    pub fn open_pool(&self, name: &str) -> Result<Pool> {
        self.open_namespace(name, "")
    }

    /// Opens a namespace of a pool. Namespaces need not be created, and are separate: objects with one name in two
    /// namespaces are two objects. `NotFound` if the pool does not exist.
    pub fn open_namespace(&self, name: &str, namespace: &str) -> Result<Pool> {
        let namespace = c_string(namespace, "the namespace")?;
        let pool = c_string(name, "the pool's name")?;
        let mut context: Handle = std::ptr::null_mut();
        // SAFETY: the cluster is connected, the name a C string, and `context` takes one pointer.
        let code = unsafe { (self.0.api.rados_ioctx_create)(self.0.handle, pool.as_ptr(), &raw mut context) };
        check(code, || format!("open the pool {name}"))?;
        // SAFETY: the context is alive and has no other users yet; librados copies the namespace, a C string.
        unsafe { (self.0.api.rados_ioctx_set_namespace)(context, namespace.as_ptr()) };
        Ok(Pool::new(Arc::clone(&self.0), context, name))
    }

    /// Sends a command (JSON, such as `{"prefix": "osd pool create", ...}`) to the monitors and returns their response,
    /// which is JSON if the command says `"format": "json"`; an error includes their status text. Blocks.
    pub fn mon_command(&self, command: &str) -> Result<Vec<u8>> {
        let text = c_string(command, "the command")?;
        let commands = [text.as_ptr()];
        let (commands, count) = (commands.as_ptr(), commands.len());
        let (no_input, input_len) = (std::ptr::null(), 0);
        let (mut output, mut status) = (std::ptr::null_mut(), std::ptr::null_mut());
        let (mut output_len, mut status_len) = (0, 0);
        let (out, out_len) = (&raw mut output, &raw mut output_len);
        let (state, state_len) = (&raw mut status, &raw mut status_len);
        let Connection { api, handle } = &*self.0;
        // SAFETY: one command of one C string; no input; the four output parameters outlive the call.
        let code = unsafe {
            (api.rados_mon_command)(
                *handle, commands, count, no_input, input_len, out, out_len, state, state_len,
            )
        };
        let (output, status) = (self.0.take(output, output_len), self.0.take(status, status_len));
        check(code, || match String::from_utf8_lossy(&status).trim() {
            "" => format!("monitor command {command}"),
            status => format!("monitor command {command}: {status}"),
        })?;
        Ok(output)
    }
}

impl Connection {
    fn configure(&self, options: &ConnectOptions) -> Result<()> {
        if let Some(conf) = &options.conf {
            let path = c_string(conf.as_os_str().as_bytes(), "the configuration file's path")?;
            // SAFETY: the handle is alive, the path a C string.
            let code = unsafe { (self.api.rados_conf_read_file)(self.handle, path.as_ptr()) };
            check(code, || format!("read {}", conf.display()))?;
        }
        let seconds = |time: Duration| time.as_secs().max(1).to_string();
        self.set("client_mount_timeout", &seconds(options.connect_timeout))?;
        self.set("rados_osd_op_timeout", &seconds(options.operation_timeout))?;
        self.set("rados_mon_op_timeout", &seconds(options.operation_timeout))?;
        if let Some(keyring) = &options.keyring {
            self.set("keyring", &keyring.display().to_string())?;
        }
        options.options.iter().try_for_each(|(option, value)| self.set(option, value))
    }

    fn set(&self, option: &str, value: &str) -> Result<()> {
        let (name, text) = (c_string(option, "an option's name")?, c_string(value, "an option's value")?);
        // SAFETY: the handle is alive, both are C strings; librados copies them.
        let code = unsafe { (self.api.rados_conf_set)(self.handle, name.as_ptr(), text.as_ptr()) };
        check(code, || format!("set the option {option}"))
    }

    /// The client's own addresses, such as `127.0.0.1:0/1234567`.
    pub(crate) fn addresses(&self) -> Result<String> {
        let mut text: *mut c_char = std::ptr::null_mut();
        // SAFETY: the cluster is connected, and `text` takes one pointer.
        let code = unsafe { (self.api.rados_getaddrs)(self.handle, &raw mut text) };
        check(code, || "get the client's addresses".to_owned())?;
        // SAFETY: librados has set it to a C string of its own, or left it null.
        let len = if text.is_null() { 0 } else { unsafe { CStr::from_ptr(text) }.to_bytes().len() };
        Ok(String::from_utf8_lossy(&self.take(text, len)).into_owned())
    }

    /// Copies a buffer that librados allocated, and frees it.
    fn take(&self, buffer: *mut c_char, len: usize) -> Vec<u8> {
        if buffer.is_null() {
            return Vec::new();
        }
        // SAFETY: librados allocated `len` bytes at `buffer`, to be freed by its own function; there are no other
        // users.
        unsafe {
            let bytes = std::slice::from_raw_parts(buffer.cast::<u8>(), len).to_vec();
            (self.api.rados_buffer_free)(buffer);
            bytes
        }
    }
}

/// Sorts before all keys: where a listing begins.
pub(crate) const NO_KEY: &CStr = c"";

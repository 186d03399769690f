//! The stacks of threads that libraries start.

use gnudi_telemetry::messaging::STACK_BYTES;

/// Where the standard library looks up the stack of threads, when the first one starts.
const VARIABLE: &str = "RUST_MIN_STACK";

/// Gives threads from now on the stack that messages of a broker may take, unless the user has set one. Only addresses are
/// reserved: a thread takes the memory that it uses. To be called before any thread is started.
#[expect(unsafe_code, reason = "there is no other way to size the stack of a thread that a library starts")]
pub fn fit_messages() {
    if std::env::var_os(VARIABLE).is_none() {
        // SAFETY: this is the only thread, so nobody reads the environment meanwhile.
        unsafe { std::env::set_var(VARIABLE, STACK_BYTES.to_string()) };
    }
}

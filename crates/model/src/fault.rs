//! Why a part of the program does not do its work any more.

use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It refuses its work until a restart, and says why. The rest of the program goes on.
    OutOfOrder(String),
    /// A task or thread that must not end has ended: the process should, too.
    Ended(&'static str),
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::OutOfOrder(reason) => formatter.write_str(reason),
            Fault::Ended(what) => write!(formatter, "{what} has ended"),
        }
    }
}

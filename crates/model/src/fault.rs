//! Why a part of the program has stopped working.

use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It rejects all work until a restart; the text says why. The rest of the program continues.
    OutOfOrder(String),
    /// A task or thread that must not end has ended: the process should end, too.
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

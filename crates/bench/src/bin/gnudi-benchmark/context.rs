//! The context of all commands, beyond the load generator's: programs to start, and their cleanup.

use std::{ops::Deref, sync::Arc};

use anyhow::Result;
pub use gnudi_bench::context::Stop;

use crate::peers::{Programs, child::Leftovers};

/// State shared by the commands of a run. A copy may have other programs.
#[derive(Clone, Debug)]
pub struct Context {
    generator: Arc<gnudi_bench::context::Context>,
    pub programs: Programs,
    /// Cleaned up however the run ends.
    pub leftovers: Leftovers,
}

impl Context {
    /// On the second ctrl-C all servers are killed.
    pub fn new(programs: Programs, verbose: bool) -> Result<Self> {
        let leftovers = Leftovers::default();
        let left = leftovers.clone();
        let generator = gnudi_bench::context::Context::new(verbose, move || left.clean())?;
        Ok(Context { generator: Arc::new(generator), programs, leftovers })
    }

    #[cfg(test)]
    pub fn of_tests() -> Self {
        Context::new(crate::commands::parse_options(&[]), false).unwrap()
    }
}

impl Deref for Context {
    type Target = gnudi_bench::context::Context;

    fn deref(&self) -> &Self::Target {
        &self.generator
    }
}

//! What every command needs beyond the load generator's: the programs to start, and what they leave behind.

use std::ops::Deref;

use anyhow::Result;
pub use gnudi_bench::context::Stop;

use crate::peers::{Programs, child::Leftovers};

/// What the commands of a run share.
#[derive(Debug)]
pub struct Context {
    generator: gnudi_bench::context::Context,
    pub programs: Programs,
    /// What is removed however the run ends.
    pub leftovers: Leftovers,
}

impl Context {
    /// On the second ctrl-C no server is left behind.
    pub fn new(programs: Programs, verbose: bool) -> Result<Self> {
        let leftovers = Leftovers::default();
        let left = leftovers.clone();
        let generator = gnudi_bench::context::Context::new(verbose, move || left.clean())?;
        Ok(Context { generator, programs, leftovers })
    }
}

impl Deref for Context {
    type Target = gnudi_bench::context::Context;

    fn deref(&self) -> &Self::Target {
        &self.generator
    }
}

//! `gnudi profile`: requests a flame graph from a running server, and writes it to a file.

use std::{
    fs::{self, OpenOptions},
    path::Path,
    time::Duration,
};

use anyhow::{Context as _, Result, anyhow};
use gnudi_client::ClientError;

use super::{client, messages::say};
use crate::args::ProfileArgs;

/// Additional time for the response: names are looked up in debug information.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(1);

pub fn run(args: &ProfileArgs) -> Result<()> {
    let duration = Duration::from_secs(u64::from(args.seconds));
    let file = Output::open(&args.output)?;
    super::own_thread()?.block_on(async {
        let client = args.server.connect_within(duration + ANSWER_TIMEOUT).await?;
        let svg = client.flamegraph(duration, args.frequency).await;
        file.write(&svg.map_err(|error| explained(error, client.base_url(), args.server.user.as_deref()))?)?;
        say(format_args!("{}: {} s of {}", args.output.display(), args.seconds, client.base_url()));
        Ok(())
    })
}

/// The failure, with what to do about it.
fn explained(error: ClientError, endpoint: &str, user: Option<&str>) -> anyhow::Error {
    match (&error, error.status()) {
        (ClientError::NoAnswer { .. }, _) | (_, Some(401)) => client::explained(error.into(), endpoint),
        (_, Some(403)) => {
            let who = user.unwrap_or("the caller");
            anyhow!("{endpoint} gives profiles to administrators only, and {who} is none")
        }
        (_, Some(404)) => anyhow!("{endpoint} has no /debug/flamegraph: it is no gnudi, or an old one"),
        (_, Some(409)) => anyhow!("{endpoint} is taking a profile already: try again when it is done"),
        _ => anyhow!(error).context(format!("{endpoint} returned no profile")),
    }
}

/// The output file, opened before the profile starts, so that a file that cannot be written is reported early. Until
/// then an existing file stays unchanged; a new one is removed after a failure.
struct Output<'a> {
    path: &'a Path,
    is_new: bool,
    is_written: bool,
}

impl<'a> Output<'a> {
    fn open(path: &'a Path) -> Result<Self> {
        let is_new = !path.exists();
        let opened = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        opened.with_context(|| format!("{} cannot be written", path.display()))?;
        Ok(Output { path, is_new, is_written: false })
    }

    fn write(mut self, text: &str) -> Result<()> {
        fs::write(self.path, text).with_context(|| format!("{} cannot be written", self.path.display()))?;
        self.is_written = true;
        Ok(())
    }
}

impl Drop for Output<'_> {
    fn drop(&mut self) {
        if self.is_new && !self.is_written {
            let _ = fs::remove_file(self.path);
        }
    }
}

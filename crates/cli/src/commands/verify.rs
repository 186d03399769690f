//! `gnudi verify`: reads all of an embedded store that no process has open, or of a backup, and reports damage;
//! `--repair` moves damaged data aside.

use std::{
    io::IsTerminal as _,
    path::Path,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use gnudi_drivers::{
    backup::MANIFEST,
    data_dir,
    owner::KeepOwner,
    verify::{self, Finding, PlainFiles, Progress},
};
use gnudi_engine::verify::StoreJudge;
use gnudi_indexer::sql::{FileCheck, SqlIndexer};
use gnudi_model::SackCount;

use super::{
    backup::{embedded_dir, megabytes},
    messages::{note, note_part, say},
};
use crate::{args::VerifyArgs, config::Config, logging, store::sack_count};

/// Interval of progress lines: on a terminal, and elsewhere.
const TOLD_DELAY: Duration = Duration::from_secs(1);
const TOLD_DELAY_QUIET: Duration = Duration::from_secs(10);

/// Prints findings and counts them.
struct Printer {
    is_json: bool,
    damages: u64,
    leftovers: u64,
}

impl Printer {
    fn print(&mut self, finding: &Finding) {
        if finding.is_leftover {
            self.leftovers += 1;
        } else {
            self.damages += 1;
        }
        if self.is_json {
            say(finding.to_json());
        } else {
            say(finding);
        }
    }
}

/// Returns the exit status: 1 if there is damage that is not repaired.
pub fn run(args: &VerifyArgs) -> Result<u8> {
    let config = Config::load(&args.store.program)?;
    logging::start_quietly(&args.store.program, &config);
    let dir = embedded_dir(&args.store, &config)?;
    let index_path = data_dir::index_path(&dir);
    if !index_path.exists() && !dir.join("incoming").exists() && !dir.join("aggregates").exists() {
        bail!("{}: no data directory, and no backup", dir.display());
    }
    data_dir::refuse_newer(&dir)?;
    let is_backup = dir.join(MANIFEST).is_file();
    if is_backup && args.repair {
        bail!("{} is a backup: restore it, and repair the data directory", dir.display());
    }
    let _lock = if args.repair { Some(data_dir::lock(&dir)?) } else { data_dir::lock_unchanged(&dir)? };
    let _owner = args.repair.then(|| KeepOwner::of(&dir));
    let _no_backup = args.repair.then(|| data_dir::exclude_backups(&dir)).transpose()?;
    let began = Instant::now();
    let runtime = super::runtime(&config, "verify", Some(1))?;
    let progress = Arc::new(Progress::default());
    let index_bytes = std::fs::metadata(&index_path).map_or(0, |file| file.len());
    let ticker = Ticker::start(&progress, verify::store_bytes(&dir) + index_bytes);
    let mut printer = Printer { is_json: args.json, damages: 0, leftovers: 0 };
    let mut index = runtime.block_on(SqlIndexer::check_file(&index_path))?;
    progress.add(1, index_bytes);
    tell_of_index(&index_path, &index, &mut printer);
    if args.repair && !index.is_file_whole {
        let keep = |path: &Path| verify::keep_copy(&dir, path);
        runtime
            .block_on(SqlIndexer::repair_file(&index_path, keep))
            .context("not repaired: without its index the metrics of a store are unknown")?;
        index = runtime.block_on(SqlIndexer::check_file(&index_path))?;
    }
    let plain = verify::check_plain_files(&dir, index.cluster_id, &mut |finding| printer.print(&finding))?;
    let mut judge = StoreJudge::new(index.metrics.as_deref().unwrap_or_default());
    let has_metrics = index.metrics.is_some();
    // Without the index every metric would be reported as unknown.
    let mut tell = |finding: Finding| {
        if has_metrics || !finding.is_leftover {
            printer.print(&finding);
        }
    };
    let checked = verify::check(&dir, &mut judge, &progress, &mut tell)?;
    ticker.stop();
    print_summary(&printer, &checked, &index, &progress, began);
    if !args.repair || printer.damages + printer.leftovers == 0 {
        return Ok(u8::from(printer.damages > 0));
    }
    if let Some(version) = judge.newer_version() {
        bail!(
            "not repaired: states or blocks have format version {version}, which this program does not know: use the program that wrote them, or a newer one"
        );
    }
    repair(&dir, plain, &index, checked, &judge, sack_count(&config), &runtime)
}

fn tell_of_index(path: &Path, index: &FileCheck, printer: &mut Printer) {
    let repair = if index.is_file_whole {
        "none: the row is not changed"
    } else {
        "its indexes are rebuilt; if that does not help, restore it from a backup of this store"
    };
    for fault in &index.faults {
        printer.print(&Finding::of(path, format!("the index: {fault}"), repair));
    }
}

fn print_summary(
    printer: &Printer,
    checked: &verify::Checked,
    index: &FileCheck,
    progress: &Progress,
    began: Instant,
) {
    let (bytes, files) = progress.so_far();
    let (heads, blocks) = checked.read();
    let seconds = began.elapsed().as_secs_f64();
    let summary = format!(
        "{} damaged, {} left over: {} files, {}, {} states and {} blocks of {} metrics, {} known as lost from before; {:.1} s, {:.0} MB/s",
        printer.damages,
        printer.leftovers,
        files,
        megabytes(bytes),
        heads,
        blocks,
        index.metrics.as_ref().map_or(0, Vec::len),
        checked.known_lost(),
        seconds,
        bytes as f64 / 1e6 / seconds
    );
    if printer.is_json {
        note(summary);
    } else {
        say(summary);
    }
}

fn repair(
    dir: &Path,
    plain: PlainFiles,
    index: &FileCheck,
    checked: verify::Checked,
    judge: &StoreJudge,
    sacks: SackCount,
    runtime: &tokio::runtime::Runtime,
) -> Result<u8> {
    // An index that knows metrics of this store belongs to it.
    let is_own = judge.known() > 0 || checked.read().0 == 0;
    let id = index.cluster_id.filter(|_| is_own);
    let repaired = runtime.block_on(verify::repair(dir, plain, id, checked, judge, sacks))?;
    say(format_args!(
        "repaired: {} metrics marked as lost, {} rebuilt from the log of measures, {} deleted that are not in the index",
        repaired.lost, repaired.replayed, repaired.deleted
    ));
    Ok(u8::from(!index.faults.is_empty() || !is_own))
}

/// Prints the progress on standard error.
struct Ticker {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Ticker {
    fn start(progress: &Arc<Progress>, total_bytes: u64) -> Self {
        let (stop, stopped) = channel();
        let progress = Arc::clone(progress);
        let thread = std::thread::spawn(move || tell_progress(&progress, total_bytes, &stopped));
        Self { stop, thread }
    }

    fn stop(self) {
        self.stop.send(()).ok();
        self.thread.join().ok();
    }
}

fn tell_progress(progress: &Progress, total_bytes: u64, stopped: &Receiver<()>) {
    let is_terminal = std::io::stderr().is_terminal();
    let delay = if is_terminal { TOLD_DELAY } else { TOLD_DELAY_QUIET };
    while stopped.recv_timeout(delay) == Err(RecvTimeoutError::Timeout) {
        let (bytes, files) = progress.so_far();
        let bytes = bytes.min(total_bytes);
        let line = format!("{files} files, {} of {}", megabytes(bytes), megabytes(total_bytes));
        if is_terminal {
            note_part(format_args!("\r{line}   "));
        } else {
            note(line);
        }
    }
    if is_terminal {
        note_part("\r\x1b[K");
    }
}

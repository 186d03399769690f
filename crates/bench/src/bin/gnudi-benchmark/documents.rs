//! The figures of a run in Markdown documents: what stands between `<!-- report: NAME -->` and `<!-- end of report -->`.
//! All figures of the documents are thus of one run.
//!
//! Names: `run`, `standings`, `standing PEER`, `aims`, `rows`, and `experiment KEY`, where the key is an experiment's for
//! `--only`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use gnudi_model::Timestamp;

use crate::{
    experiments,
    measurement::Measurement,
    page::{self, words},
    peers::Peer,
    results::{Results, write_file},
    rows, table,
};

const BEGIN: &str = "<!-- report: ";
const BEGIN_END: &str = " -->";
const END: &str = "<!-- end of report -->";

/// Rewrites the blocks of documents, given as files or as directories, and returns the documents that have blocks. On an
/// error (an unknown name, a block without an end, figures that the run lacks) no document is changed.
pub fn update(places: &[PathBuf], results: &Results) -> Result<Vec<PathBuf>> {
    ensure!(results.partial.is_none(), "the run is partial: documents show whole runs");
    let mut updated = Vec::new();
    for place in places {
        let before = updated.len();
        for path in documents(place)? {
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            if text.contains(BEGIN) {
                let text = filled(&text, results).with_context(|| path.display().to_string())?;
                updated.push((path, text));
            }
        }
        ensure!(updated.len() > before, "{}: no block `{BEGIN}NAME{BEGIN_END}`", place.display());
    }
    for (path, text) in &updated {
        write_file(path, text.as_bytes())?;
    }
    Ok(updated.into_iter().map(|(path, _)| path).collect())
}

/// The Markdown files of a directory, sorted; or the file itself.
fn documents(place: &Path) -> Result<Vec<PathBuf>> {
    if !place.is_dir() {
        return Ok(vec![place.to_owned()]);
    }
    let entries = fs::read_dir(place).with_context(|| place.display().to_string())?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.sort();
    Ok(paths)
}

fn filled(document: &str, results: &Results) -> Result<String> {
    let mut out = String::new();
    let mut rest = document;
    while let Some(start) = rest.find(BEGIN) {
        let line = document.len() - rest.len() + start;
        let line = document[..line].matches('\n').count() + 1;
        let (head, tail) = rest[start + BEGIN.len()..]
            .split_once(BEGIN_END)
            .with_context(|| format!("line {line}: `{BEGIN}` without `{BEGIN_END}`"))?;
        let end = tail.find(END).with_context(|| format!("line {line}: a block without `{END}`"))?;
        let content = block(head, results).with_context(|| format!("line {line}: block `{head}`"))?;
        out.extend([&rest[..start], BEGIN, head, BEGIN_END, "\n\n", content.trim_end(), "\n\n", END]);
        rest = &tail[end + END.len()..];
    }
    Ok(out + rest)
}

fn block(name: &str, results: &Results) -> Result<String> {
    let measurements = &results.measurements;
    let text = match name.split_once(' ').unwrap_or((name, "")) {
        ("run", "") => run(results),
        ("standings", "") => list(&words::standings(measurements, &page::peers(results))),
        ("aims", "") => list(&[words::figures(measurements), words::aims(measurements)].concat()),
        ("rows", "") => all_rows(measurements),
        ("experiment", key) => return experiment(key, results),
        ("standing", peer) => {
            let peer = Peer::from_name(peer).with_context(|| format!("unknown server {peer}"))?;
            words::standings(measurements, &[peer]).concat()
        }
        _ => {
            anyhow::bail!("unknown; known are run, standings, standing PEER, aims, rows, and experiment KEY")
        }
    };
    ensure!(!text.is_empty(), "not measured in this run");
    Ok(text)
}

fn run(results: &Results) -> String {
    let date = Timestamp::from_secs(results.written_at as i64).to_iso();
    let date = &date[..10];
    let minutes = (results.seconds / 60.0).ceil();
    let versions: Vec<String> = results
        .versions
        .iter()
        .filter_map(|version| Some(format!("{} {}", version.name, version.version.as_ref()?)))
        .collect();
    format!(
        "One run of {minutes:.0} minutes on {date}, load generator included: {}; gnudi's commit {}; {}.\n\n    {}\n",
        results.machine,
        results.commit,
        versions.join(", "),
        results.command
    )
}

fn list(sentences: &[String]) -> String {
    sentences.iter().flat_map(|sentence| ["- ", sentence, "\n"]).collect()
}

fn all_rows(measurements: &[Measurement]) -> String {
    let blocks: Vec<String> =
        rows::measured(measurements).map(|(row, of_row)| table::block(row, &of_row)).collect();
    if blocks.is_empty() { String::new() } else { format!("```text\n{}```\n", blocks.join("\n")) }
}

fn experiment(key: &str, results: &Results) -> Result<String> {
    ensure!(experiments::all().any(|experiment| experiment.key() == key), "unknown experiment");
    let mut text = String::new();
    for experiment in results.experiments.iter().filter(|experiment| experiment.key() == key) {
        if let Some(reason) = &experiment.missing {
            anyhow::bail!("{reason}");
        }
        if let Some(findings) = &experiment.findings {
            text.extend(["`gnudi-benchmark ", &experiment.command, "`\n\n", &table::markdown(findings)]);
        }
    }
    ensure!(!text.is_empty(), "not measured in this run");
    Ok(text)
}

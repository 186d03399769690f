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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        experiments::Experiment,
        findings::{Findings, Table},
        measurement::{Unit, sample as measurement},
        results::sample,
    };

    fn results() -> Results {
        let mut results = sample();
        results.measurements = vec![measurement("create", Peer::Gnudi, Unit::Metrics, 20_000.0, 1.0)];
        let mut findings = Findings::new("growth");
        findings.tables.push(Table::new(
            "metrics",
            "metrics | rate",
            [["7", "9/s"].map(str::to_owned).to_vec()],
        ));
        let experiment = Experiment::new(["growth", "growth", "growth --only metrics"]);
        results.experiments.push(Experiment { findings: Some(findings), ..experiment });
        results
    }

    #[test]
    fn blocks_are_replaced_and_the_rest_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("capacity.md");
        let block = |name: &str, content: &str| format!("{BEGIN}{name}{BEGIN_END}\n{content}\n{END}\n");
        let document = format!(
            "# Head\n\n{}between\n\n{}end\n",
            block("rows", "old"),
            block("experiment growth", "old")
        );
        fs::write(&path, document).unwrap();
        fs::write(directory.path().join("other.md"), "no figures\n").unwrap();
        let readme = directory.path().join("README");
        fs::write(&readme, block("standing gnocchi", "old")).unwrap();
        let places = [directory.path().to_owned(), readme.clone()];
        let mut results = results();
        results.measurements.push(measurement("create", Peer::Gnocchi, Unit::Metrics, 200.0, 1.0));
        assert_eq!(update(&places, &results).unwrap(), [path.clone(), readme.clone()]);
        let text = fs::read_to_string(readme).unwrap();
        assert!(text.contains("gnudi is ahead of gnocchi in 1 of 1 rows, by 100 times."), "{text}");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("# Head\n\n<!-- report: rows -->\n\n```text\ncreate metric"), "{text}");
        assert!(
            text.contains("```\n\n<!-- end of report -->\nbetween\n\n<!-- report: experiment growth -->"),
            "{text}"
        );
        assert!(text.contains("| 7 | 9/s |\n\n<!-- end of report -->\nend\n"), "{text}");
        update(&places, &results).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }

    #[test]
    fn a_document_is_refused_whole() {
        for (block, reason) in [
            ("<!-- report: colour -->\n<!-- end of report -->", "line 3: block `colour`: unknown"),
            ("<!-- report: rows -->\n", "line 3: a block without"),
            ("<!-- report: rows", "line 3: `<!-- report: ` without"),
            ("<!-- report: experiment engines -->\n<!-- end of report -->", "not measured"),
            ("<!-- report: experiment x -->\n<!-- end of report -->", "unknown experiment"),
            ("<!-- report: standings -->\n<!-- end of report -->", "not measured"),
            ("<!-- report: standing x -->\n<!-- end of report -->", "unknown server"),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let good = "\n\n<!-- report: rows -->\nold\n<!-- end of report -->\n";
            for (name, text) in [("a.md", good.to_owned()), ("b.md", format!("\n\n{block}"))] {
                fs::write(directory.path().join(name), text).unwrap();
            }
            let places = [directory.path().to_owned()];
            let error = format!("{:#}", update(&places, &results()).unwrap_err());
            assert!(error.contains("b.md") && error.contains(reason), "{error}");
            assert_eq!(fs::read_to_string(directory.path().join("a.md")).unwrap(), good);
        }
        let places = [tempfile::tempdir().unwrap().path().to_owned()];
        assert!(update(&places, &results()).is_err());
        let partial = Results { partial: Some("interrupted".to_owned()), ..results() };
        assert!(update(&places, &partial).unwrap_err().to_string().contains("partial"));
    }
}

//! Valid pipeline files, and the errors of invalid ones.

use std::path::Path;

use super::{PipelineKind, file::PipelineFile};

fn parse(text: &str) -> Result<PipelineFile, String> {
    PipelineFile::parse(Path::new("pipeline.yaml"), text, PipelineKind::Samples)
        .map_err(|error| error.to_string())
}

const SINKS: &str = "sinks:\n  - name: k\n    publishers: [gnocchi://]\n";

#[test]
fn sources_lead_to_sinks() {
    let file = parse(
        "---\nsources:\n  - name: a\n    meters: [cpu, 'disk.*']\n    sinks: [k, l]\n  - name: l\n    meters: '*'\n    \
         sinks: [l]\nsinks:\n  - name: k\n    transformers:\n    publishers: [notifier, 'file:///x?json']\n  - name: l\n    \
         publishers:\n      - gnocchi://\n",
    )
    .unwrap();
    let names: Vec<String> = file.pipelines().map(|(name, ..)| name).collect();
    assert_eq!(names, ["a:k", "a:l", "l"]);
    assert_eq!(file.sinks[0].publishers, ["notifier://", "file:///x?json"]);
    assert!(file.sources[0].selection.matches("disk.read") && !file.sources[0].selection.matches("memory"));
    assert!(file.sources[1].selection.is_everything());

    for kind in [PipelineKind::Samples, PipelineKind::Events] {
        let defaults = PipelineFile::defaults(kind);
        assert_eq!(defaults.pipelines().count(), 1);
        assert_eq!(defaults.sinks[0].publishers, ["gnocchi://"]);
    }
}

#[test]
fn a_sink_needs_one_publisher_that_works() {
    let file = parse(
        "sources:\n  - {name: a, meters: ['*'], sinks: [k, l]}\nsinks:\n  - {name: unused, publishers: [bad]}\n  \
         - {name: k, publishers: [bad, good]}\n  - {name: l, publishers: [bad, worse]}\n",
    )
    .unwrap();
    let fault = |url: &str| url.strip_suffix("://").filter(|kind| *kind != "good").map(str::to_owned);
    assert_eq!(
        file.check_sinks(fault).unwrap_err().to_string(),
        "pipeline.yaml:6: sink l: none of its publishers can be opened, and what it gets would be lost: bad; worse"
    );
    file.check_sinks(|url| fault(url).filter(|kind| kind != "worse")).unwrap();
    let error = PipelineFile::defaults(PipelineKind::Events).check_sinks(fault).unwrap_err().to_string();
    assert!(error.starts_with("without a pipeline file: sink event_sink: "), "{error}");
}

#[test]
fn errors_name_file_line_key_and_what_to_do() {
    let sources = |body: &str| format!("sources:\n  - {body}\n{SINKS}");
    for (text, expected) in [
        ("a: [".to_owned(), vec!["pipeline.yaml", "line 1"]),
        ("- name: x\n  counters: ['*']\n".to_owned(), vec!["pipeline.yaml:1: the file", "2013", "`sources`"]),
        ("sources: []\n".to_owned(), vec!["sinks: missing"]),
        (SINKS.to_owned(), vec!["sources: missing"]),
        (format!("sources: 3\n{SINKS}"), vec![":1: sources: must be a list, not a number"]),
        (sources("x"), vec![":2: sources[0]: must be a map"]),
        (sources("meters: ['*']\n    sinks: [k]"), vec![":2: sources[0].name: missing"]),
        (sources("name: 3\n    meters: ['*']\n    sinks: [k]"), vec![":2: sources[0].name: must be a text"]),
        (sources("name: a\n    sinks: [k]"), vec![":2: sources[0].meters: missing", "[\"*\"]"]),
        (sources("name: a\n    events: ['*']\n    sinks: [k]"), vec!["sources[0].meters", "other of the two"]),
        (sources("name: a\n    meters: []\n    sinks: [k]"), vec![":3: sources[0].meters: names nothing"]),
        (sources("name: a\n    meters:\n    sinks: [k]"), vec!["sources[0].meters: names nothing"]),
        (sources("name: a\n    meters: cpu\n    sinks: [k]"), vec![":3: sources[0].meters", "[\"cpu\"]"]),
        (sources("name: a\n    meters: [1]\n    sinks: [k]"), vec![":3: sources[0].meters: must hold texts"]),
        (sources("name: a\n    meters: [a, '!b']\n    sinks: [k]"), vec![":3: ", "both includes and excludes"]),
        (sources("name: a\n    meters: ['*', b]\n    sinks: [k]"), vec![":3: ", "beside \"*\""]),
        (sources("name: a\n    meters: ['*']"), vec![":2: sources[0].sinks: missing"]),
        (sources("name: a\n    meters: ['*']\n    sinks: []"), vec!["sources[0].sinks: names no sink"]),
        (
            sources("name: a\n    meters: ['*']\n    sinks: [k, z]"),
            vec![":4: sources[0].sinks: no sink is called z", "k"],
        ),
        (
            sources("name: a\n    meters: ['*']\n    sinks: [k, k]"),
            vec!["sources: the pipeline a:k", "twice"],
        ),
        (
            sources(
                "name: a\n    meters: ['*']\n    sinks: [k]\n  - name: a\n    meters: ['*']\n    sinks: [k]",
            ),
            vec![":5: sources[1].name: a is the name of another of the sources"],
        ),
        (
            "sources: []\nsinks:\n  - name: k\n    publishers: []\n".to_owned(),
            vec![":3: sinks[0].publishers: names no publisher"],
        ),
        (
            "sources: []\nsinks:\n  - name: k\n    publishers: gnocchi://\n".to_owned(),
            vec![":4: sinks[0].publishers: must be a list; write [\"gnocchi://\"]"],
        ),
        (
            "sources: []\nsinks:\n  - name: k\n    transformers:\n      - name: rate_of_change\n    publishers: [x]\n"
                .to_owned(),
            vec![":5: sinks[0].transformers", "2018", "rate:mean"],
        ),
    ] {
        let error = parse(&text).unwrap_err();
        for part in expected {
            assert!(error.contains(part), "{error:?} lacks {part:?}, of:\n{text}");
        }
    }
}

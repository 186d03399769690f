//! Runs test files of Prometheus (`promql/promqltest/testdata`) and prints how many cases of each pass:
//! `cargo run -p gnudi-promql --example prometheus_suite -- FOLDER [--all]`. `--all` prints each failure.

#[path = "../tests/support/mod.rs"]
mod support;

use support::{file, run};

fn main() {
    let mut args = std::env::args().skip(1);
    let Some(folder) = args.next() else {
        eprintln!("usage: prometheus_suite FOLDER [--all]");
        std::process::exit(2);
    };
    let all = args.next().as_deref() == Some("--all");
    let mut paths: Vec<_> = std::fs::read_dir(&folder)
        .expect("a folder of test files")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "test"))
        .collect();
    paths.sort();
    println!("{:32} {:>6} {:>6} {:>6}", "file", "passed", "failed", "native");
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).expect("a readable file");
        match file::parse(&text) {
            Ok(commands) => {
                let report = run::run(&commands);
                println!("{name:32} {:6} {:6} {:6}", report.passed, report.failed.len(), report.native);
                for (line, reason) in report.failed.iter().filter(|_| all) {
                    println!("    {line}: {reason}");
                }
            }
            Err(line) => println!("{name:32} line {line} cannot be read"),
        }
    }
}

//! The cases in `cases/`: each function and operator, with results computed by hand.

mod support;

use support::{file, run};

#[test]
fn all_cases_pass() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases");
    let mut passed = 0;
    let mut failures = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the folder of cases") {
        let path = entry.expect("an entry").path();
        let text = std::fs::read_to_string(&path).expect("a readable file");
        let commands =
            file::parse(&text).unwrap_or_else(|line| panic!("{}:{line} cannot be read", path.display()));
        let report = run::run(&commands);
        passed += report.passed;
        failures.extend(
            report.failed.into_iter().map(|(line, reason)| format!("{}:{line}: {reason}", path.display())),
        );
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(passed > 200, "only {passed} cases");
}

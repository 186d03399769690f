//! The CPU time that this process has used, to compare with the number of samples.

use std::{fs, time::Duration};

/// `/proc` counts in hundredths of a second on every Linux (`USER_HZ`).
const TICK: Duration = Duration::from_millis(10);

/// Since the start of the process; `None` if `/proc` cannot be read.
pub fn used() -> Option<Duration> {
    read(&fs::read_to_string("/proc/self/stat").ok()?)
}

/// Parses `/proc/<pid>/stat`.
fn read(text: &str) -> Option<Duration> {
    // The program's name is in parentheses and may contain anything; the third field follows it.
    let (_, fields) = text.rsplit_once(") ")?;
    let mut ticks = fields.split(' ').skip(14 - 3).map(str::parse::<u32>);
    Some(TICK * (ticks.next()?.ok()? + ticks.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_time_and_that_of_the_kernel_are_added() {
        let text = "7 (a) b (c) S 1 7 7 0 -1 4194560 1000 0 5 0 250 51 0 0 20 0 9 0 1 2 3";
        assert_eq!(read(text), Some(Duration::from_millis(3010)));
        assert_eq!(read("7 (a) S 1"), None);
        assert!(used().is_some());
    }
}

//! The runs of a store, and which to merge.
//!
//! A flush or a pass writes runs with heads and blocks. The first merge separates them: heads are rewritten all the
//! time, and their merges copy no blocks. Invariants:
//!
//! 1. A level's runs are in order of age. Everything in [`Level::New`] is newer than the other levels.
//! 2. New runs leave their level from the oldest on, and become the newest of the others.
//! 3. A run with lost entries stays as it is. Runs that are newer than it stay behind it.
//! 4. A deletion voids older heads and blocks, so its mark is in both other levels. A level drops marks and tombstones once
//!    nothing older is in it.

use serde::{Deserialize, Serialize};

use crate::aggregates::key::Key;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Heads and blocks.
    New,
    Heads,
    Blocks,
}

impl Level {
    pub const ALL: [Level; 3] = [Level::New, Level::Heads, Level::Blocks];

    /// Whether a key belongs to this level.
    pub fn takes(self, key: &Key) -> bool {
        match self {
            Level::New => true,
            Level::Heads => key.is_head() || key.is_deletion(),
            Level::Blocks => !key.is_head(),
        }
    }
}

/// Runs, oldest first in each level.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Levels<R> {
    pub new: Vec<R>,
    pub heads: Vec<R>,
    pub blocks: Vec<R>,
}

impl<R> Default for Levels<R> {
    fn default() -> Self {
        Self { new: Vec::new(), heads: Vec::new(), blocks: Vec::new() }
    }
}

/// Runs to merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan<R> {
    /// Runs of each level, oldest first.
    pub runs: Levels<R>,
    pub outputs: Vec<Output>,
}

/// A run that a merge writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Output {
    pub level: Level,
    /// Whether nothing older is in its level: then deletions can be dropped.
    pub is_oldest: bool,
}

/// When to merge.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The minimum number of new runs, or of runs of similar size, in a merge.
    pub merged_min: usize,
    /// From this many runs in a level on, the newest are merged, whatever their sizes.
    pub runs_max: usize,
    /// A run joins a merge if it is at most this many times as large as all newer runs in it together. With a larger ratio
    /// superseded values are dropped sooner, and the others are copied more often.
    pub size_ratio: u64,
}

impl<R> Levels<R> {
    pub fn get(&self, level: Level) -> &Vec<R> {
        match level {
            Level::New => &self.new,
            Level::Heads => &self.heads,
            Level::Blocks => &self.blocks,
        }
    }

    pub fn get_mut(&mut self, level: Level) -> &mut Vec<R> {
        match level {
            Level::New => &mut self.new,
            Level::Heads => &mut self.heads,
            Level::Blocks => &mut self.blocks,
        }
    }

    /// All runs, without order.
    pub fn all(&self) -> impl Iterator<Item = &R> {
        self.heads.iter().chain(&self.blocks).chain(&self.new)
    }

    /// The runs that may have heads, oldest first.
    pub fn with_heads(&self) -> impl DoubleEndedIterator<Item = &R> {
        self.heads.iter().chain(&self.new)
    }

    /// The runs that may have blocks, oldest first.
    pub fn with_blocks(&self) -> impl DoubleEndedIterator<Item = &R> {
        self.blocks.iter().chain(&self.new)
    }
}

impl<R: Clone + PartialEq> Levels<R> {
    /// The next merge of a level. `has_lost`: whether a run has lost entries.
    pub fn to_merge(
        &self,
        level: Level,
        limits: Limits,
        bytes: impl Fn(&R) -> u64,
        has_lost: impl Fn(&R) -> bool,
    ) -> Option<Plan<R>> {
        let all = self.get(level);
        let first = mergeable_from(all, has_lost);
        let sizes: Vec<u64> = all[first..].iter().map(bytes).collect();
        let is_separated = level == Level::New && first == 0;
        let count = match is_separated {
            true if sizes.len() >= limits.merged_min => sizes.len(),
            true => 0,
            false => choose(&sizes, limits).min(sizes.len()),
        };
        (count > 1).then(|| self.plan(level, all.len() - count))
    }

    /// The merge of a level's runs from the index `first` on.
    pub fn plan(&self, level: Level, first: usize) -> Plan<R> {
        let mut plan = Plan { runs: Levels::default(), outputs: Vec::new() };
        *plan.runs.get_mut(level) = self.get(level)[first..].to_vec();
        plan.outputs = match (level, first) {
            (Level::New, 0) => [Level::Blocks, Level::Heads]
                .map(|level| Output { level, is_oldest: self.get(level).is_empty() })
                .to_vec(),
            _ => vec![Output { level, is_oldest: first == 0 && level != Level::New }],
        };
        plan
    }

    /// Replaces the merged runs by those of the outputs, in the order of the plan; false if the merged runs are not there
    /// any more.
    pub fn replace(&mut self, plan: &Plan<R>, outputs: impl Iterator<Item = Option<R>>) -> bool {
        let mut places = Vec::new();
        for level in Level::ALL {
            let old = plan.runs.get(level);
            match self.get(level).windows(old.len().max(1)).position(|runs| runs == old) {
                _ if old.is_empty() => places.push(None),
                Some(at) => places.push(Some(at)),
                None => return false,
            }
        }
        for (level, place) in Level::ALL.into_iter().zip(&places) {
            if let Some(at) = place {
                self.get_mut(level).drain(*at..at + plan.runs.get(level).len());
            }
        }
        for (output, run) in plan.outputs.iter().zip(outputs) {
            let Some(run) = run else { continue };
            let at = places[output.level as usize];
            let runs = self.get_mut(output.level);
            // A run that comes from another level is the newest.
            runs.insert(at.unwrap_or(runs.len()), run);
        }
        true
    }
}

/// The index of the oldest run that may be merged.
pub fn mergeable_from<R>(runs: &[R], has_lost: impl Fn(&R) -> bool) -> usize {
    runs.iter().rposition(has_lost).map_or(0, |at| at + 1)
}

/// How many of the newest runs to merge, given their sizes, oldest first; 0 for none.
fn choose(sizes: &[u64], limits: Limits) -> usize {
    let mut newest_first = sizes.iter().rev();
    let Some(mut sum) = newest_first.next().copied() else { return 0 };
    let mut count = 1;
    for size in newest_first {
        if *size > sum * limits.size_ratio {
            break;
        }
        sum += size;
        count += 1;
    }
    if count >= limits.merged_min {
        return count;
    }
    if sizes.len() >= limits.runs_max { limits.merged_min } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { merged_min: 4, runs_max: 12, size_ratio: 2 };

    #[test]
    fn runs_of_similar_size_are_merged() {
        let choose = |sizes: &[u64]| choose(sizes, LIMITS);
        assert_eq!(choose(&[]), 0);
        assert_eq!(choose(&[5, 5, 5]), 0);
        assert_eq!(choose(&[5, 5, 5, 5]), 4);
        assert_eq!(choose(&[100, 5, 5, 5]), 0, "the large one stays out of it");
        assert_eq!(choose(&[100, 5, 5, 5, 5]), 4);
        assert_eq!(choose(&[20, 20, 20, 5, 5, 5, 5]), 7, "one merge instead of two");
        assert_eq!(choose(&[1 << 40, 1 << 36, 1 << 30, 1 << 20, 1]), 0);
        let falling: Vec<u64> = (0..12).rev().map(|exponent| 4u64.pow(exponent)).collect();
        assert_eq!(choose(&falling), 4, "there are never more than so many");
    }

    fn levels(new: &[u64], heads: &[u64], blocks: &[u64]) -> Levels<u64> {
        Levels { new: new.to_vec(), heads: heads.to_vec(), blocks: blocks.to_vec() }
    }

    /// Odd runs have lost entries.
    fn merged(levels: &Levels<u64>, level: Level) -> Option<Levels<u64>> {
        let plan = levels.to_merge(level, LIMITS, |run| *run, |run| run % 2 == 1)?;
        let mut after = levels.clone();
        assert!(after.replace(&plan, [Some(1000), Some(2000)].into_iter()));
        assert!(!after.replace(&plan, [None, None].into_iter()), "they are gone");
        Some(after)
    }

    #[test]
    fn new_runs_are_separated_from_the_oldest_on() {
        let four = levels(&[2, 900, 2, 2], &[30], &[50, 60]);
        assert_eq!(merged(&four, Level::New), Some(levels(&[], &[30, 2000], &[50, 60, 1000])));
        assert_eq!(merged(&levels(&[2, 2, 2], &[], &[]), Level::New), None);
        // Behind a run with lost entries they stay new.
        let damaged = levels(&[2, 3, 4, 4, 4, 4], &[], &[]);
        assert_eq!(merged(&damaged, Level::New), Some(levels(&[2, 3, 1000], &[], &[])));
    }

    #[test]
    fn deletions_are_dropped_where_nothing_is_older() {
        let oldest = |levels: &Levels<u64>, level| -> Vec<(Level, bool)> {
            let plan = levels.to_merge(level, LIMITS, |run| *run, |_| false).unwrap();
            plan.outputs.iter().map(|output| (output.level, output.is_oldest)).collect()
        };
        let levels = levels(&[2, 2, 2, 2], &[4, 4, 4, 4], &[]);
        assert_eq!(oldest(&levels, Level::New), [(Level::Blocks, true), (Level::Heads, false)]);
        assert_eq!(oldest(&levels, Level::Heads), [(Level::Heads, true)]);
    }
}

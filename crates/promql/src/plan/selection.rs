//! The samples that a plan needs: for each selector its matchers and time range.

use super::{Extension, Matcher, Plan, Selector, Window};
use crate::error::{Error, Result};

/// Times beyond it are rejected, so that sums of a few of them do not overflow.
const TIME_MAX_MS: i64 = i64::MAX / 16;

/// The evaluation times of a query in milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct QueryTimes {
    pub start_ms: i64,
    pub end_ms: i64,
    /// 0 makes it an instant query: `start_ms` is `end_ms` then.
    pub step_ms: i64,
}

impl QueryTimes {
    pub fn instant(time_ms: i64) -> QueryTimes {
        QueryTimes { start_ms: time_ms, end_ms: time_ms, step_ms: 0 }
    }

    pub fn is_instant(&self) -> bool {
        self.step_ms == 0
    }

    pub(crate) fn check(&self) -> Result<()> {
        let bounds = -TIME_MAX_MS..=TIME_MAX_MS;
        if !bounds.contains(&self.start_ms) || !bounds.contains(&self.end_ms) {
            return Err(Error::bad_data("time out of range"));
        }
        if self.end_ms < self.start_ms {
            return Err(Error::bad_data("end timestamp must not be before start time"));
        }
        if self.step_ms < 0 || self.step_ms > TIME_MAX_MS || self.is_instant() && self.start_ms != self.end_ms
        {
            return Err(Error::bad_data(
                "zero or negative query resolution step widths are not accepted. Try a positive integer",
            ));
        }
        Ok(())
    }
}

/// What the caller must fetch for a selector: all series that match, with their samples in the time range.
#[derive(Debug, Clone, Default)]
pub struct Selection<'a> {
    pub matchers: &'a [Matcher],
    /// The first and the last millisecond that may be read.
    pub start_ms: i64,
    pub end_ms: i64,
    /// How far each evaluation looks back: the range of a range vector, 0 for an instant vector.
    pub range_ms: i64,
    /// Whether it is a range vector.
    pub is_range: bool,
    /// Whether samples before a window are needed, too, up to the lookback: for instant vectors, and with `anchored` or `smoothed`.
    /// `start_ms` and `end_ms` include the default lookback.
    pub looks_back: bool,
    /// Whether samples after a window are needed, too, up to the lookback: with `smoothed`.
    pub looks_ahead: bool,
    /// When it is evaluated; `None` within subqueries.
    pub windows: Option<Windows>,
    /// The function or aggregation directly around it.
    pub function: Option<&'static str>,
}

/// The ends of the windows of a selector, one per evaluation time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    pub first_end_ms: i64,
    /// Distance of the ends; 0 if there is only one.
    pub step_ms: i64,
}

fn before((start, end): (i64, i64), window: &Window) -> (i64, i64) {
    let (start, end) = window.at.map_or((start, end), |at| (at, at));
    let back = window.range.saturating_add(window.offset);
    (start.saturating_sub(back), end.saturating_sub(window.offset))
}

impl Plan {
    /// One selection per selector, in the order in which `Evaluation` expects their series.
    pub fn selections(&self, lookback_ms: i64) -> Vec<Selection<'_>> {
        self.selectors.iter().map(|selector| self.selection(selector, lookback_ms)).collect()
    }

    fn selection<'p>(&self, selector: &'p Selector, lookback_ms: i64) -> Selection<'p> {
        let mut span = (self.times.start_ms, self.times.end_ms);
        for subquery in &selector.subqueries {
            span = before(span, subquery);
        }
        let (start, end) = before(span, &selector.window);
        // Windows are left-open.
        let looks_back = !selector.is_range || selector.extension.is_some();
        let looks_ahead = selector.extension == Some(Extension::Smoothed);
        let windows = Windows {
            first_end_ms: start.saturating_add(selector.window.range),
            step_ms: if selector.window.at.is_some() { 0 } else { self.times.step_ms },
        };
        Selection {
            matchers: &selector.matchers,
            start_ms: start.saturating_sub(if looks_back { lookback_ms } else { 0 }).saturating_add(1),
            end_ms: end.saturating_add(if looks_ahead { lookback_ms } else { 0 }),
            range_ms: selector.window.range,
            is_range: selector.is_range,
            looks_back,
            looks_ahead,
            windows: selector.subqueries.is_empty().then_some(windows),
            function: selector.function,
        }
    }
}

//! Subqueries: an instant vector, evaluated on its own grid, becomes a range vector.

use super::Context;
use crate::error::Result;
use crate::plan::{Node, Window};
use crate::series::{Grid, RangeSeries};

impl<'a> Context<'a> {
    pub(super) fn subquery(
        &self,
        expr: &Node,
        window: &Window,
        step: Option<i64>,
        grid: &Grid,
    ) -> Result<Vec<RangeSeries<'a>>> {
        let interval = step.unwrap_or(self.options.subquery_step_ms);
        let first = window.reference(grid.start);
        let last = window.reference(grid.last());
        // Steps are multiples of the interval, whatever the query's times. The window is left-open.
        let after = first - window.range;
        let mut start = interval * (after / interval);
        if start <= after {
            start += interval;
        }
        if start > last {
            return Ok(Vec::new());
        }
        let steps = ((last - start) / interval + 1) as usize;
        let inner = Grid { start, end: last, interval, steps };
        // Sets of steps take memory even where no series has a column.
        self.budget.columns(1, inner.steps)?;
        let vector = self.eval_vector(expr, &inner)?;
        let mut ranges = Vec::with_capacity(vector.len());
        for series in vector {
            self.budget.bytes(series.column.present.count() * 16)?;
            let (times, values): (Vec<i64>, Vec<f64>) =
                series.column.iter().map(|(step, value)| (inner.time(step), value)).unzip();
            ranges.push(RangeSeries {
                labels: series.labels,
                drop_name: series.drop_name,
                times: times.into(),
                values: values.into(),
                lookback_ms: None,
                counts: None,
            });
        }
        Ok(ranges)
    }
}

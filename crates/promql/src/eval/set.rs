//! `and`, `or` and `unless`: series of both sides match by labels, separately at each step.

use std::collections::HashMap;

use super::Context;
use super::binary::signature;
use crate::error::Result;
use crate::labels::Labels;
use crate::plan::{Binary, BinaryOp};
use crate::series::{Bits, Grid, VectorSeries};

impl Context<'_> {
    pub(super) fn set_operation(
        &self,
        binary: &Binary,
        mut left: Vec<VectorSeries>,
        mut right: Vec<VectorSeries>,
        grid: &Grid,
    ) -> Result<Vec<VectorSeries>> {
        let signature = |series: &VectorSeries| signature(&series.labels, &binary.matching);
        // `or` adds series of the right side that the left lacks; the others filter the left side by the right.
        let other_side = if binary.op == BinaryOp::Or { &left } else { &right };
        let mut present: HashMap<Labels, Bits> = HashMap::new();
        for series in other_side {
            let steps = present.entry(signature(series)).or_insert_with(|| Bits::new(grid.steps));
            steps.unite(&series.column.present);
        }
        let none = Bits::new(grid.steps);
        let filtered = if binary.op == BinaryOp::Or { &mut right } else { &mut left };
        for series in filtered.iter_mut() {
            let steps = present.get(&signature(series)).unwrap_or(&none);
            if binary.op == BinaryOp::And {
                series.column.present.intersect(steps);
            } else {
                series.column.present.subtract(steps);
            }
        }
        filtered.retain(|series| series.column.present.any());
        if binary.op == BinaryOp::Or {
            left.append(&mut right);
            return self.merge_result(left, grid);
        }
        Ok(left)
    }
}

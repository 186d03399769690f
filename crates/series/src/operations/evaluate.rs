//! Evaluates an operation tree.

use std::{borrow::Cow, collections::HashMap};

use gnudi_model::{AggregationMethod, Timestamp};

use super::{
    BinaryFunction, MetricName, Metrics, Operation, Reaggregation, Result, UnaryFunction, elementwise,
    reduce, rolling,
    value::{Columns, Value},
};
use crate::{
    counter,
    read::ReadError,
    resample::{Grouping, Resample},
};

/// The most numbers that an evaluation may hold at once, besides the query's series: half a gibibyte.
pub const CELLS_HELD_MAX: usize = 1 << 26;

/// The most values that an evaluation may process: some seconds of one processor.
pub const VALUES_TOUCHED_MAX: u64 = 1 << 31;

/// Errors of evaluating a tree. The text is Gnocchi's if it has one; where Gnocchi answers 500 it has none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OperationError {
    /// Gnocchi's `UnAggregableTimeseries`.
    #[error("Can't compute timeseries with different granularity {0} <> {1}")]
    GranularityMismatch(String, String),
    /// Gnocchi's `UnAggregableTimeseries`.
    #[error("Rolling window '{window}' is greater than serie length '{rows}'")]
    Window { window: u64, rows: usize },
    /// Gnocchi answers 500.
    #[error("Can't compute timeseries with different granularity {0} <> {1} <> {2}")]
    OperandsMismatch(String, String, String),
    /// Gnocchi answers 500.
    #[error("{0} needs timeseries, not a number")]
    Scalar(&'static str),
    /// Gnocchi answers 500.
    #[error("operands have different numbers of timeseries or of points")]
    Shapes,
    /// Gnocchi answers 500.
    #[error("no timeseries match")]
    NoSeries,
    /// Gnocchi answers 500.
    #[error("results of comparisons cannot be subtracted or negated")]
    TruthArithmetic,
    /// Gnocchi answers 500.
    #[error("whole numbers cannot be raised to negative powers")]
    NegativePower,
    /// Gnocchi answers 500.
    #[error("points do not lie on the granularity")]
    OffGranularity,
    /// Gnocchi answers 500.
    #[error(transparent)]
    Resample(#[from] ReadError),
    /// More than [`CELLS_HELD_MAX`] or [`VALUES_TOUCHED_MAX`].
    #[error("the operations exceed the limit of memory or time: query fewer points")]
    TooExpensive,
}

/// Series on a common grid of times: the input of operations.
#[derive(Debug)]
pub struct Grid<'g> {
    pub granularity: Resample,
    /// Oldest first, distinct.
    pub times: &'g [Timestamp],
    /// The series of each name, one value per time.
    pub columns: &'g [&'g [f64]],
    /// The name of each series; names may repeat.
    pub names: &'g Names,
}

/// The indexes of the series of each name.
#[derive(Clone, Debug, Default)]
pub struct Names(HashMap<MetricName, Vec<usize>>);

impl<'a> FromIterator<&'a MetricName> for Names {
    fn from_iter<I: IntoIterator<Item = &'a MetricName>>(names: I) -> Self {
        let mut by_name: HashMap<MetricName, Vec<usize>> = HashMap::new();
        for (index, name) in names.into_iter().enumerate() {
            match by_name.get_mut(name) {
                Some(indexes) => indexes.push(index),
                None => drop(by_name.insert(name.clone(), vec![index])),
            }
        }
        Names(by_name)
    }
}

impl Names {
    /// Whether each metric node of a tree names at least one series.
    pub fn have_all(&self, operation: &Operation) -> bool {
        match operation {
            Operation::Metric(metrics) => metrics.names().iter().any(|name| self.0.contains_key(name)),
            other => other.operands().all(|operand| self.have_all(operand)),
        }
    }

    /// The indexes of the series that a metric node names, ascending.
    fn columns(&self, metrics: &Metrics) -> Vec<usize> {
        let found = metrics.names().iter().filter_map(|name| self.0.get(name));
        let mut indexes: Vec<usize> = found.flatten().copied().collect();
        indexes.sort_unstable();
        indexes.dedup();
        indexes
    }
}

/// The result of a tree.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluated<'g> {
    /// The grid's, or the one that the points were resampled to.
    pub granularity: Resample,
    pub times: Cow<'g, [Timestamp]>,
    /// Each as long as `times`.
    pub columns: Vec<Cow<'g, [f64]>>,
    /// Whether series were aggregated, so that the columns are no longer the grid's.
    pub aggregated: bool,
}

/// Evaluates `operation`, whose size is validated. Booleans and integers are converted to floats at the end.
pub fn evaluate<'g>(operation: &Operation, grid: &Grid<'g>) -> Result<Evaluated<'g>> {
    let mut evaluator = Evaluator { grid, touched: 0 };
    let State { granularity, times, value, aggregated } = evaluator.node(operation, 0)?;
    let columns = value.into_array("the result")?.into_floats();
    Ok(Evaluated { granularity, times, columns, aggregated })
}

struct State<'g> {
    granularity: Resample,
    times: Cow<'g, [Timestamp]>,
    value: Value<'g>,
    aggregated: bool,
}

impl State<'_> {
    /// Drops the first times, as many as there are.
    fn drop_times(&mut self, count: usize) {
        match &mut self.times {
            Cow::Borrowed(times) => *times = times.get(count..).unwrap_or_default(),
            Cow::Owned(times) => drop(times.drain(..times.len().min(count))),
        }
    }

    fn is_array(&self) -> bool {
        !self.value.is_scalar
    }

    fn same_grid(&self, other: &State<'_>) -> bool {
        self.granularity == other.granularity && self.times == other.times
    }
}

struct Evaluator<'a, 'g> {
    grid: &'a Grid<'g>,
    touched: u64,
}

impl<'g> Evaluator<'_, 'g> {
    /// `held` is the count of numbers that other operands hold meanwhile.
    fn node(&mut self, operation: &Operation, held: usize) -> Result<State<'g>> {
        let state = match operation {
            Operation::Constant(number) => self.state(Value::scalar(*number)),
            Operation::Metric(metrics) => {
                let indexes = self.grid.names.columns(metrics);
                let columns =
                    indexes.into_iter().map(|index| Cow::Borrowed(self.grid.columns[index])).collect();
                self.state(Value::array(self.grid.times.len(), Columns::Float(columns)))
            }
            Operation::Unary { operator, operand } => {
                let operand = self.operand(operand, held, 1)?;
                unary(operator.function(), operand)?
            }
            Operation::Binary { operator, left, right } => {
                self.binary(operator.function(), left, right, held)?
            }
            Operation::Clip { value, min, max } => self.clip(value, min, max.as_deref(), held)?,
            Operation::Aggregate { method, operand } => {
                let State { granularity, times, value, .. } = self.operand(operand, held, 1)?;
                let value = reduce::across(*method, value.into_array("aggregate")?)?;
                rated(*method, State { granularity, times, value, aggregated: true })
            }
            Operation::Rolling { method, window, operand } => {
                let operand = self.operand(operand, held, 1)?;
                self.rolling(*method, *window, operand)?
            }
            Operation::Resample { method, to, operand } => {
                let operand = self.operand(operand, held, 2)?;
                resampled(*method, *to, operand)?
            }
        };
        check(&state)?;
        Ok(state)
    }

    fn state(&self, value: Value<'g>) -> State<'g> {
        let Grid { granularity, times, .. } = *self.grid;
        State { granularity, times: Cow::Borrowed(times), value, aggregated: false }
    }

    /// Evaluates the only operand of a node; `cost` is the number of values processed for each value of the
    /// result.
    fn operand(&mut self, operand: &Operation, held: usize, cost: u64) -> Result<State<'g>> {
        let state = self.node(operand, held)?;
        let cells = state.value.rows * state.value.width();
        self.spend(cells as u64 * cost)?;
        reserve(held + state.value.cells_owned() + cells)?;
        Ok(state)
    }

    fn spend(&mut self, touched: u64) -> Result<()> {
        self.touched = self.touched.saturating_add(touched);
        if self.touched > VALUES_TOUCHED_MAX { Err(OperationError::TooExpensive) } else { Ok(()) }
    }

    fn binary(
        &mut self,
        function: BinaryFunction,
        left: &Operation,
        right: &Operation,
        held: usize,
    ) -> Result<State<'g>> {
        let first = self.node(left, held)?;
        let second = self.node(right, held + first.value.cells_owned())?;
        let mut aggregated = first.aggregated || second.aggregated;
        if first.is_array() && second.is_array() {
            if !first.same_grid(&second) {
                return Err(OperationError::GranularityMismatch(left.to_string(), right.to_string()));
            }
            aggregated = true;
        }
        self.admit(&[&first, &second], held)?;
        let from_second = !first.is_array() && second.is_array();
        let value = elementwise::binary(function, first.value, second.value)?;
        let (granularity, times) =
            if from_second { (second.granularity, second.times) } else { (first.granularity, first.times) };
        Ok(State { granularity, times, value, aggregated })
    }

    fn clip(
        &mut self,
        value: &Operation,
        min: &Operation,
        max: Option<&Operation>,
        held: usize,
    ) -> Result<State<'g>> {
        let first = self.node(value, held)?;
        let held_first = held + first.value.cells_owned();
        let second = self.node(min, held_first)?;
        let third = max.map(|max| self.node(max, held_first + second.value.cells_owned())).transpose()?;
        let mut aggregated = first.aggregated || second.aggregated;
        aggregated |= third.as_ref().is_some_and(|third| third.aggregated);
        let has_third = third.as_ref().is_some_and(State::is_array);
        let all_arrays = first.is_array() && second.is_array() && has_third;
        if let (true, Some(third), Some(max)) = (all_arrays, &third, max) {
            if !first.same_grid(&second) && !second.same_grid(third) {
                let texts = [value, min, max].map(ToString::to_string);
                let [value, min, max] = texts;
                return Err(OperationError::OperandsMismatch(value, min, max));
            }
            aggregated = true;
        }
        let mut operands = vec![&first, &second];
        operands.extend(&third);
        self.admit(&operands, held)?;
        let (granularity, times) = match &third {
            _ if all_arrays => (first.granularity, first.times),
            _ if second.is_array() => (second.granularity, second.times),
            Some(third) if has_third => (third.granularity, third.times.clone()),
            _ => (first.granularity, first.times),
        };
        let value = match third {
            Some(third) => elementwise::clip(first.value, second.value, third.value)?,
            None => elementwise::binary(BinaryFunction::ClipMin, first.value, second.value)?,
        };
        Ok(State { granularity, times, value, aggregated })
    }

    /// Checks the limits before operands are combined.
    fn admit(&mut self, operands: &[&State<'g>], held: usize) -> Result<()> {
        let rows = operands.iter().map(|operand| operand.value.rows).max().unwrap_or(0);
        let width = operands.iter().map(|operand| operand.value.width()).max().unwrap_or(0);
        let cells = rows.saturating_mul(width);
        self.spend((cells as u64).saturating_mul(operands.len() as u64))?;
        let owned: usize = operands.iter().map(|operand| operand.value.cells_owned()).sum();
        reserve(held.saturating_add(owned).saturating_add(cells))
    }

    fn rolling(&mut self, method: Reaggregation, window: u64, mut operand: State<'g>) -> Result<State<'g>> {
        let value = operand.value.into_array("rolling")?;
        let rows = value.rows;
        let fits = usize::try_from(window).ok().filter(|window| (1..=rows).contains(window));
        let Some(window) = fits else { return Err(OperationError::Window { window, rows }) };
        self.spend(rolling::cost(method.statistic, window, &value))?;
        operand.value = rolling::rolling(method.statistic, window, value);
        operand.drop_times(window - 1);
        Ok(rated(method, operand))
    }
}

fn reserve(cells: usize) -> Result<()> {
    if cells > CELLS_HELD_MAX { Err(OperationError::TooExpensive) } else { Ok(()) }
}

/// Gnocchi's check after each step. On a calendar Gnocchi fails with more than two points; this does not.
fn check(state: &State<'_>) -> Result<()> {
    if let (Resample::Span(span), [first, second, _, ..]) = (state.granularity, &state.times[..]) {
        let steps = (second.0 - first.0) as f64 / span.0 as f64;
        if steps.fract() != 0.0 {
            return Err(OperationError::OffGranularity);
        }
    }
    if state.is_array() && state.times.len() != state.value.rows {
        return Err(OperationError::Shapes);
    }
    Ok(())
}

fn unary(function: UnaryFunction, mut operand: State<'_>) -> Result<State<'_>> {
    match function {
        UnaryFunction::RateOfChange => {
            operand.value = differences(&operand.value.into_array("rateofchange")?);
            operand.drop_times(1);
        }
        UnaryFunction::RateOfChangePerSecond => {
            let columns = operand.value.into_array("rateofchangesec")?.into_floats();
            let times = &operand.times;
            let rates = columns.iter().map(|column| per_second(times, column)).collect();
            operand.value = Value::array(times.len(), Columns::floats(rates));
        }
        UnaryFunction::Increase | UnaryFunction::IncreasePerSecond => {
            let per_second = function == UnaryFunction::IncreasePerSecond;
            let name = if per_second { "rate_reset" } else { "increase" };
            let columns = operand.value.into_array(name)?.into_floats();
            let times = &operand.times;
            let grown = columns.iter().map(|column| counter::increases(times, column, per_second)).collect();
            operand.value = Value::array(times.len().saturating_sub(1), Columns::floats(grown));
            operand.drop_times(1);
        }
        function => operand.value = elementwise::unary(function, operand.value)?,
    }
    Ok(operand)
}

fn per_second(times: &[Timestamp], values: &[f64]) -> Vec<f64> {
    let seconds = times.windows(2).map(|pair| (pair[1].0 - pair[0].0) as f64 / 1e9);
    let rates = values.windows(2).zip(seconds).map(|(pair, seconds)| (pair[1] - pair[0]) / seconds);
    values.first().map(|_| f64::NAN).into_iter().chain(rates).collect()
}

/// The difference of each row from the one before; for booleans, whether they differ.
fn differences<'g>(value: &Value<'_>) -> Value<'g> {
    fn of<T: Copy, R, C: AsRef<[T]>>(columns: &[C], difference: impl Fn(T, T) -> R) -> Vec<Vec<R>> {
        let column =
            |column: &C| column.as_ref().windows(2).map(|pair| difference(pair[1], pair[0])).collect();
        columns.iter().map(column).collect()
    }
    let columns = match &value.columns {
        Columns::Float(columns) => Columns::floats(of(columns, |a: f64, b| a - b)),
        Columns::Int(columns) => Columns::Int(of(columns, i64::wrapping_sub)),
        Columns::Bool(columns) => Columns::Bool(of(columns, |a: bool, b| a != b)),
    };
    Value::array(value.rows.saturating_sub(1), columns)
}

fn rated(method: Reaggregation, mut state: State<'_>) -> State<'_> {
    if method.rate {
        state.value = differences(&state.value);
        state.drop_times(1);
    }
    state
}

fn resampled(method: AggregationMethod, to: Resample, operand: State<'_>) -> Result<State<'_>> {
    let value = operand.value.into_array("resample")?;
    if value.width() == 0 {
        return Err(OperationError::NoSeries);
    }
    let grouping = Grouping::new(&operand.times, to, method)?;
    let columns = value.into_floats();
    let (times, columns) = grouping.apply(&columns);
    let value = Value::array(times.len(), Columns::floats(columns));
    Ok(State { granularity: to, times: Cow::Owned(times), value, aggregated: operand.aggregated })
}

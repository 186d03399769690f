//! Responses with series of points, as a long or wide table.

use std::sync::Arc;

use bytes::Bytes;
use gnudi_app::{AnswerBudget, ApiError, Result, Share, query::Query};
use gnudi_arrow::{
    Compression,
    write::{Long, SeriesSet, Wide},
};
use gnudi_engine::{CrossMeasuresError, cross::POINTS_MAX};
use gnudi_model::Timestamp;
use gnudi_series::resample::Resample;
use gnudi_server::{ReplyBody, Response};

use super::{compression, ok};
use crate::measures::POINT_BYTES;

/// Up to this many points a response is one piece, with Content-Length.
const WHOLE_POINTS_MAX: usize = 4_000;

/// The shape of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Long,
    Wide,
}

impl Form {
    /// The argument `form`.
    ///
    /// # Errors
    /// 400 for an unknown form.
    pub fn of(query: &Query) -> Result<Self> {
        let refuse = || ApiError::argument("form", "Must be 'long' or 'wide'");
        match query.single("form", refuse)? {
            None | Some("long") => Ok(Form::Long),
            Some("wide") => Ok(Form::Wide),
            Some(_) => Err(refuse()),
        }
    }
}

/// The seconds of a granularity; `None` for calendar units, whose length varies.
pub fn seconds(granularity: Resample) -> Option<f64> {
    match granularity {
        Resample::Span(span) => Some(span.as_secs_f64()),
        Resample::Calendar(_) => None,
    }
}

/// The series of a response, and their reservation in the budget of responses.
pub struct SeriesAnswer {
    set: SeriesSet,
    share: Share,
}

impl SeriesAnswer {
    /// Without series yet; `keys` are the columns that identify a series.
    pub fn new(budget: &AnswerBudget, keys: impl IntoIterator<Item = String>) -> Self {
        SeriesAnswer { set: SeriesSet::new(keys), share: Share::new(budget) }
    }

    /// For a single granularity, which the client knows: a long table omits its column.
    pub fn of_one_granularity(budget: &AnswerBudget) -> Self {
        let mut answer = SeriesAnswer::new(budget, []);
        answer.set.omit_granularity();
        answer
    }

    /// Appends a series.
    ///
    /// # Errors
    /// 413 beyond [`POINTS_MAX`] points, 503 if the budget of all responses is exhausted.
    pub fn push(
        &mut self,
        keys: &[Option<&str>],
        granularity: Option<f64>,
        timestamps: Arc<Vec<Timestamp>>,
        values: Vec<f64>,
    ) -> Result<()> {
        if self.set.points() + values.len() > POINTS_MAX {
            return Err(CrossMeasuresError::TooManyPoints.into());
        }
        self.share.grow(values.len() * POINT_BYTES)?;
        self.set.push(keys, granularity, timestamps, values);
        Ok(())
    }

    /// Encodes the response, with the compression in the query.
    ///
    /// # Errors
    /// 400 for an unknown compression, 413 if a wide table would be too large.
    pub fn into_response(self, query: &Query, form: Form) -> Result<Response> {
        let SeriesAnswer { set, share } = self;
        let compression: Compression = compression(query)?;
        let points = set.points();
        match form {
            Form::Long => Ok(body(points, Long::new(set, compression), share)),
            Form::Wide => {
                let wide = Wide::new(set, compression);
                let wide = wide.map_err(|error| ApiError::too_large(error.to_string()))?;
                Ok(body(points, wide, share))
            }
        }
    }
}

/// The reservation is held until the client has read the last piece.
fn body(
    points: usize,
    pieces: impl Iterator<Item = Bytes> + Send + Sync + 'static,
    share: Share,
) -> Response {
    if points <= WHOLE_POINTS_MAX {
        return ok(pieces.fold(Vec::new(), |mut whole, piece| {
            whole.extend_from_slice(&piece);
            whole
        }));
    }
    ok(ReplyBody::Pieces(Box::new(pieces.scan(share, |_, piece| Some(piece)))))
}

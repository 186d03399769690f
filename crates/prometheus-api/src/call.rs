//! A request to Prometheus' API, as its handlers get it.

use std::ops::Deref;

use crate::api::PrometheusApi;

/// The request, and the API's state.
pub struct Call<'a> {
    pub call: &'a gnudi_app::Call<'a>,
    pub api: &'a PrometheusApi,
}

impl<'a> Deref for Call<'a> {
    type Target = gnudi_app::Call<'a>;

    fn deref(&self) -> &Self::Target {
        self.call
    }
}

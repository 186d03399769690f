//! Reads the heads of many metrics at once: a pass reads those of its sack, which are neighbours.

use gnudi_model::MetricId;

use super::{Found, PAGE_BYTES, Place, Run};
use crate::aggregates::{StoreError, key::Key};

/// How many unwanted pages are read to save a system call, and how much is read at once.
const GAP_PAGES_MAX: usize = 4;
const SPAN_BYTES_MAX: u64 = 256 << 10;

/// A page that may contain a head, and the metric's index in the request.
type Wanted = (usize, usize);

/// A walk through a page for one metric after another.
#[derive(Default)]
struct Walk {
    from: usize,
    last: Option<Place>,
}

/// Pages that were read together.
struct Span {
    first: usize,
    last: usize,
    start: u64,
    bytes: Vec<u8>,
}

impl Run {
    /// Each metric's head as [`Run::find_head`] would find it, in any order; faster for neighbours.
    pub fn find_heads(&self, metrics: &[MetricId]) -> Vec<Result<Option<Found>, StoreError>> {
        let mut found: Vec<_> = metrics.iter().map(|_| Ok(None)).collect();
        let page = |(index, metric): (usize, &MetricId)| Some((self.page_of(&Key::head(*metric))?, index));
        let mut wanted: Vec<Wanted> = metrics.iter().enumerate().filter_map(page).collect();
        wanted.sort_unstable();
        let mut rest = &wanted[..];
        while let Some((first, _)) = rest.first() {
            let last = self.span_end(rest);
            let (here, behind) = rest.split_at(rest.partition_point(|(page, _)| *page <= last));
            match self.read_pages(*first, last) {
                Ok((start, bytes)) => {
                    let span = Span { first: *first, last, start, bytes };
                    for of_page in here.chunk_by(|(one, _), (next, _)| one == next) {
                        let mut walk = Walk::default();
                        for (page, index) in of_page {
                            found[*index] = Ok(self.find_in(&span, *page, metrics[*index], &mut walk));
                        }
                    }
                }
                // A failed joint read may succeed for one head alone.
                Err(_) => here.iter().for_each(|(_, index)| found[*index] = self.find_head(metrics[*index])),
            }
            rest = behind;
        }
        if self.marks > 0 {
            for (metric, found) in metrics.iter().zip(&mut found) {
                if matches!(found, Ok(None)) {
                    *found = self.find_deletion(*metric);
                }
            }
        }
        found
    }

    /// The last page to read together with the first wanted one.
    fn span_end(&self, wanted: &[Wanted]) -> usize {
        let first = wanted[0].0;
        let limit = self.index[first].1 + SPAN_BYTES_MAX;
        let mut last = first;
        for (page, _) in wanted {
            // Pages between heads are full of blocks: a few large ones cost more than a system call.
            let skipped = self.index[*page].1 - self.page_end(last).min(self.index[*page].1);
            let is_near = *page <= last + 1 + GAP_PAGES_MAX && skipped <= PAGE_BYTES as u64;
            if !is_near || (*page > first && self.page_end(*page) > limit) {
                break;
            }
            last = *page;
        }
        last
    }

    fn find_in(&self, span: &Span, page: usize, metric: MetricId, walk: &mut Walk) -> Option<Found> {
        debug_assert!((span.first..=span.last).contains(&page));
        let start = self.index[page].1;
        let within = (start - span.start) as usize..(self.page_end(page) - span.start) as usize;
        let key = Key::head(metric);
        let place = self.order.place(&key);
        if walk.last.replace(place).is_some_and(|last| last > place) {
            walk.from = 0;
        }
        self.find_in_page(start, &span.bytes[within], &key, &mut walk.from)
    }
}

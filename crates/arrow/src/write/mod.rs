//! Writes tables as Arrow IPC streams: series of points in long or wide form, piece by piece while the client
//! reads; and lists, as a whole.

mod frame;
mod long;
mod series;
mod table;
mod wide;

pub use long::Long;
pub use series::{Series, SeriesSet};
pub use table::{Cells, Table};
pub use wide::{TooWide, Wide};

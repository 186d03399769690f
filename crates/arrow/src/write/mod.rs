//! Tables as Arrow IPC streams: the points of series, in long or wide form, piece by piece as a client reads them; and
//! lists, which are short.

mod frame;
mod long;
mod series;
mod table;
mod wide;

pub use long::Long;
pub use series::{Series, SeriesSet};
pub use table::{Cells, Table};
pub use wide::{TooWide, Wide};

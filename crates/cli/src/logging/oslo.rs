//! Formats lines like oslo.log's `logging_default_format_string`: `2026-11-26 14:00:00.123 4711 INFO
//! gnudi.commands.metricd [-] message`, in local time.

use std::fmt;

use anyhow::Result;
use jiff::{Zoned, fmt::strtime};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::{
    fmt::{FmtContext, FormatEvent, FormatFields, format::Writer},
    registry::LookupSpan,
};

/// What Python's logging takes for an empty format.
const DATE_FORMAT: &str = "%Y-%m-%d %H:%M:%S";

pub struct OsloFormat {
    date_format: String,
}

impl OsloFormat {
    /// # Errors
    /// If the format has a directive that strftime does not know.
    pub fn new(date_format: &str) -> Result<Self> {
        let date_format = if date_format.is_empty() { DATE_FORMAT } else { date_format };
        strtime::format(date_format, &Zoned::now())?;
        Ok(OsloFormat { date_format: date_format.to_owned() })
    }

    fn write_head(&self, writer: &mut Writer<'_>, now: &Zoned, level: Level, target: &str) -> fmt::Result {
        let date = strtime::format(&self.date_format, now).map_err(|_| fmt::Error)?;
        let (process, name) = (std::process::id(), target.replace("::", "."));
        write!(writer, "{date}.{:03} {process} {} {name} [-] ", now.millisecond(), python_name(level))
    }
}

/// Python's name of a level.
fn python_name(level: Level) -> &'static str {
    match level {
        Level::ERROR => "ERROR",
        Level::WARN => "WARNING",
        Level::INFO => "INFO",
        Level::DEBUG | Level::TRACE => "DEBUG",
    }
}

impl<S, N> FormatEvent<S, N> for OsloFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let metadata = event.metadata();
        self.write_head(&mut writer, &Zoned::now(), *metadata.level(), metadata.target())?;
        context.field_format().format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_a_line_is_oslos() {
        let now: Zoned = "2026-11-26T14:00:00.1234[UTC]".parse().unwrap();
        let head = |format: &str, level| {
            let mut text = String::new();
            let format = OsloFormat::new(format).unwrap();
            format.write_head(&mut Writer::new(&mut text), &now, level, "gnudi::commands").unwrap();
            text
        };
        let process = std::process::id();
        for format in ["%Y-%m-%d %H:%M:%S", ""] {
            let expected = format!("2026-11-26 14:00:00.123 {process} WARNING gnudi.commands [-] ");
            assert_eq!(head(format, Level::WARN), expected, "{format}");
        }
        assert_eq!(head("%H", Level::TRACE), format!("14.123 {process} DEBUG gnudi.commands [-] "));
        assert!(OsloFormat::new("%!").is_err());
    }
}

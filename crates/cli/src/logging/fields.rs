//! Formats the fields of a line, with control characters escaped: names and errors are texts of others, which must not begin
//! a line of their own or control a terminal. The library does this for the message only.

use std::fmt;

use tracing_subscriber::{
    field::RecordFields,
    fmt::{
        FormatFields,
        format::{DefaultFields, Writer},
    },
};

/// The library's format, without its colours.
#[derive(Debug, Default)]
pub struct EscapedFields(DefaultFields);

impl<'writer> FormatFields<'writer> for EscapedFields {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut text = String::new();
        self.0.format_fields(Writer::new(&mut text), fields)?;
        for character in text.chars() {
            if character.is_control() {
                write!(writer, "{}", character.escape_default())?;
            } else {
                writer.write_char(character)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{self, Write},
        sync::{Arc, Mutex},
    };

    use super::*;

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_text_of_others_stays_within_its_line() {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .fmt_fields(EscapedFields::default())
            .without_time()
            .with_ansi(false)
            .with_target(false)
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            let error = "cpu\u{1b}[2J\nERROR forged";
            tracing::error!(%error, name = error, "é: {error}");
        });
        let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.matches(char::is_control).collect::<String>(), "\n", "{text:?}");
        assert!(text.ends_with('\n') && text.contains("é: cpu"), "{text}");
        assert!(text.contains(r"error=cpu\u{1b}[2J\nERROR forged"), "{text}");
    }
}

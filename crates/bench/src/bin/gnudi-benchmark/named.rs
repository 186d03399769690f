//! Values of options by their names on the command line.

use clap::ValueEnum;

pub trait Named: ValueEnum {
    fn name(&self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

impl<T: ValueEnum> Named for T {}

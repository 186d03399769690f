//! Statistics by name. libvirt returns them as a list of `virTypedParameter`, to which new versions add.

use std::{
    collections::HashMap,
    ffi::{CStr, c_int},
};

use crate::library::TypedParameter;

/// Statistics by name, such as `cpu.time` or `vcpu.0.time`; non-numeric ones are left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statistics(HashMap<String, i128>);

impl Statistics {
    pub fn get(&self, name: &str) -> Option<i128> {
        self.0.get(name).copied()
    }

    /// For tests and other sources of the same statistics.
    pub fn of(figures: impl IntoIterator<Item = (String, i128)>) -> Self {
        Statistics(figures.into_iter().collect())
    }
}

/// `VIR_TYPED_PARAM_INT` etc.
const INT: c_int = 1;
const UNSIGNED_INT: c_int = 2;
const LONG: c_int = 3;
const UNSIGNED_LONG: c_int = 4;
const BOOLEAN: c_int = 6;

/// Copies the numeric parameters of an array.
///
/// # Safety
/// `first` points to `count` parameters, or is null.
pub(crate) unsafe fn parameters(first: *const TypedParameter, count: c_int) -> Statistics {
    let count = usize::try_from(count).unwrap_or(0);
    if first.is_null() || count == 0 {
        return Statistics::default();
    }
    // SAFETY: guaranteed by the caller.
    let parameters = unsafe { std::slice::from_raw_parts(first, count) };
    Statistics(
        parameters.iter().filter_map(|parameter| Some((name(parameter)?, number(parameter)?))).collect(),
    )
}

fn name(parameter: &TypedParameter) -> Option<String> {
    let bytes = parameter.field.map(|letter| letter as u8);
    Some(CStr::from_bytes_until_nul(&bytes).ok()?.to_string_lossy().into_owned())
}

fn number(parameter: &TypedParameter) -> Option<i128> {
    let eight = parameter.value.to_ne_bytes();
    let four = [eight[0], eight[1], eight[2], eight[3]];
    match parameter.kind {
        INT => Some(i32::from_ne_bytes(four).into()),
        UNSIGNED_INT => Some(u32::from_ne_bytes(four).into()),
        LONG => Some(i64::from_ne_bytes(eight).into()),
        UNSIGNED_LONG => Some(u64::from_ne_bytes(eight).into()),
        BOOLEAN => Some((eight[0] != 0).into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_by_their_kinds() {
        let parameter = |kind, value: u64| {
            let mut parameter = TypedParameter::EMPTY;
            parameter.field[0] = b'x' as _;
            parameter.kind = kind;
            parameter.value = value;
            parameter
        };
        let read = |kind, value| number(&parameter(kind, value));
        assert_eq!(read(UNSIGNED_LONG, u64::MAX), Some(u64::MAX.into()));
        assert_eq!(read(LONG, u64::MAX), Some(-1));
        assert_eq!(read(INT, u64::MAX), Some(-1));
        assert_eq!(read(UNSIGNED_INT, u64::MAX), Some(u32::MAX.into()));
        assert_eq!(read(BOOLEAN, 1), Some(1));
        // Doubles and texts are ignored: none of the statistics needed has these types.
        assert_eq!(read(5, 1), None);
        assert_eq!(read(7, 1), None);
        let two = [parameter(LONG, 5), parameter(7, 0)];
        // SAFETY: two parameters.
        let figures = unsafe { parameters(two.as_ptr(), 2) };
        assert_eq!(figures.get("x"), Some(5));
    }
}

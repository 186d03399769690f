//! Resolves addresses of this process to functions.
//!
//! The debug information takes 300 MB, most of which the allocator would keep. So a short-lived child process
//! resolves them: the same program, which maps the same files. Each process maps files at different
//! addresses, so the request has offsets from the first address of each file.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt::Write as _,
    fs,
    io::{self, BufRead, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    ptr,
};

use super::{ProfileError, function::Function};

/// The subcommand that runs [`look_up`].
pub const SUBCOMMAND: &str = "symbols";

/// Separators between functions in a response, and between a function's name and its file.
const FUNCTION_END: char = '\u{1e}';
const NAME_END: char = '\u{1f}';

/// The functions at an address, innermost first; all but the last are inlined.
pub type Symbols = HashMap<usize, Vec<Function>>;

/// Resolves the addresses in a child process of `program`, which must be this program; without it, in this
/// process.
///
/// # Errors
/// If the child process cannot be started, or fails.
pub fn of(addresses: &BTreeSet<usize>, program: Option<&Path>) -> Result<Symbols, ProfileError> {
    let Some(program) = program else {
        let found = addresses.iter().map(|address| (*address, functions(&resolve(*address)))).collect();
        // Otherwise the debug information stays mapped.
        backtrace::clear_symbol_cache();
        return Ok(found);
    };
    if addresses.is_empty() {
        return Ok(Symbols::new());
    }
    let failed = |error: io::Error| ProfileError::Failed(format!("cannot resolve symbols: {error}"));
    let maps = Maps::of_this_process().map_err(failed)?;
    let mut request = String::new();
    let mut requested = Vec::with_capacity(addresses.len());
    for address in addresses {
        if let Some((path, offset)) = maps.place(*address) {
            // Writing to a String cannot fail.
            let _ = writeln!(request, "{offset:x} {path}");
            requested.push(*address);
        }
    }
    let response = send(program, &request).map_err(failed)?;
    let lines: Vec<&str> = response.lines().collect();
    if lines.len() != requested.len() {
        return Err(ProfileError::Failed("cannot resolve symbols: the response is truncated".to_owned()));
    }
    Ok(requested.into_iter().zip(lines).map(|(address, line)| (address, functions(&read(line)))).collect())
}

/// Sends the request to the child process and returns its response.
fn send(program: &Path, request: &str) -> io::Result<String> {
    let mut child = Command::new(program)
        .arg(SUBCOMMAND)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    // The child reads all input before it writes.
    let mut stdin = child.stdin.take().expect("it is a pipe");
    let written = stdin.write_all(request.as_bytes());
    drop(stdin);
    let output = child.wait_with_output()?;
    written?;
    if !output.status.success() {
        return Err(io::Error::other(format!("the child process ended with {}", output.status)));
    }
    String::from_utf8(output.stdout).map_err(io::Error::other)
}

/// The child process: reads lines of an offset (hexadecimal) and a file, and writes a line of functions for each.
///
/// # Errors
/// If reading or writing fails.
pub fn look_up(mut input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    let mut request = String::new();
    input.read_to_string(&mut request)?;
    let maps = Maps::of_this_process()?;
    for line in request.lines() {
        let (offset, path) = line.split_once(' ').unwrap_or((line, ""));
        let offset = usize::from_str_radix(offset, 16).map_err(io::Error::other)?;
        let found = match maps.base(path) {
            Some(base) => resolve(base.wrapping_add(offset)),
            // The server has loaded a library that this process has not.
            None => vec![Symbol { name: "Unknown".to_owned(), file: Some(path.into()) }],
        };
        let written = found.iter().map(Symbol::write).collect::<Vec<_>>();
        writeln!(output, "{}", written.join(&FUNCTION_END.to_string()))?;
    }
    output.flush()
}

/// A function as the debug information names it.
#[derive(Debug, PartialEq, Eq)]
struct Symbol {
    name: String,
    file: Option<PathBuf>,
}

impl Symbol {
    fn write(&self) -> String {
        let file = self.file.as_deref().map_or_else(String::new, |file| file.to_string_lossy().into_owned());
        let name = self.name.replace(char::is_control, " ");
        format!("{name}{NAME_END}{}", file.replace(char::is_control, " "))
    }

    fn read(text: &str) -> Self {
        let (name, file) = text.split_once(NAME_END).unwrap_or((text, ""));
        Symbol { name: name.to_owned(), file: (!file.is_empty()).then(|| file.into()) }
    }
}

/// Parses a line of the response.
fn read(line: &str) -> Vec<Symbol> {
    line.split(FUNCTION_END).filter(|text| !text.is_empty()).map(Symbol::read).collect()
}

/// The functions at an address, innermost first; empty if unknown.
fn resolve(address: usize) -> Vec<Symbol> {
    let mut symbols = Vec::new();
    backtrace::resolve(ptr::with_exposed_provenance_mut(address), |symbol| {
        let name = symbol.name().map_or_else(|| "Unknown".to_owned(), |name| format!("{name:#}"));
        symbols.push(Symbol { name, file: symbol.filename().map(Path::to_owned) });
    });
    symbols
}

fn functions(symbols: &[Symbol]) -> Vec<Function> {
    let function = |(position, symbol): (usize, &Symbol)| {
        Function::new(&symbol.name, symbol.file.as_deref(), position + 1 < symbols.len())
    };
    symbols.iter().enumerate().map(function).collect()
}

/// The memory mappings of a process.
struct Maps {
    /// By start address: the end, and the file.
    ranges: BTreeMap<usize, (usize, String)>,
    /// Each file's first address.
    bases: HashMap<String, usize>,
}

impl Maps {
    fn of_this_process() -> io::Result<Self> {
        Ok(Maps::read(&fs::read_to_string("/proc/self/maps")?))
    }

    /// Parses `/proc/<pid>/maps`.
    fn read(text: &str) -> Self {
        let (mut ranges, mut bases) = (BTreeMap::new(), HashMap::new());
        for line in text.lines() {
            let Some((range, path)) = line.find('/').map(|at| (&line[..at], &line[at..])) else { continue };
            let ends = range.split(' ').next().and_then(|range| range.split_once('-'));
            let number = |text| usize::from_str_radix(text, 16).ok();
            let Some((start, end)) = ends.and_then(|(start, end)| number(start).zip(number(end))) else {
                continue;
            };
            ranges.insert(start, (end, path.to_owned()));
            let base = bases.entry(path.to_owned()).or_insert(start);
            *base = start.min(*base);
        }
        Maps { ranges, bases }
    }

    fn base(&self, path: &str) -> Option<usize> {
        self.bases.get(path).copied()
    }

    /// The file mapped at an address, and the offset from its first address.
    fn place(&self, address: usize) -> Option<(&str, usize)> {
        let (_, (end, path)) = self.ranges.range(..=address).next_back()?;
        let base = self.base(path)?;
        (address < *end).then(|| (path.as_str(), address - base))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
        1000-2000 r--p 00000000 fd:01 7    /opt/gnu di (deleted)\n\
        2000-3000 r-xp 00001000 fd:01 7    /opt/gnu di (deleted)\n\
        5000-6000 rw-p 00000000 00:00 0 \n\
        7000-8000 r-xp 00000000 00:00 0    [vdso]\n\
        9000-a000 r-xp 00000000 fd:01 8    /lib/libc.so.6\n";

    #[test]
    fn an_address_is_a_place_in_a_file() {
        let maps = Maps::read(MAPS);
        for (address, place) in [
            (0xfff, None),
            (0x1000, Some(("/opt/gnu di (deleted)", 0))),
            (0x2345, Some(("/opt/gnu di (deleted)", 0x1345))),
            (0x3000, None),
            (0x5500, None),
            (0x7500, None),
            (0x9010, Some(("/lib/libc.so.6", 0x10))),
            (0xa000, None),
        ] {
            assert_eq!(maps.place(address), place, "{address:x}");
        }
        assert_eq!((maps.base("/lib/libc.so.6"), maps.base("/lib")), (Some(0x9000), None));
    }

    #[test]
    fn a_function_is_found_by_its_place() {
        let address = an_address_is_a_place_in_a_file as fn() as usize + 1;
        let maps = Maps::of_this_process().unwrap();
        let (path, offset) = maps.place(address).unwrap();
        let request = format!("{offset:x} {path}\n10 /lib/libnothing.so.3\n");
        let mut answer = Vec::new();
        look_up(request.as_bytes(), &mut answer).unwrap();
        let answer = String::from_utf8(answer).unwrap();
        let lines: Vec<Vec<Symbol>> = answer.lines().map(read).collect();
        assert_eq!(lines.len(), 2, "{answer}");
        assert_eq!(lines[0], resolve(address));
        let name = &lines[0].last().unwrap().name;
        assert!(name.ends_with("an_address_is_a_place_in_a_file"), "{name}");
        assert_eq!(functions(&lines[1])[0].name, "Unknown (libnothing.so.3)");
        assert_eq!(of(&[address].into(), None).unwrap()[&address], functions(&lines[0]));
    }
}

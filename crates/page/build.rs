//! Generates Rust code that embeds the files of `dist/`, which `make` builds from `ui/`. Without them it
//! embeds a page that says so, so that gnudi can be built with Rust alone.
//!
//! The files are copied beside the code: a path of the sources would be wrong once the checkout has moved.

use std::{
    env,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

/// The suffixes of the compressed forms.
const COMPRESSED: [&str; 2] = ["gz", "br"];

const INDEX: &str = "index.html";

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let dist = root.join("dist");
    // Watch a folder that always exists: cargo rebuilds whenever a watched path is missing.
    println!("cargo::rerun-if-changed=dist");
    println!("cargo::rerun-if-changed=unbuilt.html");
    let index = dist.join(INDEX);
    let is_built = index.exists();
    let index = if is_built { index } else { root.join("unbuilt.html") };
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let copy = |path: &Path, name: &str| fs::copy(path, out.join(name)).expect("OUT_DIR is writable");
    copy(&index, INDEX);
    let mut text = format!("pub const INDEX: &str = include_str!({INDEX:?});\n");
    writeln!(text, "pub const IS_BUILT: bool = {is_built};").expect("a string takes all");
    text.push_str("pub const FILES: &[File] = &[\n");
    let mut files = if is_built { names(&dist) } else { Vec::new() };
    files.sort();
    for name in files {
        let form = |extension: &str| {
            let form = format!("{name}{extension}");
            copy(&dist.join(&form), &form);
            form
        };
        writeln!(
            text,
            "    File {{ name: {name:?}, plain: include_bytes!({:?}), gzip: include_bytes!({:?}), brotli: include_bytes!({:?}) }},",
            form(""), form(".gz"), form(".br"),
        ).expect("a string takes all");
    }
    text.push_str("];\n");
    fs::write(out.join("files.rs"), text).expect("OUT_DIR is writable");
}

/// The files that the page refers to: all but the index and the compressed forms.
fn names(dist: &Path) -> Vec<String> {
    let entries = fs::read_dir(dist).expect("dist is a folder");
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let is_asset = |name: &String| {
        let extension = Path::new(name).extension().and_then(|extension| extension.to_str());
        !name.starts_with('.')
            && name != INDEX
            && extension.is_some_and(|extension| !COMPRESSED.contains(&extension))
    };
    names.filter(is_asset).collect()
}

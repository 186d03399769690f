"""Builds the packages of the program under test, once, and made-up packages that they replace or conflict with."""

import pathlib
import subprocess

from support import gnudi as program

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Of what only the tests install: xz takes half a minute.
FAST = "-Zgzip -z1"


def build(directory):
    """The packages: {name: file}."""
    done = subprocess.run([ROOT / "scripts" / "build-deb", program.binary(), directory], check=False, capture_output=True, text=True,
                          env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEB_COMPRESSION": FAST})
    assert done.returncode == 0, done.stderr
    return {path.name.partition("_")[0]: path for path in pathlib.Path(directory).glob("*.deb")}


def older(package, directory, version="0.0.9-1"):
    """The same package as an older version, whose configuration file has a line that the newer one lacks."""
    tree = pathlib.Path(directory) / "older"
    subprocess.run(["dpkg-deb", "--raw-extract", package, tree], check=True)
    control = tree / "DEBIAN" / "control"
    control.write_text("".join(f"Version: {version}\n" if line.startswith("Version:") else line
                               for line in control.read_text().splitlines(keepends=True)))
    with (tree / "etc" / "gnudi" / "gnocchi.conf").open("a") as file:
        file.write("# Of an older version.\n")
    return _pack(tree, pathlib.Path(directory) / f"gnudi_{version}.deb")


def made_up(directory, name, files, depends):
    """A package with these files, {path: text}, which are programs where they lie in /usr/bin."""
    tree = pathlib.Path(directory) / name
    for path, text in files.items():
        place = tree / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        place.chmod(0o755 if path.startswith("/usr/bin") else 0o644)
    (tree / "DEBIAN").mkdir()
    lines = [f"Package: {name}", "Version: 4.4.2-2", "Architecture: all", "Maintainer: nobody <nobody@example.org>", "Description: made up"]
    lines += [f"Depends: {depends}"] if depends else []
    (tree / "DEBIAN" / "control").write_text("\n".join(lines) + "\n")
    return _pack(tree, pathlib.Path(directory) / f"{name}.deb")


def _pack(tree, place):
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Znone", "--build", tree, place], check=True, capture_output=True)
    return place

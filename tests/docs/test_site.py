"""docs/ as a site: it builds without warnings, such as of broken links, and its search finds the pages' texts. And the files that the
documents name exist."""

import json
import re
import subprocess

import pytest

from support.gnudi import ROOT

PAGES = sorted((ROOT / "docs").glob("*.md"))
DOCUMENTS = [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "ARCHITECTURE.md"]
NAMED = re.compile(r"(?<![\w/.-])((?:docs|deploy|scripts|tests)/[\w./-]*\w)")


@pytest.fixture(scope="module")
def site(module_path):
    """The built site."""
    place = module_path
    builder = ROOT / ".docs-venv" / "bin" / "sphinx-build"
    assert builder.exists(), "run `make docs` first"
    done = subprocess.run([builder, "-q", "-W", "--keep-going", "-n", "-d", place / "doctrees", ROOT / "docs", place / "html"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return place / "html"


def test_the_search_finds_every_page(site):
    text = (site / "searchindex.js").read_text()
    index = json.loads(text[text.index("(") + 1 : text.rindex(")")])
    names = index["docnames"]
    assert set(names) == {page.stem for page in PAGES}
    for word, page in (("telegraf", "inputs"), ("debconf", "packages"), ("haproxi", "deploy")):
        found = [index[part].get(word, []) for part in ("terms", "titleterms")]
        found = {names[number] for numbers in found for number in (numbers if isinstance(numbers, list) else [numbers])}
        assert page in found, (word, found)


def test_a_link_that_leads_nowhere_is_found(tmp_path):
    """The builder is as strict as is said."""
    (tmp_path / "conf.py").write_text((ROOT / "docs" / "conf.py").read_text())
    for name, text in (("index", "# A\n\n```{toctree}\nb\n```\n"), ("b", "# B\n\n[c](c.md) [d](index.md#nowhere)\n")):
        (tmp_path / f"{name}.md").write_text(text)
    builder = ROOT / ".docs-venv" / "bin" / "sphinx-build"
    done = subprocess.run([builder, "-q", "-W", "--keep-going", "-n", tmp_path, tmp_path / "html"], capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "c.md" in done.stderr and "nowhere" in done.stderr, done.stderr


def test_what_the_documents_name_exists():
    missing = []
    for page in DOCUMENTS:
        for name in NAMED.findall(page.read_text()):
            if not (ROOT / name).exists() and not list((ROOT / name).parent.glob(f"{(ROOT / name).name}.*")):
                missing.append((page.name, name))
    assert not missing

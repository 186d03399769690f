"""The `pycon` blocks of docs/api.md, run line by line against a server with the data that the page has created before."""

import doctest
import re

from docs.console import blocks
from docs.test_api import ADDRESS, PAGE, session  # noqa: F401

BLOCK = re.compile(r"^```pycon\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_every_client_reads_what_the_page_says(session):
    page = PAGE.read_text()
    start = BLOCK.search(page).start()
    for block in blocks(page[:start]):
        for command in block:
            session.differs(command.printed, session.run(command))
    text = "\n".join(match.group(1) for match in BLOCK.finditer(page)).replace(ADDRESS, session.replacements[ADDRESS])
    test = doctest.DocTestParser().get_doctest(text, {}, PAGE.name, str(PAGE), 0)
    assert len(test.examples) > 8
    failures = []
    doctest.DocTestRunner(verbose=False).run(test, out=failures.append)
    assert not failures, "".join(failures)

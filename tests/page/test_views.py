"""The page's views. (Separate from test_page.py, so that both run in parallel.)"""

import pytest

from page import browser

pytestmark = pytest.mark.slow

VIEWS = ["explore", "groups", "language", "query", "series", "store", "trouble"]


@pytest.mark.parametrize("name", VIEWS)
def test_in_a_browser(name):
    browser.run(name)

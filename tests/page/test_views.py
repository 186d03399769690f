"""What the page's views do for who looks at them. (Beside test_page.py, so that both run at a time.)"""

import pytest

from page import browser

pytestmark = pytest.mark.slow

VIEWS = ["explore", "groups", "language", "query", "series", "store", "trouble"]


@pytest.mark.parametrize("name", VIEWS)
def test_in_a_browser(name):
    browser.run(name)

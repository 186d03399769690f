"""The page as a whole: its delivery, its speed, who may look, and whether everybody can use it."""

import pytest

from page import browser
from page.test_views import VIEWS

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", [name for name in browser.names() if name not in VIEWS])
def test_in_a_browser(name):
    browser.run(name)

"""The page as a whole: its delivery, its speed, access control, and accessibility."""

import pytest

from page import browser
from page.test_views import VIEWS

pytestmark = pytest.mark.slow


# How fast the page is says more on a machine that does nothing else.
LONG = {"speed"}


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.long] if name in LONG else [])
                                  for name in browser.names() if name not in VIEWS])
def test_in_a_browser(name):
    browser.run(name)

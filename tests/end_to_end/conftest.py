"""For every end-to-end test: the browser."""

from collections.abc import Iterator
from typing import Any

import pytest

from support.browser import browser


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A running Chromium, one for the tests of a file; skips where there is none."""
    with browser() as running:
        yield running

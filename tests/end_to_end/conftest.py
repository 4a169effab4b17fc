"""For every end-to-end test: the browser."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from support.browser import browser


@pytest.fixture(scope="session")
def _one_browser() -> Iterator[Any]:
    with browser() as running:
        yield running
        asyncio._set_running_loop(running._loop)


@pytest.fixture(scope="module")
def chromium(_one_browser: Any) -> Iterator[Any]:
    """A running Chromium, one for all files; skips where there is none.

    Between two files, the thread has no running event loop, of which others could not start one of their own.
    """
    asyncio._set_running_loop(_one_browser._loop)
    yield _one_browser
    for context in _one_browser.contexts:
        context.close()
    asyncio._set_running_loop(None)

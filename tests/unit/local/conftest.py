"""The JavaScript module, which must say what Python says."""

from collections.abc import Iterator

import pytest

from support.javascript import Node


@pytest.fixture(scope="session")
def node() -> Iterator[Node]:
    """A program that starts when it is first asked, so that a test fails over Python also where there is none."""
    asked = Node()
    yield asked
    asked.close()

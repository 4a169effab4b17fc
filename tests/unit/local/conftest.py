"""The JavaScript module, which must say what Python says; and where a collector stores reports."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.collector import PROTOCOL
from support.javascript import Node


@pytest.fixture(scope="session")
def node() -> Iterator[Node]:
    """A program that starts when it is first asked, so that a test fails over Python also where there is none."""
    asked = Node()
    yield asked
    asked.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[object]:
    storage = pytest.importorskip("sottovoce.local.collector.storage")
    with storage.ReportStore(str(tmp_path / "reports.db"), PROTOCOL, create=True) as opened:
        yield opened

"""How much of a table was read, drawn on stderr."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from sottovoce.tables.text import Reported

__all__ = ["ReadingBar", "reading_bar"]


@contextmanager
def reading_bar(path: Path, *, shown: bool = True) -> Iterator[Reported]:
    """Yield what draws the bytes that were read as a bar, where ``shown`` and stderr is a terminal."""
    console = Console(stderr=True)
    if not (shown and console.is_terminal):
        yield lambda done, of: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, redirect_stdout=False) as bar:
        task = bar.add_task(f"reading {path.name}", total=None)
        yield lambda done, of: bar.update(task, completed=done, total=of)


class ReadingBar:
    """Draws a bar each time that a table is read from its start, which may be several times; itself what is told."""

    def __init__(self, path: Path, *, shown: bool) -> None:
        self._path, self._shown = path, shown
        self._report: Reported = lambda done, of: None

    def __call__(self, done: int, of: int | None) -> None:
        self._report(done, of)

    @contextmanager
    def drawn(self) -> Iterator[None]:
        with reading_bar(self._path, shown=self._shown) as self._report:
            yield

"""How much of a table was read, drawn on stderr: bytes, rows that were worked on, and the seconds that are left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

__all__ = ["ReadingBar"]


class ReadingBar:
    """Draws a bar each time that a table is read from its start, where ``shown`` and stderr is a terminal.

    Itself it is what a reader tells bytes to; whoever works on rows tells how many.
    """

    def __init__(self, path: Path, *, shown: bool = True) -> None:
        self._path, self._shown = path, shown
        self._bar: Progress | None = None
        self._rows = 0

    def __call__(self, done: int, of: int | None) -> None:
        self._update(completed=done, total=of)

    def rows(self, more: int) -> None:
        self._rows += more
        self._update(rows=f"{self._rows:,} rows")

    def _update(self, **known: object) -> None:
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], **known)  # type: ignore[arg-type]

    @contextmanager
    def drawn(self) -> Iterator[None]:
        console = Console(stderr=True)
        if not (self._shown and console.is_terminal):
            yield
            return
        columns = (
            TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TextColumn("{task.fields[rows]}"),
            TimeRemainingColumn(),
        )  # fmt: skip
        with Progress(*columns, console=console, transient=True, redirect_stdout=False) as self._bar:
            self._rows = 0
            self._bar.add_task(f"reading {self._path.name}", total=None, rows="")
            yield
        self._bar = None

"""A progress bar on stderr. It shows the number of steps only, which is public; nothing that depends on the data."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from sottovoce.central.plan import Progress as Report

__all__ = ["progress_bar"]


@contextmanager
def progress_bar(owner: object, shown: bool) -> Iterator[Report]:
    """Yield a function ``report(step, of)``; it draws a bar when ``shown`` and stderr is a terminal."""
    if not shown:
        yield lambda step, of: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(type(owner).__name__, total=None)
        yield lambda step, of: bar.update(task, completed=step, total=of)

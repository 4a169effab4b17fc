"""A progress bar: on a terminal, or in a notebook. It shows the number of steps only, which is public."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from sottovoce.central.core import Progress as Report


@contextmanager
def progress_bar(owner: object, shown: bool, beside: Callable[[], str] | None = None) -> Iterator[Report]:
    """Yield a function ``report(step, of)``; it draws a bar when ``shown`` and stderr is a terminal, or a notebook.

    What ``beside`` returns is shown with it: a few words that change.
    """
    if not shown:
        yield lambda step, of: None
        return
    console = Console(stderr=True)

    def name() -> str:
        return f"{type(owner).__name__} {'' if beside is None else beside()}".rstrip()

    if console.is_jupyter:
        yield _cell_bar(name)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(name(), total=None)
        yield lambda step, of: bar.update(task, completed=step, total=of, description=name())


def _cell_bar(name: Callable[[], str]) -> Report:
    """Return a report that draws below a notebook's cell; rich's own needs ipywidgets, and is lost when it is saved."""
    from IPython.display import HTML, display

    percent = -1
    handle: Any = None

    def report(step: int, of: int) -> None:
        nonlocal percent, handle
        if 100 * step // of == percent:
            return
        percent = 100 * step // of
        shown = HTML(f"{name()} <progress value='{step}' max='{of}'></progress> {step} of {of} steps")
        if handle is None:
            handle = display(shown, display_id=True)
        else:
            handle.update(shown)

    return report

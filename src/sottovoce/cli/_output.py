"""What the commands print, how far they have read, and how they keep what a fit has paid for."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from rich.box import SIMPLE
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from sottovoce._files import write_whole
from sottovoce._plain_data import plain
from sottovoce._shown import in_one_line, shown
from sottovoce.cli._echo import echo, write_data
from sottovoce.exceptions import SottovoceError

if TYPE_CHECKING:
    from sottovoce.tables.table import BatchedTable

Content: TypeAlias = "str | Callable[[], Iterator[str]]"

_PLAIN_WIDTH = 100


def print_json(content: object) -> None:
    echo(json.dumps(plain(content), indent=2, allow_nan=False))


def tell(as_json: bool, content: object, *said: str | Callable[[], object]) -> None:
    """Print what a command has done: as JSON, or in words, of which some print themselves."""
    if as_json:
        print_json(content)
        return
    for each in said:
        if isinstance(each, str):
            echo(each)
        else:
            each()


def print_rows(title: str, rows: Iterable[tuple[str, str]]) -> None:
    table = Table(title=Text(in_one_line(title)), title_justify="left", show_header=False, box=SIMPLE, pad_edge=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for heading, text in rows:
        table.add_row(Text(in_one_line(heading)), Text(shown(text)))
    _print(table)


def print_columns(
    title: str, headings: Sequence[str], rows: Iterable[Sequence[str]], *, ends_in_words: bool = False
) -> None:
    """Print lines of a name and figures, and words at the end where there are some, as a table with headings."""
    table = Table(
        title=Text(in_one_line(title), no_wrap=True, overflow="ignore"),
        title_justify="left",
        box=SIMPLE,
        pad_edge=False,
    )
    headings = [in_one_line(heading) for heading in headings]
    table.add_column(Text(headings[0]), style="bold", overflow="fold")
    for place, heading in enumerate(headings[1:], start=2):
        words = ends_in_words and place == len(headings)
        table.add_column(Text(heading), justify="left" if words else "right", overflow="fold")
    for row in rows:
        table.add_row(*(Text(in_one_line(cell)) for cell in row))
    _print(table)


def _print(table: Table) -> None:
    console = Console(file=sys.stdout)
    if not console.is_terminal:
        console = Console(file=sys.stdout, width=_PLAIN_WIDTH)
    console.print(table)
    sys.stdout.flush()


def say_how_good(figure: str, n_rows: int) -> None:
    what = f"{figure} on {n_rows} rows. NOT PRIVATE: computed from these labels without noise; "
    echo(f"{what}if they are private, so is this figure.", err=True)


def write_page(path: Path, text: str, *, again: str = " It can be made again from the receipt.") -> None:
    try:
        write_whole(path, text)
    except OSError as error:
        raise SottovoceError(f"{path}: cannot write the page: {error.strerror}.{again}") from None


@contextmanager
def saying_what_was_charged(estimator: Any) -> Iterator[None]:
    """Say of an interrupt what became of the budget, where what interrupted it has not said so."""
    try:
        yield
    except KeyboardInterrupt as error:
        charge = getattr(estimator, "charge_", None)
        if charge is not None:
            error.add_note(
                f"training had ended: charge {charge.charge} of data set {charge.dataset!r} counts as spent."
            )
        elif hasattr(estimator, "guarantee_"):
            error.add_note("training had ended, without a ledger: what was written or shown of the model is released.")
        elif not getattr(error, "__notes__", ()):
            error.add_note("nothing was released, and no ledger was charged.")
        raise


def write_or_keep(texts: Mapping[Path, Content], *, private: Container[Path | None] = ()) -> None:
    """Write what a fit has paid for; what the disk refuses is kept in the folder for temporary files.

    A long text comes in parts, from what is called for them. Those that are ``private`` are for their owner alone.

    Raises SottovoceError if a file could not be written, after all the others were; the message says where its text is
    now.
    """
    failed = []
    for path, text in texts.items():
        try:
            write_whole(path, _parts(text), private=path in private)
        except OSError as error:
            failed.append(f"{path}: cannot write the file: {error.strerror}. {_keep(path, text)}")
    if failed:
        raise SottovoceError("\n".join(failed))


def _parts(text: Content) -> Iterable[str]:
    return (text,) if isinstance(text, str) else text()


def _keep(path: Path, text: Content) -> str:
    try:
        kept = Path(tempfile.mkdtemp(prefix="sottovoce-")) / path.name
        write_whole(kept, _parts(text), private=True)
    except OSError:
        for part in _parts(text):
            write_data(part)
        return "The content was written to stdout instead: its privacy budget is spent, do not lose it."
    return f"The content was kept in {kept}: its privacy budget is spent, do not lose it."


@contextmanager
def reading_bar(path: Path, table: BatchedTable, *, shown: bool = True) -> Iterator[None]:
    """Draw on a terminal how many rows of a table were read, where ``shown``."""
    console = Console(stderr=True)
    if not (shown and console.is_terminal):  # a bar that is disabled ends in an empty line with older versions of rich
        yield
        return
    columns = SpinnerColumn(), TextColumn("{task.description}: {task.completed:,.0f} rows"), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True, redirect_stdout=False) as bar:
        task = bar.add_task(f"reading {path.name}", total=None)
        before, table.told = table.told, partial(bar.advance, task)
        try:
            yield
        finally:
            table.told = before

"""The command line as a whole: its commands, its version, and how it reports errors."""

from __future__ import annotations

import errno
import re
import sys
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from typing import Annotated, Any, ClassVar

import typer

from sottovoce._version import __version__
from sottovoce.cli._echo import echo
from sottovoce.cli._lazy import LazyGroup
from sottovoce.cli._mistakes import WrongUse, what_to_type
from sottovoce.exceptions import SottovoceError


class _Commands(LazyGroup):
    """Commands that report an expected error, or one of the disk, as a plain message, with exit code 2."""

    places: ClassVar = {
        name: f"sottovoce.cli.{'_groups' if name in ('receipt', 'ledger', 'local') else name}"
        for name in (
            "fit", "predict", "evaluate", "show", "plan", "schema", "receipt", "proof", "ledger", "vertical", "local",
            "compile",
        )
    }  # fmt: skip

    def make_context(self, *args: Any, **settings: Any) -> Any:
        with _telling_mistakes():
            return super().make_context(*args, **settings)

    def invoke(self, ctx: Any) -> Any:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            try:
                with _telling_mistakes():
                    return super().invoke(ctx)
            except SottovoceError as error:
                _tell("error", error, as_options(str(error), vars(error).get("options", ())))
                raise typer.Exit(2) from None
            except KeyboardInterrupt as error:
                _tell("interrupted", error)
                raise typer.Exit(130) from None
            except OSError as error:
                if error.errno in (None, errno.EPIPE):  # a reader of stdout that has enough is not an error
                    raise
                place = "" if error.filename is None else f"{error.filename}: "
                echo(f"error: {place}{error.strerror}", err=True)
                raise typer.Exit(2) from None


@contextmanager
def _telling_mistakes() -> Iterator[None]:
    try:
        yield
    except WrongUse as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # which shows the help
            raise
        echo(f"error: {what_to_type(error)}", err=True)
        raise typer.Exit(2) from None


# what an error asks for in Python, and what it is called here
_ARGUMENT = re.compile(
    r"\b(accept_delta|another_run|delimiter|format|header|overwrite|same_unit|skip_rows|target)"
    r"=(True|False|\"(\.\.\.|[\w-]+)\"|\d(?:[\d.e+-]*\d)?)"
)
_REFUSED = re.compile(r"\A(\w+)(?= is missing| must |=)")


def as_options(text: str, known: Collection[str] = ()) -> str:
    """Return a message with the options of the command line in place of the arguments of Python.

    ``known``: the options of the command, of which one may be what the message refuses.
    """
    first = _REFUSED.match(text)
    if first is not None and (name := f"--{first[1].replace('_', '-')}") in known:
        text = name + text[first.end() :]
    text = text.replace("groups=...", "--unit COLUMN").replace("max_rows_per_group=...", "--max-rows-per-unit K")
    return _ARGUMENT.sub(_as_option, text.replace("max_rows_per_group", "--max-rows-per-unit"))


def _as_option(found: re.Match[str]) -> str:
    name, value, text = found.groups()
    name = "force" if name == "overwrite" else name.replace("_", "-")
    text = value if value[0].isdigit() else text
    return f"--{'no-' * (value == 'False')}{name}{f' {text}' if text not in (None, '...') else ''}"


def _tell(what: str, error: BaseException, *first: str) -> None:
    said = "\n".join((*first, *getattr(error, "__notes__", ())))
    echo(as_options(f"{what}: {said}" if said else what), err=True)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    echo(f"warning: {message}", err=True)


# pretty exceptions would print local variables: rows of private data
app = typer.Typer(
    name="sottovoce",
    cls=_Commands,
    help="Differentially private linear models for tables.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(asked: bool) -> None:
    if asked:
        echo(f"sottovoce {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    print_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Differentially private linear models for tables."""


def main() -> None:
    """Run the command line and exit: 0 done, 2 wrong use or wrong input, 130 interrupted."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # files are UTF-8, whatever the locale is
            stream.reconfigure(encoding=None if stream.isatty() else "utf-8", errors="backslashreplace")
    sys.exit(app())

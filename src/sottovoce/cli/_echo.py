"""The one door to the terminal: whatever a file held, nothing that a terminal obeys goes through it."""

from __future__ import annotations

import sys

import typer

from sottovoce._shown import shown


def echo(text: object = "", *, err: bool = False, nl: bool = True) -> None:
    typer.echo(shown(str(text)), err=err, nl=nl)


def write_data(text: str) -> None:
    """Write what is to be read by programs: as it is to a file or a pipe, and as words to a terminal."""
    sys.stdout.write(shown(text) if is_terminal() else text)
    sys.stdout.flush()


def is_terminal() -> bool:
    return sys.stdout.isatty()

"""``sottovoce receipt``: verify a receipt, and compare two."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from sottovoce.cli._options import ForceOption, refuse_options
from sottovoce.cli._output import check_output, print_rows, write_page
from sottovoce.report import diff_receipts, difference_page, read_receipt, verify_receipt

__all__ = ["receipt"]

receipt = typer.Typer(no_args_is_help=True)

_FILE = "A receipt, a model, or the page of a receipt."


@receipt.callback()
def _group() -> None:
    """Receipts: verify one, compare two."""


@receipt.command()
def verify(
    path: Annotated[Path, typer.Argument(metavar="FILE", help=_FILE)],
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")] = False,
) -> None:
    """Account the event in FILE again and compare it with the promise; say what no file can show.

    Exit code 0 if nothing that can be checked is wrong, 2 otherwise.
    """
    found = verify_receipt(path)
    if as_json:
        typer.echo(json.dumps(found.to_dict(), indent=2))
    else:
        print_rows(f"Verification {path}", found.rows())
    if not found.passed:
        raise typer.Exit(2)


@receipt.command()
def diff(
    first: Annotated[Path, typer.Argument(metavar="A", help=_FILE)],
    second: Annotated[Path, typer.Argument(metavar="B", help=_FILE)],
    html: Annotated[
        Path | None, typer.Option("--html", help="Write the comparison as a page, and print nothing.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")] = False,
    force: ForceOption = False,
) -> None:
    """Say whether the promise of B is weaker or stronger than that of A, and what else differs."""
    if html is not None:
        refuse_options("prints, and --html writes a page: give one of them", {"--json": as_json})
        check_output("--html", html, inputs=(first, second), overwrite=force)
    a, b = read_receipt(first), read_receipt(second)
    if html is not None:
        write_page(html, difference_page(a, b, names=(str(first), str(second))))
        return
    found = diff_receipts(a, b)
    if as_json:
        typer.echo(json.dumps(found.to_dict(), indent=2, allow_nan=False))
        return
    print_rows(f"From {first} to {second}", found.rows())

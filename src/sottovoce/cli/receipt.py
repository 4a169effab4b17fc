"""``sottovoce receipt``: verify and sign receipts, compare two, add several up."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from sottovoce._files import write_whole
from sottovoce.cli._echo import echo
from sottovoce.cli._lazy import group
from sottovoce.cli._options import REQUIRED, ForceOption, argument, flag, option, refuse_options
from sottovoce.cli._output import check_output, print_rows, write_page
from sottovoce.evaluation import Evaluation
from sottovoce.exceptions import ParameterError
from sottovoce.report import (
    diff_receipts,
    difference_page,
    make_key,
    read_receipt,
    sign_receipt,
    sum_receipts,
    verify_receipt,
)
from sottovoce.report.reading import fingerprint

__all__ = ["receipt"]

receipt = group(
    "Receipts: verify one, sign it, compare two, add several up.",
    **{name: f"{__name__}:{name}" for name in ("verify", "key", "sign", "sum_", "diff")},
)

_FILE = "A receipt, a model, an evaluation, or a page of one."


def verify(
    path: Path = argument("FILE", _FILE),
    model: Path | None = option("--model", "A model file that the receipt should belong to."),
    public_key: Path | None = option(
        "--public-key", "Public key of whoever should have signed; unsigned receipts fail."
    ),
    as_json: bool = flag("--json", "Print the outcome as JSON."),
) -> None:
    """Account the event in FILE again, plan the run again, and compare; say what no file can show.

    Exit code 0 if nothing that can be checked is wrong, 2 otherwise.
    """
    found = verify_receipt(path, model=model, public_key=public_key)
    _print(f"Verification {path}", found, as_json)
    if not found.passed:
        raise typer.Exit(2)


def key(
    out: Path = option("--out", "Where to write the private key; the public one: beside it, .pub", default=REQUIRED),
) -> None:
    """Make a pair of keys to sign receipts with: the private one for its owner alone."""
    public = make_key(out)
    echo(f"Private key {out}: keep it secret. Public key {public}: give it to whoever verifies.")


def sign(
    path: Path = argument("RECEIPT", "A receipt, or an evaluation; the signature is written into it."),
    key: Path = option("--key", "A private key that `sottovoce receipt key` made.", default=REQUIRED),
) -> None:
    """Sign a receipt, after it was verified: a signature under a false one helps nobody."""
    found = verify_receipt(path)
    if found.kind not in ("receipt", "evaluation"):
        raise ParameterError(f"{path}: this is a {found.kind}. Sign its receipt: the file that `sottovoce fit` wrote.")
    if not found.passed or found.guarantee is None:
        print_rows(f"Verification {path}", found.rows())
        raise typer.Exit(2)
    signed = sign_receipt(found.guarantee, key)
    whole = signed if found.kind == "receipt" else replace(Evaluation.from_json(path), guarantee_=signed)
    write_whole(path, whole.to_json())
    echo(f"Signed {path}; its fingerprint is {fingerprint(found.guarantee)}, as before.")


def sum_(
    paths: list[Path] = argument("FILE...", "Receipts, models or pages."),
    delta: float | None = option("--delta", "At which to state the sum. Default: the largest of the receipts."),
    as_json: bool = flag("--json", "Print the sum as JSON."),
) -> None:
    """Add receipts about the same people up: what all runs together promise."""
    _print("Sum", sum_receipts([read_receipt(path) for path in paths], delta=delta), as_json)


def diff(
    first: Path = argument("A", _FILE),
    second: Path = argument("B", _FILE),
    html: Path | None = option("--html", "Write the comparison as a page, and print nothing."),
    as_json: bool = flag("--json", "Print the comparison as JSON."),
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
    _print(f"From {first} to {second}", diff_receipts(a, b), as_json)


def _print(title: str, found: Any, as_json: bool) -> None:
    if as_json:
        echo(json.dumps(found.to_dict(), indent=2, allow_nan=False))
    else:
        print_rows(title, found.rows())

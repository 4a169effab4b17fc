"""``sottovoce receipt``: verify and sign receipts, add several up."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from sottovoce._files import write_whole
from sottovoce.cli import _options as cli
from sottovoce.cli._output import print_rows
from sottovoce.evaluation import Evaluation
from sottovoce.exceptions import ParameterError
from sottovoce.report import Verification, make_key, read_receipt, sign_receipt, sum_receipts, verify_receipt
from sottovoce.report.reading import fingerprint

_FILE = "A receipt, a model, an evaluation, or a page of one."


@cli.command
def verify(
    path: Path = cli.argument("FILE", _FILE),
    model: Path | None = cli.option("--model", "A model file that the receipt should belong to."),
    public_key: Path | None = cli.option(
        "--public-key", "Public key of whoever should have signed; unsigned receipts fail."
    ),
) -> cli.Told:
    """Account the event in FILE again, plan the run again, and compare; say what no file can show.

    Exit code 0 if nothing that can be checked is wrong, 2 otherwise.
    """
    found = verify_receipt(path, model=model, public_key=public_key)
    return _verified(path, found)


@cli.command
def key(
    out: Path = cli.option(
        "--out", "Where to write the private key; the public one: beside it, .pub", default=cli.REQUIRED
    ),
) -> cli.Told:
    """Make a pair of keys to sign receipts with: the private one for its owner alone."""
    public = make_key(out)
    told = {"private_key": str(out), "public_key": str(public)}
    return cli.Told(told, f"Private key {out}: keep it secret. Public key {public}: give it to whoever verifies.")


@cli.command
def sign(
    path: Path = cli.argument("RECEIPT", "A receipt, or an evaluation; the signature is written into it."),
    key: Path = cli.option("--key", "A private key that `sottovoce receipt key` made.", default=cli.REQUIRED),
) -> cli.Told:
    """Sign a receipt, after it was verified: a signature under a false one helps nobody."""
    found = verify_receipt(path)
    if found.kind not in ("receipt", "evaluation"):
        raise ParameterError(f"{path}: this is a {found.kind}. Sign its receipt: the file that `sottovoce fit` wrote.")
    if not found.passed or found.guarantee is None:
        return _verified(path, found)
    signed = sign_receipt(found.guarantee, key)
    whole = signed if found.kind == "receipt" else replace(Evaluation.from_json(path), guarantee_=signed)
    write_whole(path, whole.to_json())
    told = {"signed": str(path), "fingerprint": fingerprint(found.guarantee)}
    return cli.Told(told, f"Signed {path}; its fingerprint is {told['fingerprint']}, as before.")


@cli.command
def sum_(
    paths: list[Path] = cli.argument("FILE...", "Receipts, models or pages."),
    delta: float | None = cli.option("--delta", "At which to state the sum. Default: the largest of the receipts."),
) -> cli.Told:
    """Add receipts about the same people up: what all runs together promise."""
    found = sum_receipts([read_receipt(path) for path in paths], delta=delta)
    return cli.Told(found.to_dict(), lambda: print_rows("Sum", found.rows()))


def _verified(path: Path, found: Verification) -> cli.Told:
    told = partial(print_rows, f"Verification {path}", found.rows())
    return cli.Told(found.to_dict(), told, status=0 if found.passed else 2)

"""``sottovoce evaluate``: how good a stored model is on a private table, with noise and intervals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sottovoce._files import write_whole
from sottovoce.cli._echo import echo
from sottovoce.cli._holdout import spilled_for_evaluation
from sottovoce.cli._options import (
    ACCEPT_DELTA,
    LEDGER,
    RANDOM_STATE,
    REQUIRED,
    SCRATCH,
    TABLE,
    ForceOption,
    Reading,
    argument,
    flag,
    option,
    with_groups,
)
from sottovoce.cli._output import check_output, print_rows, write_or_keep
from sottovoce.cli._rows import RowReader
from sottovoce.cli.predict import without_schema
from sottovoce.estimators.persistence import load_model
from sottovoce.evaluation import Evaluation
from sottovoce.evaluation import evaluate as evaluate_model
from sottovoce.evaluation.evaluating import evaluation_plan
from sottovoce.exceptions import SottovoceError
from sottovoce.ledger.charging import is_charged
from sottovoce.ledger.ledger import Ledger
from sottovoce.tables import Encoder

__all__ = ["evaluate"]

_PRIVACY = "Privacy"


@with_groups
def evaluate(
    *,
    model: Path = argument("MODEL", "A model that `sottovoce fit` wrote."),
    table: Path = TABLE,
    epsilon: float = option("--epsilon", "What the evaluation may cost, > 0.", _PRIVACY, default=REQUIRED),
    delta: float = option("--delta", "0 (the default) is pure differential privacy.", _PRIVACY, default=0.0),
    accept_delta: float | None = ACCEPT_DELTA,
    adjacency: str = option(
        "--adjacency", "Which tables are neighbours: zero-out, add-remove or replace-one.", _PRIVACY, default="zero-out"
    ),
    n_public: int | None = option(
        "--n-public", "Public stand-in for the number of rows, where that is secret (add-remove).", _PRIVACY
    ),
    ledger: str | None = option(
        "--ledger",
        "Privacy budget on disk to charge: sqlite:///PATH or postgresql://USER@HOST/DATABASE.",
        _PRIVACY,
        **LEDGER,
    ),
    dataset: str | None = option("--dataset", "Name of the data set in the ledger.", _PRIVACY),
    out: Path | None = option("--out", "Where to write the evaluation (JSON), with its receipt."),
    page: Path | None = option("--page", "Where to write the evaluation as a page to read and print."),
    as_json: bool = flag("--json", "Print the evaluation as JSON."),
    random_state: int | None = RANDOM_STATE,
    reading: Reading,
    scratch: Path | None = SCRATCH,
    force: ForceOption = False,
) -> None:
    """Evaluate MODEL on the private rows of TABLE: measures with 95 % intervals, under differential privacy.

    TABLE should be held out of training: on training rows the figures are optimistic, and both budgets add up.
    """
    for name, path in (("--out", out), ("--page", page)):
        if path is not None:
            check_output(name, path, inputs=(model, table), overwrite=force)
    estimator, schema = load_model(model)
    facts: dict[str, Any] = {
        "epsilon": epsilon, "delta": delta, "adjacency": adjacency, "n_public": n_public, "accept_delta": accept_delta,
        "max_rows_per_group": None if schema is None else schema.max_rows_per_unit,
    }  # fmt: skip
    evaluation_plan(estimator, 1, **{**facts, "accept_delta": delta or None})  # wrong numbers, before a table is opened
    if is_charged(ledger, dataset):
        Ledger(str(ledger)).spent(str(dataset))  # is it there? before the table is read
    if schema is None:
        raise without_schema(model)
    opened = RowReader(Encoder(schema), reading).open(table, quiet=False)
    spilled = spilled_for_evaluation(opened, n_public, scratch)
    rows = opened.rows if spilled is None else spilled.unread()  # values are read after the charge
    found = evaluate_model(estimator, rows, **facts, ledger=ledger, dataset=dataset, random_state=random_state)
    if out is not None:
        write_or_keep({out: found.to_json()})
    if as_json:
        echo(found.to_json(), nl=False)
    else:
        print_rows(f"Evaluation of {model} on {table}, with 95 % intervals", found.rows())
    if page is not None:
        _write_page(page, found)


def _write_page(path: Path, found: Evaluation) -> None:
    try:
        write_whole(path, found.to_html())
    except OSError as error:
        raise SottovoceError(f"{path}: cannot write the page: {error.strerror}.") from None

"""``sottovoce evaluate``: how good a stored model is on a private table, with noise and intervals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sottovoce.cli import _options as cli
from sottovoce.cli._echo import echo
from sottovoce.cli._models import EvaluationBudget
from sottovoce.cli._output import print_rows, write_or_keep, write_page
from sottovoce.cli._rows import open_rows
from sottovoce.cli.predict import without_schema
from sottovoce.estimators.persistence import load_model
from sottovoce.evaluation import evaluate as evaluate_model
from sottovoce.evaluation.evaluating import evaluation_plan
from sottovoce.evaluation.tables import BYTES_A_ROW
from sottovoce.ledger.charging import is_charged
from sottovoce.ledger.ledger import Ledger


@cli.command
def evaluate(
    *,
    model: Path = cli.argument("MODEL", "A model that `sottovoce fit` wrote."),
    table: Path = cli.TABLE,
    budget: EvaluationBudget,
    reading: cli.Reading,
    scratch: Path | None = cli.SCRATCH,
    out: Path | None = cli.output("--out", "Where to write the evaluation (JSON), with its receipt."),
    page: Path | None = cli.output("--page", "Where to write the evaluation as a page to read and print."),
    as_json: bool = cli.JSON,
) -> None:
    """Evaluate MODEL on the private rows of TABLE: measures with 95 % intervals, under differential privacy.

    TABLE should be held out of training: on training rows the figures are optimistic, and both budgets add up.
    """
    estimator, schema = load_model(model)
    given = vars(budget)
    facts: dict[str, Any] = {
        **{name: given[name] for name in ("epsilon", "delta", "adjacency", "n_public", "accept_delta")},
        "max_rows_per_group": None if schema is None else schema.max_rows_per_unit,
    }
    # wrong numbers, before a table is opened
    evaluation_plan(estimator, 1, **{**facts, "accept_delta": budget.delta or None})
    if is_charged(budget.ledger, budget.dataset):
        Ledger(str(budget.ledger)).spent(str(budget.dataset))  # is it there? before the table is read
    if schema is None:
        raise without_schema(model)
    opened = open_rows(schema, reading, table, quiet=False, scratch=scratch)
    opened.check_room(1, BYTES_A_ROW, budget.n_public, scratch)
    found = evaluate_model(estimator, opened.unread(scratch), **{**given, **facts})  # values are read after the charge
    if out is not None:
        write_or_keep({out: found.to_json()})
    if as_json:
        echo(found.to_json(), nl=False)
    else:
        print_rows(f"Evaluation of {model} on {table}, with 95 % intervals", found.rows())
    if page is not None:
        write_page(page, found.to_html(), again="")

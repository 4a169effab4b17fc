"""``sottovoce fit``: train a private model on a table and write it with its receipt."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from sottovoce._groups import person_codes
from sottovoce._validation import MAX_EPSILON, filled_text, number
from sottovoce.central.plan import Takes
from sottovoce.cli import _options as cli
from sottovoce.cli import _output as output
from sottovoce.cli._models import MODELS, Training, is_sparse, make_estimator, model_by_target
from sottovoce.cli._rows import Mask, OpenedTable, given_schema, open_rows
from sottovoce.estimators.linear import DPLinearEstimator
from sottovoce.estimators.persistence import model_to_json, tied_to_schema
from sottovoce.estimators.reading import UnreadTable
from sottovoce.evaluation import Evaluation, evaluate
from sottovoce.evaluation.plan import LEAST_EPSILON
from sottovoce.exceptions import ParameterError, SchemaError
from sottovoce.ledger import Ledger
from sottovoce.ledger.charging import is_charged
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.randomness import Purpose, Streams
from sottovoce.report import read_model_card, receipt_page
from sottovoce.tables import Schema

_HOLDOUT = "Rows set aside"
_EVALUATION = ".evaluation.json"
_AT_ONCE = 1 << 16
_FIT: Final = 8 * 8  # bytes that a fit remembers of a row: label, target, scale, divisor, dual variables before and now
_FIT_A_CLASS: Final = 3 * 8


def _bounds(given: Training, model: cli.ModelKind, schema: Schema) -> dict[str, float | str | None]:
    """Return the bound that the model needs where none was given: the schema's."""
    if is_sparse(model):
        return {"data_bound": 1.0} if given.data_bound is None else {}
    return {"data_norm": schema.data_norm} if given.data_norm is None else {}


@dataclass(frozen=True)
class _Unit:
    """Whose rows the rows are, where one person can have several; a schema may say it too."""

    unit: str | None = cli.option(
        "--unit",
        "The column that says whose row it is, never a feature: people are protected, not rows.",
    )
    max_rows_per_unit: int | None = MODELS.option("max_rows_per_group", "--max-rows-per-unit")

    def described(self, schema: Schema, path: Path | None) -> Schema:
        try:
            given = {name: value for name, value in vars(self).items() if value is not None}
            schema = replace(schema, **given)
        except SchemaError as error:
            raise SchemaError(f"{path}: {error}") from None
        if schema.unit is not None:
            cli.require("--max-rows-per-unit", schema.max_rows_per_unit, (
                f"one person of unit {schema.unit!r} can have several rows. Give --max-rows-per-unit K, the public "
                "number of rows that are used of one person, or write max_rows_per_unit = K in the schema. Never "
                "compute it from the data."
            ))  # fmt: skip
        return schema


@dataclass(frozen=True)
class _Holdout:
    """Which rows are never trained on."""

    holdout: float | None = cli.option(
        "--holdout", "Share of rows, or of people with --unit, to set aside by coins and never train on.", _HOLDOUT
    )
    holdout_out: Path | None = cli.output(
        "--holdout-out",
        "Where to write the rows that were set aside, as they are: a file for its owner alone.",
        _HOLDOUT,
    )

    evaluate_epsilon: float | None = cli.output(
        "--evaluate-epsilon",
        "Evaluate the model on the rows that were set aside, with noise, at this cost of its own; written beside the "
        "model as NAME.evaluation.json.",
        _HOLDOUT,
        beside=_EVALUATION,
        always=False,
    )

    def told(self, schema: Schema) -> list[tuple[str, str]]:
        """Return what to say of it: how many rows were set aside is public only where each had a coin."""
        if self.holdout is None:
            return []
        rows = "people" if schema.unit is not None else "rows"
        where = "" if self.holdout_out is None else f", in {self.holdout_out}"
        return [("set aside", f"{self.holdout:g} of the {rows}, by coins{where}; never trained on")]

    def check(self) -> None:
        options = {"--holdout-out": self.holdout_out, "--evaluate-epsilon": self.evaluate_epsilon}
        if self.holdout is None:
            cli.refuse_options("needs --holdout SHARE, such as 0.2", options)
        elif self.holdout_out is None and self.evaluate_epsilon is None:
            raise ParameterError(
                "--holdout sets rows aside, and nothing says what for. Give --evaluate-epsilon E to evaluate the model "
                "on them with noise, or --holdout-out FILE to keep them for `sottovoce evaluate`."
            )
        if self.evaluate_epsilon is not None:
            number("--evaluate-epsilon", self.evaluate_epsilon, at_least=LEAST_EPSILON, at_most=MAX_EPSILON)


def _evaluated(estimator: DPLinearEstimator, rows: UnreadTable, holdout: _Holdout) -> Evaluation:
    share, secret_size = float(holdout.holdout or 0.0), estimator.n_public
    seed = estimator.random_state
    return evaluate(
        estimator, rows, epsilon=float(holdout.evaluate_epsilon or 0.0), ledger=estimator.ledger,
        dataset=estimator.dataset, groups=None if rows.groups is None else rows.groups(),
        max_rows_per_group=estimator.max_rows_per_group, adjacency=estimator.adjacency,
        n_public=None if secret_size is None else max(1, round(share * secret_size)),
        random_state=None if seed is None else seed ^ 1,  # not the bits of the fit once more
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Split:
    """A table in two parts."""

    training: OpenedTable  # with persons both have all rows: those of the other part have no person there
    held_out: OpenedTable
    chosen: Callable[[], Mask]  # returns which rows of the file are held out


def split_by_coins(opened: OpenedTable, share: float, random_state: int | None) -> Split:
    """Hold out each row, or each person with all their rows, with probability ``share``; no value is read.

    Coins know nothing of the rows. Without persons, the sizes of both parts are therefore public. How many rows the
    people of one part have is not: with persons both parts keep the size of the table, and the rows of the others have
    no person, so that they contribute nothing.
    """
    share = number("--holdout", share, above=0.0, below=1.0)
    n_rows = opened.n_rows
    # with persons one coin more than there can be people: that of nobody, whose code is -1, and who is in no part
    coins, thrown = np.zeros(n_rows + 1, np.bool_), Streams(random_state).generator(Purpose.HOLDING_OUT)
    for start in range(0, n_rows, _AT_ONCE):
        stop = min(start + _AT_ONCE, n_rows)
        coins[start:stop] = thrown.random(stop - start) < share
    if opened.groups is not None:
        return _split_people(opened, cache(opened.groups), coins)
    held = coins[:-1]
    if held.all() or not held.any():
        raise ParameterError(f"--holdout {share:g}: the coins left one part of {n_rows} rows empty. Try again.")
    training, held_out = (replace(opened, chosen=own) for own in (~held, held))
    return Split(training, held_out, lambda: held)


def _split_people(opened: OpenedTable, groups: Callable[[], Any], coins: Mask) -> Split:
    @cache
    def held() -> Mask:
        return coins[person_codes(groups(), opened.n_rows)]

    def only(part: bool) -> Any:
        kept = groups().copy()
        kept[held() != part] = None
        return kept

    return Split(replace(opened, groups=lambda: only(False)), replace(opened, groups=lambda: only(True)), held)


def _check_room(opened: OpenedTable, estimator: DPLinearEstimator, folder: Path | None) -> None:
    """Refuse a scratch disk without room for a table that is not held in memory, whole or in part.

    Persons, and solvers that do not take rows in order, need rows there a second time.
    """
    if not opened.is_small:  # else the sizes may have no plan
        plan = estimator.plan_for(opened.n_rows, opened.schema.n_features, estimator.planned_models())
        copies = 1 if Takes.ROWS_IN_ORDER in plan.takes and opened.groups is None else 2
        more = _FIT + _FIT_A_CLASS * len(getattr(estimator, "classes", None) or ())
        opened.check_room(copies, more, estimator.n_public, folder)


@cli.command
def fit(
    *,
    table: Any = cli.TABLE,
    model: cli.ModelKind | None = cli.MODEL_OR_BY_TARGET,
    out: Path = cli.output("--out", "Where to write the model (JSON).", default=cli.REQUIRED),
    schema: Path | None = cli.SCHEMA,
    target: str | None = cli.TARGET,
    reading: cli.Reading,
    scratch: Path | None = cli.SCRATCH,
    training: Training,
    unit: _Unit,
    receipt: Path | None = cli.output(
        "--receipt", "Where to write the receipt. Default: beside the model.", beside=".receipt.json"
    ),
    report: Path | None = cli.output("--report", "Where to write the receipt as a page (HTML). Default: nowhere."),
    model_card: Path | None = cli.MODEL_CARD,
    table_name: str | None = cli.option("--table-name", "What the receipt calls the table; public, and not checked."),
    quiet: bool = cli.flag("--quiet", "No progress and no notes on stderr; on stdout --json alone."),
    as_json: bool = cli.JSON,
    holdout: _Holdout,
) -> None:
    """Train a private model on TABLE and write it with its receipt."""
    assert receipt is not None
    holdout.check()
    if report is None:
        cli.refuse_options("is for the page: give --report PAGE.html too", {"--model-card": model_card})
    card = None if model_card is None else read_model_card(model_card)
    if table_name is not None:
        filled_text("--table-name", table_name)
    described = unit.described(given_schema(schema, target, table), schema)
    model = model_by_target(model, described.label_bounds, described.target, quiet=quiet)
    estimator = make_estimator(
        model,
        classes=described.classes,
        label_bounds=described.label_bounds,
        options={
            **vars(training),
            **_bounds(training, model, described),
            "max_rows_per_group": described.max_rows_per_unit,
            "verbose": int(not quiet and sys.stderr.isatty()),
        },
    )
    estimator.plan(1, 1)  # refuses wrong numbers before a large table is opened
    if is_charged(training.ledger, training.dataset):
        Ledger(str(training.ledger)).spent(str(training.dataset))  # is it there? before the table is read
    split, opened = None, open_rows(described, reading, table, quiet=quiet, scratch=scratch)
    if holdout.holdout is not None:
        if holdout.holdout_out is not None:
            opened.refuse_unwritable()  # before the charge
        split = split_by_coins(opened, holdout.holdout, training.random_state)
        opened = split.training
    _check_room(opened, estimator, scratch)
    rows = opened.unread(scratch)
    with output.saying_what_was_charged(estimator):
        estimator.fit(rows)  # values are read after the charge
        estimator.guarantee_ = tied_to_schema(estimator.guarantee_, described)
        if table_name is not None:
            estimator.guarantee_ = estimator.guarantee_.naming(table_name)
        texts: dict[Path, output.Content] = {
            out: model_to_json(estimator, schema=described), receipt: estimator.guarantee_.to_json()
        }  # fmt: skip
        if split is not None and holdout.holdout_out is not None:
            texts[holdout.holdout_out] = partial(opened.texts, split.chosen())
        output.write_or_keep(texts, private=(holdout.holdout_out,))
    if report is not None:
        output.write_page(report, receipt_page(estimator.guarantee_, model_card=card))
    if not quiet and not as_json:
        guarantee = estimator.guarantee_
        output.print_rows(f"Model {out}", [
            ("model", f"{type(estimator).__name__}, predicts {described.target}"), *holdout.told(described),
            *_lost_in_noise(guarantee), ("promise", guarantee.statement()),
            ("rests on", f"facts taken as public or true: {len(guarantee.assumptions)}; confirm each"),
            ("not covered", f"points that the receipt names: {len(guarantee.not_covered)}"),
            ("receipt", f"{receipt}; all of it: sottovoce show {out}"),
        ])  # fmt: skip
    found = None
    if split is not None and holdout.evaluate_epsilon is not None:
        evaluation = cli.beside(out, _EVALUATION)
        found = _evaluated(estimator, split.held_out.unread(scratch), holdout)
        output.write_or_keep({evaluation: found.to_json()})
        if not quiet and not as_json:
            output.print_rows(f"Evaluation {evaluation}, of what was set aside", found.rows())

    if as_json:
        output.print_json({
            "model": str(out), "receipt": str(receipt), "guarantee": estimator.guarantee_.to_dict(),
            "evaluation": None if found is None else found.to_dict(),
        })  # fmt: skip


def _lost_in_noise(guarantee: Guarantee) -> list[tuple[str, str]]:
    known: Any = guarantee.parameters
    few = "so few rows are mostly noise at this epsilon: a constant may do as well. See sottovoce plan"
    if is_one := known.get("solver") == "constant":
        few = "noise would hide the slopes of so few rows at this epsilon: the model is one number. See sottovoce plan"
    enough = max(40.0, 8.0 * math.sqrt(known["n_features"]))
    return [("WARNING", few)] * (is_one or guarantee.epsilon * known["n_samples"] < enough)

"""``sottovoce vertical simulate``: all parties on one machine."""

import csv
import math
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from sklearn.base import clone

from sottovoce._validation import number
from sottovoce.cli import _options as cli
from sottovoce.cli._echo import echo
from sottovoce.cli._models import label_facts
from sottovoce.cli._output import print_columns, print_json
from sottovoce.cli._rows import given_schema, note_unused
from sottovoce.cli.vertical._training import (
    EPSILON,
    HowToTrain,
    estimator_parameters,
    print_comparison,
    print_training,
)
from sottovoce.exceptions import DataError, ParameterError, SchemaError
from sottovoce.randomness import Purpose, Streams
from sottovoce.tables import Schema
from sottovoce.vertical import Comparison, ComputeSite, Helper, Party, VerticalLasso, VerticalSparseLogisticRegression
from sottovoce.vertical.engines import ENGINES, IN_PROCESS, available_engines
from sottovoce.vertical.estimators.base import VerticalEstimator
from sottovoce.vertical.estimators.receipts import ESTIMATORS

_NAME: Final = re.compile(r"\w[\w.-]*")
_WHO: Final = "Who holds which columns"


# ------------------------------------------------------------------ who holds which columns


@dataclass(frozen=True, kw_only=True)
class _Split:
    """Who holds which columns of a table, and who the labels."""

    schema: Schema
    parts: Mapping[str, Schema]  # by party, in order
    label_holder: str

    def read(self, path: Any, reading: cli.Reading) -> list[Party]:
        """Return the parties, each with its columns: row i is the same person everywhere."""
        table = reading.batches(path, self.schema.layout, names=self.schema.column_names).whole()
        y = self.parts[self.label_holder].labels(table)
        parties = [
            _party(name, each, each.features(table), y if name == self.label_holder else None)
            for name, each in self.parts.items()
        ]
        note_unused(table, self.schema.column_names)
        return parties

    def stand_ins(self) -> list[Party]:
        """Return parties with the same facts and one empty row, to check a plan with."""
        return [_party(name, each, np.zeros((1, each.n_features))) for name, each in self.parts.items()]


def _party(name: str, facts: Schema, X: Any, y: Any = None) -> Party:
    return Party(X, name=name, y=y, data_norm=facts.data_norm, data_bound=1.0, nonnegative=facts.nonnegative)


def _split_schema(schema: Schema, given: Sequence[str], label_holder: str | None) -> _Split:
    """Return who holds which columns: each of ``given`` is ``NAME=column,column``; a NAME alone has all others.

    Without a label holder it is the first party.
    """
    if schema.unit is not None:
        raise SchemaError(
            f"the schema names the unit {schema.unit!r}: between parties one aligned row is one person. Make a table "
            "with one row a person, and remove unit."
        )
    target = schema.require_target()
    columns = _by_name([column.name for column in schema.feature_columns], given)
    if len(columns) < 2:
        raise ParameterError(
            f"vertical training needs two parties or more; got {len(columns)}. Give more with --party "
            "NAME=column,column, or use sottovoce fit for one table of one organisation."
        )
    if label_holder is not None and label_holder not in columns:
        raise ParameterError(
            f"--label-holder {label_holder}: no party is named {label_holder!r}; there are {', '.join(columns)}."
        )
    parts = {
        name: replace(schema, columns=(*(schema[column] for column in held), target)) for name, held in columns.items()
    }
    return _Split(schema=schema, parts=parts, label_holder=label_holder or next(iter(columns)))


def _by_name(features: Sequence[str], given: Sequence[str]) -> dict[str, list[str]]:
    columns: dict[str, list[str]] = {}
    holder_of: dict[str, str] = {}
    rest: str | None = None
    for text in given:
        name, equals, listed = text.partition("=")
        if not _NAME.fullmatch(name):
            raise ParameterError(
                f"--party {text}: the name of a party has letters, digits, _, - and . only, because files are named "
                f"after it; got {name!r}."
            )
        if name in columns:
            raise ParameterError(f"--party {text}: party {name!r} is given twice. Give all its columns at once.")
        columns[name] = []
        if not equals:
            if rest is not None:
                raise ParameterError(f"--party {text}: only one party can have all other columns, and {rest!r} has.")
            rest = name
            continue
        for column in next(csv.reader([listed], skipinitialspace=True), []):
            if column not in features:
                raise ParameterError(
                    f"--party {text}: the schema has no feature column {column!r}; there are {', '.join(features)}."
                )
            if column in holder_of:
                raise ParameterError(f"--party {text}: the column {column!r} is that of {holder_of[column]!r} already.")
            holder_of[column] = name
            columns[name].append(column)
    left = [column for column in features if column not in holder_of]
    if rest is not None:
        columns[rest] = left
    elif left:
        raise ParameterError(
            f"--party: nobody holds the column(s) {', '.join(left)}. Add them to a party, give one --party NAME "
            'without columns, which has all others, or write type = "ignore" in the schema.'
        )
    empty = [name for name, held in columns.items() if not held]
    if empty:
        raise ParameterError(f"--party {empty[0]}: the party has no columns. Give it some, or leave it out.")
    return columns


# ------------------------------------------------------------------ the command


@cli.command
def simulate(
    *,
    table: Any = cli.TABLE,
    model: cli.ModelKind = cli.MODEL,
    epsilon: float = EPSILON,
    target: str | None = cli.TARGET,
    party: list[str] = cli.option(
        "--party", "Columns of a party, once for each; NAME alone has all others.", _WHO, metavar="NAME=COL,...",
        default=[],
    ),
    label_holder: str | None = cli.option("--label-holder", "Party with the labels. Default: the first.", _WHO),
    helper: list[str] = cli.option(
        "--helper", "--mechanism secure: a party without a table, which only computes with the others.", _WHO,
        metavar="NAME", default=[],
    ),
    schema: Path | None = cli.SCHEMA,
    training: HowToTrain,
    holdout: float = cli.option("--holdout", "Share of the people to compare on, drawn.", _WHO, default=0.2),
    reading: cli.Reading,
    quiet: bool = cli.flag("--quiet", "Print the comparison only."),
    as_json: bool = cli.JSON,
) -> None:  # fmt: skip
    """Try vertical training on one machine: what a joint model gains over the label holder's own.

    The columns of one TABLE are split between the parties. Always compares the label holder's own model with the joint
    one on people who took no part in the training.
    """
    if not party:
        raise ParameterError(
            "--party is missing: say who holds which columns, such as --party clinic=age,bmi --party bank (which has "
            "all others)."
        )
    split = _split_schema(given_schema(schema, target, table), party, label_holder)
    estimator = _make_estimator(model, split, training, helper, epsilon=epsilon)
    streams = Streams(training.random_state)
    share = number("--holdout", holdout, above=0.0, below=1.0)
    echo(
        "note: a simulation. All columns are brought together on this machine, and nothing protects anybody while it "
        "runs; the receipt is about what would be released between organisations.",
        err=True,
    )
    parties = split.read(table, reading)
    train, held_out = _hold_out(parties, share, streams.generator(Purpose.SHUFFLING))
    estimator.fit(_joined(train, helper, estimator))
    comparison = _compare(estimator, train, held_out)
    if estimator.history_ is not None and not estimator.history_.converged:
        echo(f"note: the training did not converge in {estimator.history_.n_steps} steps; raise --max-iter.", err=True)
    given_away = {name: receipt.statement() for name, receipt in estimator.party_guarantees_.items()}
    up, down = estimator.uplink_bytes_, estimator.downlink_bytes_
    if as_json:
        print_json({
            "comparison": comparison, "comparison_is_private": False, "guarantee": estimator.guarantee_.to_dict(),
            "people": train[0].n_rows, "rounds": estimator.n_rounds_, "bytes_up": up, "bytes_down": down,
            "given_away": given_away,
        })  # fmt: skip
        return
    if not quiet:
        _print_parties(split, parties)
        facts = [
            ("model", type(estimator).__name__), ("people trained on", f"{train[0].n_rows:,}"),
            ("people to compare on", f"{held_out[0].n_rows:,}"),
        ]  # fmt: skip
        print_training(facts, estimator.n_rounds_, up, down, estimator.guarantee_, given_away)
    print_comparison(
        f"Local against joint, on {comparison.n_samples:,} held-out people", comparison.local, comparison.joint,
        split.label_holder, _verdict(comparison, split.label_holder, _remedy(estimator)),
    )  # fmt: skip


def _make_estimator(
    kind: cli.ModelKind, split: _Split, training: HowToTrain, helpers: list[str], *, epsilon: float
) -> VerticalEstimator:
    """Return the estimator, with every parameter checked against the parties' public facts; no data are read."""
    chosen = estimator_parameters(kind, epsilon, training)
    own = {name: value for name, value in chosen.items() if value is not None}
    labels = label_facts(kind, split.schema.classes, split.schema.label_bounds, two=True)
    if not training.may_be_joint:
        cli.refuse_options("is for --mechanism secure or auto, or --aggregation secure", {"--helper": helpers})
    estimator = ESTIMATORS[kind](epsilon=epsilon, label_holder=split.label_holder, **labels, **own)
    with warnings.catch_warnings(action="ignore"):  # about one person; the plan of the fit warns again, about all
        estimator.plan(_joined(split.stand_ins(), helpers, estimator))
    return estimator


def _joined(parties: Sequence[Party], helpers: Sequence[str], estimator: Any) -> list[Party]:
    """Return the parties, each with a place to compute at, and the helpers.

    With an engine that is installed each party computes in a process of its own, over loopback; else, and with
    ``engine="in-process"``, in this one.
    """
    engine = getattr(estimator, "engine", IN_PROCESS)
    if engine in ENGINES and engine not in available_engines():
        raise ParameterError(f"--engine {engine}: it is not installed. pip install 'sottovoce[secure]'.")
    joint = {getattr(estimator, "mechanism", ""), getattr(estimator, "aggregation", "")} & {"secure", "auto"}
    enough = "spu" in available_engines() or len(parties) + len(helpers) > 2
    site = ComputeSite() if joint and engine != IN_PROCESS and enough else None
    for party in parties:
        party.computing = site
    return [*parties, *(Helper(name, computing=site) for name in helpers)]


def _compare(estimator: VerticalEstimator, train: list[Party], held_out: list[Party]) -> Comparison:
    """Return the joint model beside the label holder's own; a sparse one is trained here, without noise."""
    if not isinstance(estimator, (VerticalLasso, VerticalSparseLogisticRegression)):
        return estimator.compare(held_out)
    holder = [party for party in train if party.name == estimator.label_holder]
    own = {"epsilon": math.inf, "delta": None, "engine": "auto", "n_steps": None}
    local = clone(estimator).set_params(**own)
    return estimator.compare(held_out, local=local.fit(holder))


def _hold_out(parties: list[Party], share: float, draw: np.random.Generator) -> tuple[list[Party], list[Party]]:
    n = parties[0].n_rows
    if n < 4:
        raise DataError(f"--holdout: {n} people are too few to train on some and compare on others.")
    n_held_out = min(max(2, round(share * n)), n - 2)
    drawn = draw.permutation(n)
    rows, others = np.sort(drawn[n_held_out:]), np.sort(drawn[:n_held_out])
    return [party.take(rows) for party in parties], [party.take(others) for party in parties]


# ------------------------------------------------------------------ what is printed


def _print_parties(split: _Split, parties: list[Party]) -> None:
    headings = ["party", "rows", "features", "row norm, at most", "entries >= 0", "labels"]
    print_columns("Parties", headings, [
        (
            party.name, f"{party.n_rows:,}", f"{party.n_features:,}", f"{party.data_norm:.6g}",
            "yes" if party.nonnegative else "no", "yes" if party.name == split.label_holder else "",
        )
        for party in parties
    ])  # fmt: skip


def _remedy(estimator: VerticalEstimator) -> str:
    if estimator.epsilon == math.inf:
        return "here"
    option = "--aggregation" if hasattr(estimator, "aggregation") else "--mechanism"
    another = "" if estimator.plan_.name == "secure" else f", {option} secure"
    return f"at this epsilon. Keep the local model, or try a larger epsilon{another} or more people"


def _verdict(comparison: Comparison, label_holder: str, remedy: str) -> str:
    better = comparison.improved
    worse = [name for name in comparison.local if name not in better]
    if not worse:
        return f"The joint model beats {label_holder}'s own on these people."
    if better:
        return (
            f"The joint model is better than {label_holder}'s own in {', '.join(better)}, and not in "
            f"{', '.join(worse)}."
        )
    return (
        f"The joint model does not beat {label_holder}'s own on these people: the other parties' columns do not pay "
        f"{remedy}."
    )

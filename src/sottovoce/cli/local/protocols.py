"""``sottovoce local plan`` and ``protocol``: what to expect of a collection, and its public parameters."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sottovoce._files import write_whole
from sottovoce.cli import _options as cli
from sottovoce.cli._echo import echo
from sottovoce.cli._output import print_columns, print_rows
from sottovoce.cli._parameters import numbers
from sottovoce.cli._rows import confirmed_schema
from sottovoce.cli.local._shared import MAY_BE_MISSING, SCHEMA, TARGET, read_protocol
from sottovoce.exceptions import ParameterError
from sottovoce.local import CategoricalFeature, NumericFeature, Protocol
from sottovoce.tables import CategoricalColumn, NumericColumn, Schema

if TYPE_CHECKING:
    from sottovoce.local.planning import CollectionPlan


@cli.command
def protocol(
    *,
    epsilon: float = cli.option("--epsilon", "Privacy loss of one report.", default=cli.REQUIRED),
    out: Path = cli.output("--out", "Where to write the protocol (JSON).", default=cli.REQUIRED),
    n_expected: int = cli.option(
        "--n-expected", "Public. About how many reports will be collected.", default=cli.REQUIRED
    ),
    schema: Path = cli.option(
        "--schema", "Public facts about the features and the label (TOML).", default=cli.REQUIRED
    ),
    target: str | None = TARGET,
    missing: bool = MAY_BE_MISSING,
) -> cli.Told:
    """Write the public parameters of a collection: what devices send, and what it may reveal."""
    described = protocol_arguments(confirmed_schema(schema, target), missing)
    made = Protocol.create(epsilon=epsilon, n_expected=n_expected, **described)
    write_whole(out, made.to_json())
    told = {name: getattr(made, name) for name in ("epsilon", "task", "d", "degree")}
    return cli.Told({"protocol": str(out), "id": made.id.hex(), **told}, lambda: print_rows(f"Protocol {out}", [
        ("id", made.id.hex()),
        ("privacy of a report", f"epsilon = {made.epsilon:g}, pure local differential privacy"),
        ("predicts", made.task),
        ("coordinates", str(made.d)),
        ("moments", "first and second" if made.degree else "first only: too few reports for the second"),
    ]))  # fmt: skip


_PEOPLE = 10_000


@cli.command
def plan(
    *,
    n: int | None = cli.option("--n", f"How many people would report. Default: {_PEOPLE}."),
    protocol: Path | None = cli.argument("PROTOCOL", "Public parameters (JSON) that exist already.", default=None),
    d: int | None = cli.option("--d", "Number of features after encoding."),
    epsilon: str | None = cli.option(
        "--epsilon",
        "Privacy loss of one report; several with commas between them.",
        parser=numbers,
        metavar="NUMBER,...",
    ),
    schema: Path | None = SCHEMA,
    target: str | None = TARGET,
    missing: bool = MAY_BE_MISSING,
    delta: float | None = cli.option(
        "--delta", "Of the central epsilon after a shuffle. Default: 0.01 / N, at most 1e-6."
    ),
) -> cli.Told:
    """Predict the accuracy of a collection, and the people it needs, from public numbers. No data are read."""
    from sottovoce.local.planning import plan_collection

    assumed, n = n is None, _PEOPLE if n is None else n
    if protocol is not None:
        cli.refuse_options("cannot be given together with PROTOCOL, which says it", {
            "--d": d, "--epsilon": epsilon, "--schema": schema, "--target": target, "--missing": missing,
        })  # fmt: skip
        plans = [plan_collection(n, protocol=read_protocol(protocol), delta=delta)]
    else:
        if epsilon is None:
            raise ParameterError("--epsilon is missing: give it, or a PROTOCOL.")
        epsilons: Any = epsilon
        if schema is None:
            cli.refuse_options("is for --schema", {"--target": target, "--missing": missing})
            if d is None:
                raise ParameterError("--d is missing: give it, or --schema, or a PROTOCOL.")
            plans = [plan_collection(n, d, value, delta=delta) for value in epsilons]
        else:
            cli.refuse_options("cannot be given together with --schema, which says it", {"--d": d})
            rest = protocol_arguments(confirmed_schema(schema, target), missing)
            chosen = [Protocol.create(epsilon=value, n_expected=n, **rest) for value in epsilons]
            # as without a schema: each number of people has a protocol made for it
            found = [plan_collection(n, each.n_columns, each.epsilon, delta=delta) for each in chosen]
            plans = [replace(plan, protocol=each) for plan, each in zip(found, chosen, strict=True)]
    content = {"n": n, "d": plans[0].accuracy.d, "plans": [each.to_dict() for each in plans]}
    return cli.Told(content, lambda: _print(f"{n:,} people{', as no --n says how many' * assumed}", plans))


def _print(people: str, plans: list[CollectionPlan]) -> None:
    columns = [_cells(each) for each in plans]
    rows = [(name, *(column[name] for column in columns)) for name in columns[0]]
    headings = ("", *(f"epsilon {each.protocol.epsilon:g}" for each in plans))
    print_columns(f"{people}, {plans[0].accuracy.d} features after encoding", headings, rows)
    exact = ", ".join(f"{row.without_privacy:.3f}" for row in plans[0].accuracy.rows)
    echo(f"Predicted for a model population, not for your people; without privacy: {exact}.")
    echo("Useful: 80 % of what is above one half without privacy, where labels follow as usual.")
    echo("Against the collector the loss is epsilon, with delta = 0. The central epsilon holds only if a trusted")
    echo(f"party shuffles the reports before anybody sees them; its delta is {plans[0].delta:g}.")
    if any(each.protocol.degree and each.is_lost_in_noise for each in plans):
        echo("WARNING: second moments are asked for, and so few reports lose them in noise.")
    if any(each.protocol.task == "regression" for each in plans):
        echo("A label that is a number is rounded to one of two bounds: read the line of weak labels.")


def _cells(plan: CollectionPlan) -> dict[str, str]:
    from sottovoce.local.planning import NAMES
    from sottovoce.local.wire import REPORT_BYTES

    used = plan.protocol
    people = "beyond 500 million" if plan.n_useful is None else f"{plan.n_useful:,}"
    return {
        **{
            f"accuracy, labels follow {name}": f"{row.accuracy:.3f} +- {row.spread:.3f}"
            for name, row in zip(NAMES, plan.accuracy.rows, strict=True)
        },
        "people for a useful model": people,
        "moments": "first and second" if used.degree else "first only",
        "degree; K, m, b": f"{used.degree}; {used.K}, {used.m}, {used.b:g}",
        "bytes a report": str(REPORT_BYTES),
        "only if shuffled: central epsilon": (
            f"{plan.central_epsilon:.3g}" if plan.central_epsilon < used.epsilon else "no better"
        ),
    }


def protocol_arguments(schema: Schema, missing: bool) -> dict[str, Any]:
    """Return the features and the labels of a schema as arguments of `Protocol`."""
    if schema.unit is not None:
        raise ParameterError(f"unit {schema.unit!r}: one report is one person. Remove unit from the schema.")
    features = [_feature(column, missing) for column in schema.feature_columns]
    if schema.target is None:
        raise ParameterError("--target is missing: the schema names no column to predict.")
    if schema.classes is None:
        return {"features": features, "task": "regression", "label_bounds": schema.label_bounds}
    if any(isinstance(label, bool) for label in schema.classes):
        raise ParameterError(f"target {schema.target}: the categories true and false are not supported; write texts.")
    return {"features": features, "classes": schema.classes}


def _feature(column: Any, missing: bool) -> NumericFeature | CategoricalFeature:
    if column.missing is not None:
        raise ParameterError(
            f"column {column.name!r}: devices have a rule of their own for missing values. Remove missing, and give "
            "--missing, which takes no value."
        )
    if isinstance(column, NumericColumn):
        if column.scale != "linear" or column.bins is not None:
            raise ParameterError(f"column {column.name!r}: devices know neither bins nor a logarithmic scale.")
        return NumericFeature(column.name, *column.bounds, missing=missing)
    if not isinstance(column, CategoricalColumn):
        raise ParameterError(f"column {column.name!r}: devices know no dates. Describe what they report as a number.")
    if column.aliases or not all(isinstance(category, str) for category in column.categories):
        raise ParameterError(f"column {column.name!r}: devices know categories that are texts, without aliases.")
    return CategoricalFeature(column.name, tuple(map(str, column.categories)), missing=missing)

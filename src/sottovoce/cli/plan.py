"""``sottovoce plan``: how good a model to expect, what a fit would spend and how much noise it would add."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sottovoce._validation import whole_number
from sottovoce.cli import _options as cli
from sottovoce.cli._echo import echo
from sottovoce.cli._models import MODELS, REGRESSIONS, Planned, is_sparse, make_estimator, model_by_target
from sottovoce.cli._output import print_rows, write_page
from sottovoce.exceptions import ParameterError
from sottovoce.forecasting import Forecast, forecast
from sottovoce.tables import Schema

_FORECAST: Final = "What is known of the labels"
_LEAST_ROWS: Final = 10


@dataclass(frozen=True)
class Told:
    """What is publicly known of how well labels can be predicted."""

    accuracy_without_noise: float | None = cli.option(
        "--accuracy-without-noise",
        "Of a classifier without privacy, such as from a study. Default: three values, for labels that follow the "
        "features weakly, as usual and strongly.",
        _FORECAST,
    )
    largest_class: float | None = cli.option(
        "--largest-class", "Public share of the largest class. Default: all classes are equally large.", _FORECAST
    )
    r2_without_noise: float | None = cli.option(
        "--r2-without-noise", "Of a regression without privacy. Default: .2, .5 and .8.", _FORECAST
    )
    label_spread: float | None = cli.option(
        "--label-spread", "Standard deviation of labels over half the width of their bounds. Default: .35.", _FORECAST
    )


@cli.command
def plan(
    *,
    model: cli.ModelKind | None = cli.MODEL_OR_BY_TARGET,
    training: Planned,
    max_rows_per_unit: int | None = MODELS.option("max_rows_per_group", "--max-rows-per-unit"),
    n_samples: int = cli.option("--n-samples", "Public number of rows.", default=cli.REQUIRED),
    schema: Path | None = cli.option("--schema", "Take features, classes and label bounds from this schema (TOML)."),
    target: str | None = cli.option("--target", "The column to predict. Default: the schema's."),
    n_features: int | None = cli.option("--n-features", "Number of features, without a schema, of two classes."),
    told: Told,
    picture: Path | None = cli.output(
        "--picture", "Draw accuracy against epsilon and against rows into this SVG file."
    ),
) -> cli.Told:
    """Show how good a model to expect, what a fit would spend and how much noise it would add. No data are read."""
    if max_rows_per_unit is not None:
        max_rows_per_unit = whole_number("--max-rows-per-unit", max_rows_per_unit, at_least=1)
    if schema is None:
        cli.refuse_options("is for --schema", {"--target": target})
        n_features = cli.require("--n-features", n_features, "give it, or --schema.")
        classes: tuple[Any, ...] | None = (0, 1)
        bounds = None
    else:
        cli.refuse_options("cannot be given together with --schema, which says it", {"--n-features": n_features})
        described = Schema.from_toml(schema)
        described = described if target is None else described.with_target(target)
        target = described.require_target().name
        n_features, classes, bounds = described.n_features, described.classes, described.label_bounds
        if max_rows_per_unit is None:
            max_rows_per_unit = described.max_rows_per_unit
    model = model_by_target(model, bounds, target)
    if schema is None and model in REGRESSIONS:
        raise ParameterError(f"--schema is missing: --model {model} predicts a number, and needs its public bounds.")
    # the plan is made for rows in units of their bound; with --radius in those units too. Without a schema a bound on
    # the norm of a row is released by default, as in Python, which the plan is to show.
    unit = {"data_bound": 1.0} if is_sparse(model) else {"data_norm": "auto" if schema is None else 1.0}
    options = {**vars(training), **unit, "max_rows_per_group": max_rows_per_unit}
    estimator = make_estimator(model, classes=classes, label_bounds=bounds, options=options)
    summary = estimator.plan(n_samples, n_features).summary()
    why = _why_none(model, training.epsilon, n_samples)
    if why:
        cli.refuse_options(f"is for a forecast, and there is none: {why}", {**vars(told), "picture": picture})
    found = None if why else forecast(estimator, n_samples, n_features, **vars(told))
    if found is not None and picture is not None:
        write_page(picture, found.picture())
    return cli.Told(
        {**summary, **({} if found is None else {"forecast": found.to_dict()})},
        f"No forecast of accuracy: {why}." if found is None else lambda: _print_forecast(found),
        lambda: print_rows("For the accountant", [(name, _text(value)) for name, value in summary.items()]),
    )  # fmt: skip


def _why_none(model: cli.ModelKind, epsilon: float, n_samples: int) -> str:
    if is_sparse(model):
        return f"--model {model.value} has none yet"
    if math.isinf(epsilon):
        return "without noise there is nothing to foresee"
    return f"fewer than {_LEAST_ROWS} rows" if n_samples < _LEAST_ROWS else ""


def _print_forecast(found: Forecast) -> None:
    (_, sentence), *rest = found.table()
    echo(sentence)
    print_rows("Forecast, from made-up tables", rest)


def _text(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)

"""``sottovoce plan``: what a fit would spend and how much noise it would add, before any data are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

from sottovoce._plain_data import plain
from sottovoce._validation import whole_number
from sottovoce.cli._models import is_sparse, make_estimator
from sottovoce.cli._options import (
    ACCEPT_DELTA,
    DELTA,
    EPSILON,
    MODEL,
    REQUIRED,
    ModelKind,
    Training,
    flag,
    option,
    refuse_options,
    require,
    with_groups,
)
from sottovoce.cli._output import print_rows
from sottovoce.cli._parse import parse_bounds
from sottovoce.tables import Encoder, Schema

__all__ = ["plan"]


@with_groups
def plan(
    *,
    model: ModelKind = MODEL,
    epsilon: float = EPSILON,
    n_samples: int = option("--n-samples", "Public number of rows.", default=REQUIRED),
    delta: float | None = DELTA,
    accept_delta: float | None = ACCEPT_DELTA,
    schema: Path | None = option("--schema", "Take features, classes and label bounds from this schema."),
    target: str | None = option("--target", "The column to predict. Default: the schema's."),
    n_features: int | None = option("--n-features", "Number of features, without a schema."),
    n_classes: int | None = option("--n-classes", "Number of classes, without a schema. Default: 2."),
    label_bounds: str | None = option("--label-bounds", "Bounds of the labels (ridge, lasso), without a schema."),
    training: Training,
    as_json: bool = flag("--json", "Print the plan as JSON."),
) -> None:
    """Show what a fit would spend, and how much noise it would add. No data are read."""
    persons: dict[str, Any] = {}
    if schema is None:
        n_features = require("--n-features", n_features, "give it, or --schema.")
        n_classes = whole_number("--n-classes", 2 if n_classes is None else n_classes, at_least=2)
        classes: tuple[Any, ...] | None = tuple(range(n_classes))
        bounds = parse_bounds("--label-bounds", label_bounds)
    else:
        refuse_options("cannot be given together with --schema, which says it", {
            "--n-features": n_features, "--n-classes": n_classes, "--label-bounds": label_bounds,
        })  # fmt: skip
        described = Schema.from_toml(schema)
        encoder = Encoder(described if target is None else described.with_target(target))
        n_features, classes, bounds = encoder.n_features, encoder.schema.classes, encoder.schema.label_bounds
        persons["max_rows_per_group"] = described.max_rows_per_unit
    # the plan is made for rows in units of their bound; with --radius in those units too
    unit = {"data_bound" if is_sparse(model) else "data_norm": 1.0}
    options = {
        "epsilon": epsilon,
        "delta": delta,
        "accept_delta": accept_delta,
        **unit,
        **persons,
        **training.parameters(),
    }
    estimator = make_estimator(model, classes=classes, label_bounds=bounds, options=options)
    summary = estimator.plan(n_samples, n_features).summary()
    if as_json:
        typer.echo(json.dumps(plain(summary), indent=2, allow_nan=False))
    else:
        print_rows("Plan", [(name, _text(value)) for name, value in summary.items()])


def _text(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)

"""``sottovoce plan``: what a fit would spend and how much noise it would add, before any data are read."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated, Any

import typer

from sottovoce._validation import whole_number
from sottovoce.cli._models import is_sparse, make_estimator
from sottovoce.cli._options import (
    AcceptDeltaOption,
    AdjacencyOption,
    AlphaOption,
    DeltaOption,
    EpsilonOption,
    InterceptOption,
    ModelOption,
    NPublicOption,
    NStepsOption,
    RadiusOption,
    SolverOption,
)
from sottovoce.cli._output import print_rows
from sottovoce.cli._parse import parse_alpha, parse_bounds
from sottovoce.exceptions import ParameterError
from sottovoce.tables import Encoder, Schema

__all__ = ["plan"]


def plan(
    model: ModelOption,
    epsilon: EpsilonOption,
    n_samples: Annotated[int, typer.Option("--n-samples", help="Public number of rows.")],
    delta: DeltaOption = None,
    accept_delta: AcceptDeltaOption = None,
    schema: Annotated[
        Path | None, typer.Option("--schema", help="Take features, classes and label bounds from this schema.")
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", help="The column to predict. Default: the schema's.")
    ] = None,
    n_features: Annotated[
        int | None, typer.Option("--n-features", help="Number of features, without a schema.")
    ] = None,
    n_classes: Annotated[
        int | None, typer.Option("--n-classes", help="Number of classes, without a schema. Default: 2.")
    ] = None,
    label_bounds: Annotated[
        str | None, typer.Option("--label-bounds", help="Bounds of the labels (ridge, lasso), without a schema.")
    ] = None,
    alpha: AlphaOption = None,
    solver: SolverOption = None,
    radius: RadiusOption = None,
    n_steps: NStepsOption = None,
    adjacency: AdjacencyOption = None,
    n_public: NPublicOption = None,
    intercept: InterceptOption = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
) -> None:
    """Show what a fit would spend, and how much noise it would add. No data are read."""
    if schema is None:
        if n_features is None:
            raise ParameterError("--n-features is missing: give it, or --schema.")
        classes: tuple[Any, ...] | None = tuple(
            range(whole_number("--n-classes", 2 if n_classes is None else n_classes, at_least=2))
        )
        bounds = None if label_bounds is None else parse_bounds("--label-bounds", label_bounds)
    else:
        for option, value in (
            ("--n-features", n_features),
            ("--n-classes", n_classes),
            ("--label-bounds", label_bounds),
        ):
            if value is not None:
                raise ParameterError(f"{option} cannot be given together with --schema, which says it.")
        described = Schema.from_toml(schema)
        encoder = Encoder(described if target is None else described.with_target(target))
        n_features, classes, bounds = encoder.n_features, encoder.schema.classes, encoder.schema.label_bounds
    estimator = make_estimator(
        model,
        classes=classes,
        label_bounds=bounds,
        options={
            "epsilon": epsilon,
            "delta": delta,
            "accept_delta": accept_delta,
            # the plan is made for rows in units of their bound; with --radius in those units too
            "data_bound" if is_sparse(model) else "data_norm": 1.0,
            "radius": radius,
            "n_steps": n_steps,
            "alpha": parse_alpha("--alpha", alpha),
            "solver": solver,
            "adjacency": adjacency,
            "n_public": n_public,
            "fit_intercept": intercept,
        },
    )
    summary = estimator.plan(n_samples, n_features).summary()
    if as_json:
        plain = {name: _plain(value) for name, value in summary.items()}
        typer.echo(json.dumps(plain, indent=2, allow_nan=False))
    else:
        print_rows("Plan", [(name, _text(value)) for name, value in summary.items()])


def _plain(value: object) -> object:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _text(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)

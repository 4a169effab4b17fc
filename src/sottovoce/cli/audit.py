"""``sottovoce audit``: try to refute what a private estimator claims, of sottovoce or of anybody."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from sottovoce._files import check_writable, write_whole
from sottovoce.audit import AuditReport, audit_estimator, worst_case_pairs
from sottovoce.cli._output import print_rows
from sottovoce.cli._parse import parse_bounds, parse_classes
from sottovoce.exceptions import ParameterError

__all__ = ["audit"]

audit = typer.Typer(no_args_is_help=True)

_TABLES = "The tables, within what the estimator was told"
_EFFORT = "Effort"

VIOLATED = 3  # exit code


@audit.callback()
def _audit() -> None:
    """Try to refute what a private estimator claims."""


@audit.command()
def model(
    estimator: Annotated[
        str, typer.Option("--estimator", help="Its class, as package.module.Class; scikit-learn's fit and get_params.")
    ],
    epsilon: Annotated[float, typer.Option("--epsilon", help="The epsilon that it claims.")],
    delta: Annotated[float, typer.Option("--delta", help="The delta that it claims; 0 for pure privacy.")] = 0.0,
    parameters: Annotated[
        str, typer.Option("--parameters", help="Of its constructor, as JSON. A random_state is changed in every run.")
    ] = "{}",
    python: Annotated[
        Path | None, typer.Option("--python", help="Interpreter of the environment it lives in. Default: this one.")
    ] = None,
    data_norm: Annotated[
        float | None, typer.Option("--data-norm", help="Its bound on the norm of a row.", rich_help_panel=_TABLES)
    ] = None,
    data_bound: Annotated[
        float | None, typer.Option("--data-bound", help="Its bound on every entry.", rich_help_panel=_TABLES)
    ] = None,
    classes: Annotated[
        str | None, typer.Option("--classes", help="Its two classes, such as -1,1.", rich_help_panel=_TABLES)
    ] = None,
    label_bounds: Annotated[
        str | None, typer.Option("--label-bounds", help="Its bounds of a number to predict.", rich_help_panel=_TABLES)
    ] = None,
    n_rows: Annotated[int, typer.Option("--n-rows", help="Rows of a table.", rich_help_panel=_TABLES)] = 8,
    n_features: Annotated[int, typer.Option("--n-features", help="Columns.", rich_help_panel=_TABLES)] = 24,
    adjacency: Annotated[
        str, typer.Option("--adjacency", help="replace-one or add-remove.", rich_help_panel=_TABLES)
    ] = "replace-one",
    runs: Annotated[int, typer.Option("--runs", help="Main runs on each table.", rich_help_panel=_EFFORT)] = 2000,
    pilot: Annotated[int, typer.Option("--pilot", help="Runs to choose the tables.", rich_help_panel=_EFFORT)] = 300,
    confidence: Annotated[float, typer.Option("--confidence", rich_help_panel=_EFFORT)] = 0.999,
    gaussian: Annotated[
        bool,
        typer.Option("--gaussian", help="Suppose a Gaussian mechanism: more from fewer runs.", rich_help_panel=_EFFORT),
    ] = False,
    jobs: Annotated[int, typer.Option("--jobs", help="Processes at the same time.", rich_help_panel=_EFFORT)] = 1,
    out: Annotated[Path | None, typer.Option("--out", help="Where to write the report (JSON).")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress on stderr.")] = False,
) -> None:
    """Fit an estimator again and again on neighbouring tables, and bound its epsilon from below.

    Exit code 0: not refuted; 3: the claim is violated, with the stated confidence; 2: wrong use, or it failed.
    """
    if out is not None:
        check_writable("--out", out, overwrite=force)
    pairs = worst_case_pairs(
        n_rows=n_rows,
        n_features=n_features,
        data_norm=data_norm,
        data_bound=data_bound,
        classes=None if classes is None else parse_classes("--classes", classes),
        label_bounds=None if label_bounds is None else parse_bounds("--label-bounds", label_bounds),
        adjacency=adjacency,
    )
    report = audit_estimator(
        estimator,
        pairs,
        epsilon=epsilon,
        delta=delta,
        n_runs=runs,
        n_pilot=pilot,
        confidence=confidence,
        gaussian=gaussian,
        parameters=_parameters(parameters),
        python=python,
        n_jobs=jobs,
        progress=None if quiet else lambda text: typer.echo(text, err=True),
    )
    if out is not None:
        write_whole(out, json.dumps(report.to_dict(), indent=2, allow_nan=False) + "\n")
    print_rows(f"Audit of {estimator}", _rows(report))
    if report.violated:
        raise typer.Exit(VIOLATED)


def _parameters(text: str) -> dict[str, Any]:
    try:
        given = json.loads(text)
    except ValueError as error:
        raise ParameterError(f"--parameters must be a JSON object, such as '{{\"C\": 1.0}}'; {error}.") from None
    if not isinstance(given, dict):
        raise ParameterError(f"--parameters must be a JSON object, such as '{{\"C\": 1.0}}'; got {text!r}.")
    return given


def _rows(report: AuditReport) -> list[tuple[str, str]]:
    return [
        ("finding", report.statement()),
        ("epsilon, claimed", f"{report.epsilon:g}"),
        ("epsilon, at least", f"{report.lower_bound:.4g}"),
        ("delta", f"{report.delta:g}"),
        ("confidence", f"{report.confidence:g}"),
        (
            "tables tried, with the rough bound of each",
            "\n".join(f"{v:.3f}  {name}" for name, v in report.pilot.items()),
        ),
    ]

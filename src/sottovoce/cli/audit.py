"""``sottovoce audit``: try to refute what a private estimator claims, of sottovoce or of anybody."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

from sottovoce._files import check_writable, write_whole
from sottovoce.audit import AuditReport, audit_estimator, worst_case_pairs
from sottovoce.cli._echo import echo
from sottovoce.cli._lazy import group
from sottovoce.cli._options import JSON, REQUIRED, flag, option
from sottovoce.cli._output import print_json, print_rows
from sottovoce.cli._parse import parse_bounds, parse_classes
from sottovoce.exceptions import ParameterError

audit = group("Try to refute what a private estimator claims.", model=f"{__name__}:model")

_TABLES = "The tables, within what the estimator was told"
_EFFORT = "Effort"
_CLAIM = "The estimator and its claim"

VIOLATED = 3  # exit code


def model(
    estimator: str = option(
        "--estimator",
        "Its class, as package.module.Class; scikit-learn's fit and get_params.",
        _CLAIM,
        default=REQUIRED,
    ),
    epsilon: float = option("--epsilon", "The epsilon that it claims.", _CLAIM, default=REQUIRED),
    delta: float = option("--delta", "The delta that it claims; 0 for pure privacy.", _CLAIM, default=0.0),
    parameters: str = option(
        "--parameters", "Of its constructor, as JSON. A random_state is changed in every run.", _CLAIM, default="{}"
    ),
    python: Path | None = option("--python", "Interpreter of the environment it lives in. Default: this one.", _CLAIM),
    data_norm: float | None = option("--data-norm", "Its bound on the norm of a row.", _TABLES),
    data_bound: float | None = option("--data-bound", "Its bound on every entry.", _TABLES),
    classes: str | None = option("--classes", "Its two classes, such as -1,1.", _TABLES),
    label_bounds: str | None = option("--label-bounds", "Its bounds of a number to predict.", _TABLES),
    n_rows: int = option("--n-rows", "Rows of a table.", _TABLES, default=8),
    n_features: int = option("--n-features", "Columns.", _TABLES, default=24),
    adjacency: str = option("--adjacency", "replace-one or add-remove.", _TABLES, default="replace-one"),
    runs: int = option("--runs", "Main runs on each table.", _EFFORT, default=2000),
    pilot: int = option("--pilot", "Runs to choose the tables.", _EFFORT, default=300),
    confidence: float = option("--confidence", "Of the finding.", _EFFORT, default=0.999),
    gaussian: bool = flag("--gaussian", "Suppose a Gaussian mechanism: more from fewer runs.", _EFFORT),
    jobs: int = option("--jobs", "Processes at the same time.", _EFFORT, default=1),
    out: Path | None = option("--out", "Where to write the report (JSON)."),
    force: bool = flag("--force", "Replace a file that exists."),
    quiet: bool = flag("--quiet", "No progress on stderr."),
    as_json: bool = JSON,
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
        classes=parse_classes("--classes", classes),
        label_bounds=parse_bounds("--label-bounds", label_bounds),
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
        progress=None if quiet else lambda text: echo(text, err=True),
    )
    if out is not None:
        write_whole(out, json.dumps(report.to_dict(), indent=2, allow_nan=False) + "\n")
    if as_json:
        print_json(report.to_dict())
    else:
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

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
from sottovoce.cli._options import JSON, REQUIRED, flag, option, with_groups
from sottovoce.cli._output import print_rows, tell
from sottovoce.cli._parameters import Parameters, options_of
from sottovoce.cli._parse import parse_bounds, parse_classes
from sottovoce.exceptions import ParameterError

audit = group("Try to refute what a private estimator claims.", model=f"{__name__}:model")

_TABLES = "The tables, within what the estimator was told"
_EFFORT = "Effort"
_CLAIM = "The estimator and its claim"

VIOLATED = 3  # exit code


@options_of(
    audit_estimator, _CLAIM, epsilon={"text": "The epsilon that it claims."},
    delta={"text": "The delta that it claims; 0 for pure privacy.", "default": 0.0},
    python={"kind": Path | None, "text": "Interpreter of the environment it lives in. Default: this one."},
)  # fmt: skip
class _Claim(Parameters):
    """What the estimator claims, and where it lives."""


@options_of(
    audit_estimator, _EFFORT, n_runs={"name": "--runs"}, n_pilot={"name": "--pilot"},
    confidence={"text": "Of the finding."}, gaussian={},
    n_jobs={"name": "--jobs", "text": "Processes at the same time."},
)  # fmt: skip
class _Effort(Parameters):
    """How much is tried."""


@options_of(
    worst_case_pairs, _TABLES, data_norm={"text": "Its bound on the norm of a row."},
    data_bound={"text": "Its bound on every entry."},
    classes={"text": "Its two classes, such as -1,1.", "kind": str | None, "reader": parse_classes},
    label_bounds={"text": "Its bounds of a number to predict.", "kind": str | None, "reader": parse_bounds},
    n_rows={}, n_features={}, adjacency={"text": "replace-one or add-remove."},
)  # fmt: skip
class _Tables(Parameters):
    """The tables, within what the estimator was told."""


@with_groups
def model(
    *,
    estimator: str = option(
        "--estimator",
        "Its class, as package.module.Class; scikit-learn's fit and get_params.",
        _CLAIM,
        default=REQUIRED,
    ),
    claim: _Claim,
    parameters: str = option(
        "--parameters", "Of its constructor, as JSON. A random_state is changed in every run.", _CLAIM, default="{}"
    ),
    tables: _Tables,
    effort: _Effort,
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
    report = audit_estimator(
        estimator, worst_case_pairs(**tables.arguments()), parameters=_parameters(parameters),
        progress=None if quiet else lambda text: echo(text, err=True), **claim.arguments(), **effort.arguments(),
    )  # fmt: skip
    if out is not None:
        write_whole(out, json.dumps(report.to_dict(), indent=2, allow_nan=False) + "\n")
    tell(as_json, report.to_dict(), lambda: print_rows(f"Audit of {estimator}", _rows(report)))
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
